"""Tasks that are written down: in a list for us, in ``openenv.yaml``, as recorded episodes, as rows.

A task is the arguments of a reset. Nothing here starts a server.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_rlenv import yaml_reader
from pytest_rlenv.environments.discovery import task_id
from pytest_rlenv.errors import SpecError, TaskInvalid

LIST_FILES = ("rlenv.yaml", "rlenv.yml")
"""Files of an environment that may hold a list of tasks for us, below ``openenv: tasks:``."""
PLANS = "oracle"
"""The folder of recorded reference episodes, one ``ID.json`` for each task."""
ROWS = (".jsonl", ".csv", ".parquet")
LONGEST_ID = 160
"""Bytes of a name that an id has; a file's name may have 255."""
NAMES = ("id", "task_id", "name", "task")
"""Keys by which a task of a list, a row or a server's own list names itself; the first that is there."""

_ATTRIBUTES = ("difficulty", "category", "group", "split")
_TEXTS = ("instruction", "description", "prompt")


@dataclass(frozen=True)
class Listed:
    """A task that was found.

    Attributes:
        id: its own name.
        reset: the arguments that choose it.
        data: what else is to be kept of it, as in :attr:`~pytest_rlenv.environments.model.TaskRef.data`.
        attributes: words for ``-m``.
        problem: why it cannot be run.
    """

    id: str
    reset: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None


def from_list(entries: Sequence[Any], where: str, *, key: str | None = None) -> list[Listed]:
    """Return the tasks of a list as people write it.

    Args:
        entries: texts, or maps with an ``id`` (or ``name``) and maybe ``reset``, ``oracle``, ``instruction``,
            ``max_steps``.
        where: the list's place, for messages.
        key: the argument of reset that takes the id of an entry without a ``reset`` of its own.

    Raises:
        SpecError: an entry has no id, or does not say how it is chosen.
    """
    found = []
    for number, entry in enumerate(entries, 1):
        fields = entry if isinstance(entry, Mapping) else {"id": entry}
        name = name_of(fields)
        if name is None:
            raise SpecError(f"{where}: task {number} has no id", hint="give it an `id` or a `name`")
        reset = fields.get("reset")
        if reset is None and key is None:
            raise SpecError(
                f"{where} lists {len(entries)} tasks, but not how one is chosen",
                hint="name the argument of reset that takes an id with --rlenv-openenv-task-key NAME, or "
                "give each task its arguments as a map `reset`",
            )
        if reset is not None and not isinstance(reset, Mapping):
            raise SpecError(f"{where}: task {name}: reset is {type(reset).__name__}, not a map")
        chosen = dict(reset) if reset is not None else {str(key): _given(fields)}
        found.append(Listed(name, _plain(chosen, where), _data(fields), _attributes(fields)))
    return unique(found, where)


def read_list(path: Path) -> tuple[list[Listed], Mapping[str, Any] | None]:
    """Read a file with a list of tasks, and the action that has a finished episode graded, if it names one.

    Raises:
        SpecError: it cannot be read, or holds no such list.
    """
    try:
        content = yaml_reader.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, yaml_reader.NotYaml) as error:
        raise SpecError(f"{path} is no YAML or JSON: {error}") from None
    ours = content.get("openenv", content) if isinstance(content, Mapping) else {"tasks": content}
    tasks = ours.get("tasks") if isinstance(ours, Mapping) else None
    evaluate = ours.get("evaluate") if isinstance(ours, Mapping) else None
    if evaluate is not None and not isinstance(evaluate, Mapping):
        raise SpecError(f"{path}: evaluate is no map, and an action is one")
    if tasks is None and isinstance(content, Mapping):
        return [], evaluate
    if not isinstance(tasks, list):
        raise SpecError(
            f"{path} holds no list of tasks", hint="write `tasks:` with entries of `id` and `reset`"
        )
    return from_list(tasks, path.name), evaluate


def from_plans(files: Sequence[str], prefix: str) -> list[Listed]:
    """Return the tasks that have a recorded reference episode.

    Args:
        files: of the environment.
        prefix: the environment's folder, with a slash at the end.
    """
    start = f"{prefix}{PLANS}/"
    plans = [file[len(prefix) :] for file in files if file.startswith(start) and file.endswith(".json")]
    return [
        Listed(task_id(plan[len(PLANS) + 1 : -len(".json")]), data={"plan": plan, "file": plan})
        for plan in plans
    ]


def from_rows(path: Path, file: str) -> list[Listed]:
    """Return the rows of a file as tasks; their arguments are read again when they are run.

    Raises:
        SpecError: it cannot be read.
    """
    found = []
    for number, row in enumerate(rows_of(path, path.stat().st_mtime_ns)):
        name = name_of(row) or f"row-{number}"
        found.append(Listed(name, data={"row": [file, number], "file": file}, attributes=_attributes(row)))
    return unique(found, file)


def arguments_of_row(path: Path, number: int) -> dict[str, Any]:
    """Return the arguments that a row stands for: its ``reset``, or else all of it that is not empty.

    Raises:
        TaskInvalid: there is no such row any more.
    """
    try:
        row = rows_of(path, path.stat().st_mtime_ns)[number]
    except (IndexError, OSError, SpecError) as error:
        raise TaskInvalid(f"{path.name} has no row {number}: {error}") from None
    reset = row.get("reset")
    if isinstance(reset, dict):
        return dict(reset)
    return {key: value for key, value in row.items() if value is not None}


@lru_cache(maxsize=4)
def rows_of(path: Path, changed: int) -> tuple[Mapping[str, Any], ...]:
    """Return the rows of a file; it is read once.

    Args:
        path: JSON lines, CSV or Parquet.
        changed: when it was changed last.

    Raises:
        SpecError: it cannot be read.
    """
    try:
        if path.suffix == ".parquet":
            return tuple(_parquet(path))
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} cannot be read: {error}") from None
    if path.suffix == ".csv":
        return tuple(dict(row) for row in csv.DictReader(io.StringIO(text)))
    return tuple(_lines(text, path.name))


def name_of(fields: Mapping[str, Any]) -> str | None:
    """Return by what a task calls itself, as it can stand in a node id; ``None`` if it does not."""
    for key in NAMES:
        value = fields.get(key)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
            return as_id(str(value).strip())
    return None


def as_id(name: str) -> str:
    """Return a name as it can stand in a node id and in the name of a file; a long one is cut.

    What chooses the task is kept beside its id, so that nothing is lost.
    """
    found = task_id(name)
    data = found.encode(errors="surrogateescape")
    if len(data) <= LONGEST_ID:
        return found
    return f"{data[:LONGEST_ID].decode(errors='ignore')}~{hashlib.sha256(data).hexdigest()[:8]}"


def unique(tasks: Sequence[Listed], where: str) -> list[Listed]:
    """Return tasks of which no two have the same id.

    Raises:
        SpecError: two have.
    """
    twice = next((name for name, count in Counter(task.id for task in tasks).items() if count > 1), None)
    if twice is not None:
        raise SpecError(f"{where}: two tasks are called {twice!r}", hint="give each an id of its own")
    return list(tasks)


def _given(fields: Mapping[str, Any]) -> Any:
    return next(fields[key] for key in NAMES if fields.get(key) not in (None, ""))


def _data(fields: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(oracle := fields.get("oracle"), str):
        found["plan"] = oracle
    text = next((fields[key] for key in _TEXTS if isinstance(fields.get(key), str)), None)
    if text:
        found["instruction"] = text
    steps = fields.get("max_steps")
    if isinstance(steps, int) and not isinstance(steps, bool) and steps > 0:
        found["max_steps"] = steps
    return found


def _attributes(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: fields[key] for key in _ATTRIBUTES if isinstance(fields.get(key), (str, int))}


def _plain(value: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the value as JSON has it; YAML knows dates and more."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise SpecError(f"{where}: the arguments {value!r} are no JSON: {error}") from None
    return plain


def _lines(text: str, name: str) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise SpecError(f"{name}, line {number} is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise SpecError(f"{name}, line {number} is no object")
        yield row


def _parquet(path: Path) -> list[dict[str, Any]]:
    try:
        from pyarrow import parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]  # no extra of ours
    except ImportError:
        raise SpecError(f"{path.name} is Parquet, which needs pyarrow", hint="pip install pyarrow") from None
    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return rows


def inside(file: str) -> bool:
    """Return whether a path that an environment names stays in it."""
    pure = PurePosixPath(file)
    return not pure.is_absolute() and ".." not in pure.parts
