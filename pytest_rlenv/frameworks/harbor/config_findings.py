"""What is wrong with a ``task.toml``, in words: errors of the schema, and fields that nobody reads."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from pytest_rlenv.errors import TaskInvalid

_SHOWN_ERRORS = 3
_SHOWN_CHARS = 60
_SECRET_TABLES = frozenset({"env", "headers"})
"""Tables whose values may be credentials: messages name their keys only."""

_NUMBER = "a number"
_EXPECTED = {
    "string_type": "a string",
    "string_too_short": "a string that is not empty",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number with fewer digits",
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "an array",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}


def invalid_config(
    error: ValidationError, raw: Any, path: Path | str, *, prefix: Sequence[str] = ()
) -> TaskInvalid:
    """Return the error to raise for a table that does not fit its model.

    Args:
        error: what pydantic found.
        raw: the table as it was read.
        path: the file's name for the message.
        prefix: where the table is in the file.
    """
    lines = [f"{_dotted([*prefix, *loc])}{value}: {text}" for loc, value, text in _problems(error, raw)]
    more = len(lines) - _SHOWN_ERRORS
    message = "; ".join(lines[:_SHOWN_ERRORS]) + (f" (and {more} more)" if more > 0 else "")
    return TaskInvalid(f"{path}: {message}", detail="\n".join(lines) if more > 0 else "")


def config_warnings(raw: Any, model: type[BaseModel], where: str = "") -> list[str]:
    """Return one line for each field that is unknown (and so ignored) or deprecated.

    Nothing below ``metadata`` is looked at: it is free-form.
    """
    if not isinstance(raw, Mapping):
        return []
    deprecated: Mapping[str, str] = getattr(model, "DEPRECATED", {})
    found: list[str] = []
    for key, value in raw.items():
        field = f"{where}.{key}" if where else key
        if key in deprecated:
            found.append(_deprecation(field, key, value, deprecated[key]))
        elif key not in model.model_fields:
            found.append(_unknown(field, key, model))
        elif inner := _model_in(model.model_fields[key].annotation):
            items = enumerate(value) if isinstance(value, list) else [(None, value)]
            for index, item in items:
                at = field if index is None else f"{field}[{index}]"
                found += config_warnings(item, inner, at)
    return found


def newer_schema(version: str, known: str) -> list[str]:
    """Return a warning if a version such as ``1.5`` is later than the one that is known."""
    try:
        later = [int(part) for part in version.split(".")] > [int(part) for part in known.split(".")]
    except ValueError:
        return []  # Harbor takes any text
    return [f"schema_version = {_shown(version)} is newer than what is known ({known})"] if later else []


def _unknown(field: str, key: str, model: type[BaseModel]) -> str:
    close = difflib.get_close_matches(key, model.model_fields, n=1)
    hint = f"; did you mean `{close[0]}`?" if close else ""
    return f"{field}: unknown field, ignored{hint}"


def _deprecation(field: str, key: str, value: Any, new: str) -> str:
    if key in ("memory", "storage") and not isinstance(value, str):
        return f'{field} = {_shown(value)} is ignored, as it is not a text such as "2G"; use `{new}`'
    return f"{field} is deprecated; use `{new}`"


def _model_in(annotation: Any) -> type[BaseModel] | None:
    # on Python 3.10 list[int] is an instance of type, but no class
    if get_origin(annotation) is None and isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for arg in get_args(annotation) if (m := _model_in(arg))), None)


def _problems(error: ValidationError, raw: Any) -> list[tuple[list[str | int], str, str]]:
    """Return location, value and text of each problem; the branches of a union become one."""
    texts: dict[tuple[str | int, ...], list[str]] = {}
    values: dict[tuple[str | int, ...], Any] = {}
    for item in error.errors(include_url=False):
        loc, value = _locate(item["loc"], raw, item["type"])
        values[loc] = value
        text = _expected(item["type"], item.get("ctx", {}), item["msg"], str(loc[-1]) if loc else "")
        if text not in texts.setdefault(loc, []):
            texts[loc].append(text)
    problems = []
    for loc, found in texts.items():
        if any(other[: len(loc)] == loc and other != loc for other in texts):
            continue  # another branch of a union got further into the value
        value = "" if _SECRET_TABLES.intersection(loc) else _assigned(values[loc])
        problems.append((list(loc), value, _joined(found)))
    return problems


_ABSENT = object()


def _locate(loc: tuple[str | int, ...], raw: Any, kind: str) -> tuple[tuple[str | int, ...], Any]:
    """Return the part of pydantic's location that is in the file, and the value there."""
    path: list[str | int] = []
    value = raw
    for part in loc:
        if not _holds(value, part):
            continue  # a tag for a branch of a union
        value = value[part]
        path.append(part)
    if kind == "missing":
        return (*path, loc[-1]), _ABSENT
    if not path:  # a field that was set through its deprecated name
        return loc[:1], _ABSENT
    return tuple(path), value


def _holds(value: Any, part: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(part, int) and part < len(value)
    return isinstance(value, Mapping) and part in value


def _expected(kind: str, context: Mapping[str, Any], message: str, field: str) -> str:
    if kind == "value_error":
        return str(context["error"])
    if kind == "missing":
        return "required, but not set"
    if kind in ("enum", "literal_error"):
        return f"expected {context['expected']}"
    text = _EXPECTED.get(kind)
    if text is None:
        return message[:1].lower() + message[1:]
    return f"expected {text} of seconds" if text == _NUMBER and field.endswith("_sec") else f"expected {text}"


def _joined(texts: list[str]) -> str:
    if len(texts) > 1 and all(text.startswith("expected ") for text in texts):
        kinds = [text.removeprefix("expected ") for text in texts]
        if _NUMBER in kinds and "a whole number" in kinds:
            kinds.remove("a whole number")
        return "expected " + " or ".join(kinds)
    return "; ".join(texts)


def _assigned(value: Any) -> str:
    if value is _ABSENT or isinstance(value, Mapping):
        return ""
    return " is an array" if isinstance(value, list) else f" = {_shown(value)}"


def _shown(value: Any) -> str:
    """Return a TOML or YAML value in short, all of it printable."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        text = text if text.isprintable() else json.dumps(value).replace("\x7f", "\\u007f")
    elif isinstance(value, (datetime, date, time)):
        text = value.isoformat()
    elif isinstance(value, int):
        text = f"{value:d}" if value.bit_length() < 256 else "a very large number"
    elif isinstance(value, (list, Mapping)):
        text = "an array" if isinstance(value, list) else "a table"
    else:
        text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."


def _dotted(loc: Sequence[str | int]) -> str:
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text if text.isprintable() else ascii(text)
