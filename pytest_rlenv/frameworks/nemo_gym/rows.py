"""Rows of a JSONL file: found in one pass, and read again one by one.

A row is an object with ``responses_create_params``. NeMo Gym 0.7 also writes "materialised" rows, with the
same object under ``task_input`` and the row's name under ``task_id``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.rewards import json_kind

REQUEST = "responses_create_params"
_INPUT = "task_input"
_ID_KEYS = ("task_id", "problem_id", "instance_id", "id", "uuid", "hash_id")
"""Where a row's own name is looked for, in this order: the first that is text or a whole number."""
_LABELS = ("category", "difficulty", "domain", "subject", "language", "environment_name")
"""Short words about a row that ``-m`` may ask for."""
_LOOKED_AT = 5
"""Lines of a file, from its first, of which one tells that it holds rows."""
_SHORT = 80
_SHOWN = 60


@dataclass(frozen=True)
class RowPlace:
    """A row as the finder sees it.

    Attributes:
        line: its line in the file, from 1.
        offset: where the line begins, in bytes.
        index: how many rows are before it.
        name: the row's own name; ``None`` if it has none.
        agent: the name in ``agent_ref``.
        labels: short words that it says of itself.
        problem: why it is no row.
    """

    line: int
    offset: int
    index: int
    name: str | None = None
    agent: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


def scan(path: Path, shown: str) -> Iterator[RowPlace]:
    """Yield all rows of a file, those that are broken too; empty lines are none.

    Args:
        path: the file.
        shown: its name in messages.

    Raises:
        OSError: it cannot be read.
    """
    offset = index = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield _place(line, number, offset, index, shown)
                index += 1
            offset += len(line)


def holds_rows(path: Path) -> bool:
    """Return whether one of a file's first lines is a row: the others may be broken, which is told of each.

    A file that cannot be read has none.
    """
    try:
        with path.open("rb") as file:
            first = islice((line for line in file if line.strip()), _LOOKED_AT)
            return any(_parsed(line, "")[1] is None for line in first)
    except OSError:
        return False


def read_row(path: Path, offset: int, line: int) -> dict[str, Any]:
    """Return the row that begins at an offset.

    Raises:
        TaskInvalid: the file cannot be read, or there is no row; names file and line.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            text = file.readline()
    except OSError as error:
        raise TaskInvalid(f"{path} cannot be read: {error.strerror}") from error
    row, problem = _parsed(text, f"{path.name}, line {line}")
    if problem is not None:
        raise TaskInvalid(problem, hint="the file may have changed since its rows were listed")
    return _row(row)


def _place(line: bytes, number: int, offset: int, index: int, shown: str) -> RowPlace:
    content, problem = _parsed(line, f"{shown}, line {number}")
    if problem is not None:
        return RowPlace(number, offset, index, problem=problem)
    row = _row(content)
    reference = row.get("agent_ref")
    agent = reference.get("name") if isinstance(reference, dict) else None
    labels = {key: row[key] for key in _LABELS if isinstance(row.get(key), str) and len(row[key]) <= _SHORT}
    return RowPlace(
        number,
        offset,
        index,
        name=_name(content, row),
        agent=agent if isinstance(agent, str) else None,
        labels=labels,
    )


def _parsed(line: bytes, where: str) -> tuple[dict[str, Any], str | None]:
    """Return a line as an object, and what is wrong with it."""
    try:
        content = json.loads(line)
    except RecursionError:
        return {}, f"{where}: nested too deeply"
    except ValueError as error:
        begin = line.strip()[:_SHOWN].decode("utf-8", "replace")
        return {}, f"{where} is not JSON ({error}): {begin!r}"
    if not isinstance(content, dict):
        return {}, f"{where} is not an object but {type(content).__name__}"
    if not isinstance(_row(content).get(REQUEST), dict):
        if REQUEST in _row(content):
            return {}, f"{where}: {REQUEST} is {json_kind(_row(content)[REQUEST])}, not an object"
        has = ", ".join(list(_row(content))[:5]) or "nothing"
        return {}, f"{where} has no {REQUEST} (it has {has}), so it is no row of NeMo Gym"
    return content, None


def _row(content: Any) -> dict[str, Any]:
    """Return the row itself, whether materialised or not."""
    if not isinstance(content, dict):
        return {}
    inner = content.get(_INPUT)
    return inner if REQUEST not in content and isinstance(inner, dict) else content


def _name(content: Mapping[str, Any], row: Mapping[str, Any]) -> str | None:
    outer = content.get("task_id")
    if isinstance(outer, dict):  # a materialised row's
        outer = outer.get("task_id")
    for value in (outer if row is not content else None, *(row.get(key) for key in _ID_KEYS)):
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None
