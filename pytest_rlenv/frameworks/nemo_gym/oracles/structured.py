"""Instances of JSON schemas for rows of ``structured_outputs``, in the format or by the tool asked for.

The server makes all properties required before it checks, so all are given.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from pytest_rlenv.frameworks.nemo_gym.responses import Item, function_call, message

_DEEPEST = 40
_BOUNDS: dict[str, Callable[[float, float], bool]] = {
    "minimum": operator.ge,
    "exclusiveMinimum": operator.gt,
    "maximum": operator.le,
    "exclusiveMaximum": operator.lt,
}
_TEXTS = {
    "date": "2024-01-01",
    "date-time": "2024-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "a@example.org",
    "uri": "https://example.org",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def instance(row: Mapping[str, Any]) -> Sequence[Item] | None:
    """Answer an instance of the row's schema."""
    schema = json.loads(row["schema_str"])
    value = example(schema, schema)
    if row.get("response_mode") == "tool_call":
        key, tool = row.get("tool_payload_key"), row.get("tool_name")
        return None if not tool else [function_call(tool, {key: value} if key else value)]
    written = _WRITERS[row.get("schema_type") or "json"](value)
    return [message(written)]


def example(schema: Any, root: Any, depth: int = 0) -> Any:
    """Return the plainest value that a schema takes.

    Args:
        schema: the schema.
        root: the whole schema, in which references point.
        depth: how deep this is in it.

    Raises:
        ValueError: it has no end, or points at nothing.
    """
    if depth > _DEEPEST:
        raise ValueError("the schema has no end")
    if not isinstance(schema, dict):
        return {}
    if isinstance(schema.get("$ref"), str):
        return example(_pointed(schema["$ref"], root), root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return next((each for each in schema["enum"] if each is not None), schema["enum"][0])
    for key in ("oneOf", "anyOf"):
        if schema.get(key):
            return example(schema[key][0], root, depth + 1)
    if schema.get("allOf"):
        return example(_joined([schema, *schema["allOf"]]), root, depth + 1)
    return _of_kind(_kind(schema), schema, root, depth)


def _of_kind(kind: str, schema: Mapping[str, Any], root: Any, depth: int) -> Any:
    if kind == "object":
        properties = schema.get("properties")
        items = properties.items() if isinstance(properties, dict) else ()
        return {name: example(inner, root, depth + 1) for name, inner in items}
    if kind == "array":
        count = max(1, _whole(schema.get("minItems")))
        return [example(schema.get("items", {"type": "string"}), root, depth + 1)] * count
    if kind in ("integer", "number"):
        return _number(schema, kind)
    if kind in ("boolean", "null"):
        return True if kind == "boolean" else None
    return _text(schema)


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _text(schema: Mapping[str, Any]) -> str:
    text = _TEXTS.get(str(schema.get("format")), "text")
    text = text.ljust(_whole(schema.get("minLength")), "x")
    return text[: _whole(schema["maxLength"])] if isinstance(schema.get("maxLength"), int) else text


def _number(schema: Mapping[str, Any], kind: str) -> float:
    """Return the first of some plain numbers that the schema takes, 1 if it takes none of them."""
    step = _step(schema)
    bounds = [schema[key] for key in _BOUNDS if _is_number(schema.get(key))]
    tried: list[float] = [1, 0, step]
    for bound in bounds:
        near = (bound // step) * step
        tried += [bound, near, near + step, near - step, bound + 1, bound - 1]
    tried.append(sum(bounds) / max(len(bounds), 1))
    if kind == "integer":
        tried = [int(each) for each in tried]
    return next((each for each in tried if _takes(schema, each)), 1)


def _takes(schema: Mapping[str, Any], value: float) -> bool:
    holds = all(check(value, schema[key]) for key, check in _BOUNDS.items() if _is_number(schema.get(key)))
    return holds and not ("multipleOf" in schema and value % _step(schema))


def _step(schema: Mapping[str, Any]) -> float:
    step: Any = schema.get("multipleOf")
    return step if _is_number(step) and step > 0 else 1


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _pointed(reference: str, root: Any) -> Any:
    found = root
    for part in reference.removeprefix("#/").split("/"):
        if not isinstance(found, dict) or part not in found:
            raise ValueError(f"{reference} points at nothing")
        found = found[part]
    return found


def _joined(schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    joined: dict[str, Any] = {"properties": {}}
    for schema in schemas:
        properties = schema.get("properties", {})
        joined |= {key: value for key, value in schema.items() if key not in ("allOf", "properties")}
        joined["properties"] |= properties
    return joined


# ---- formats


def _toml(value: Any) -> str:
    """Write a table; what is in it stands on one line each. TOML has no null: such keys are left out."""
    if not isinstance(value, dict):
        raise ValueError("a TOML document is a table")
    return "".join(f"{json.dumps(key)} = {_toml_value(inner)}\n" for key, inner in value.items())


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {_toml_value(inner)}" for key, inner in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value)


def _xml(value: Any) -> str:
    """Write a document; an object with one key is its root element, since a document has one."""
    if isinstance(value, dict) and len(value) == 1:
        name, inner = next(iter(value.items()))
        return _element(name, inner)
    return _element("root", value)


def _element(name: str, value: Any) -> str:
    if isinstance(value, list):
        return "".join(_element(name, each) for each in value)
    if isinstance(value, dict):
        return f"<{name}>{''.join(_element(key, inner) for key, inner in value.items())}</{name}>"
    text = "" if value is None else json.dumps(value) if not isinstance(value, str) else value
    return f"<{name}>{escape(text)}</{name}>"


def _csv(value: Any) -> str:
    """Write rows below their names; an object is one row."""
    rows = value if isinstance(value, list) else [value]
    names = list(rows[0])
    lines = [names, *([_cell(row[name]) for name in names] for row in rows)]
    return "".join(
        ",".join(f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in line) + "\n" for line in lines
    )


def _cell(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


_WRITERS: dict[str, Callable[[Any], str]] = {
    "json": json.dumps,
    "yaml": json.dumps,  # which is YAML, too
    "toml": _toml,
    "xml": _xml,
    "csv": _csv,
}
