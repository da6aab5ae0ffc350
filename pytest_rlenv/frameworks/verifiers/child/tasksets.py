"""Tasksets: what they are configured by, their tasks as rows, and a task made again of its row."""

from __future__ import annotations

import hashlib
import json
import sys
import typing
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import UnionType
from typing import Any

import verifiers.v1 as vf

from .texts import one_line

Request = dict[str, Any]

_SOURCES = 1000
"""Files of a package that count for its digest."""


class _Opened:
    """A taskset, and as many of its tasks as were asked for."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.config = vf.taskset_config_type(name).model_validate({**options, "id": name})
        self.taskset = vf.load_taskset(self.config)
        self._coming: Iterator[Any] | None = None
        self._tasks: list[Any] = []

    def at(self, index: int) -> Any:
        """Return the task at a position.

        Raises:
            LookupError: there are not so many.
        """
        if self._coming is None:
            self._coming = iter(self.taskset)
        self._tasks.extend(islice(self._coming, max(0, index + 1 - len(self._tasks))))
        if index >= len(self._tasks):
            raise LookupError(f"the taskset gave {len(self._tasks)} tasks now, and number {index} is wanted")
        return self._tasks[index]


_OPENED: dict[str, _Opened] = {}


def opened(request: Request) -> _Opened:
    """Return a request's taskset; each is opened once."""
    key = json.dumps([request["taskset"], request["options"]], sort_keys=True)
    if key not in _OPENED:
        _OPENED[key] = _Opened(request["taskset"], request["options"])
    return _OPENED[key]


def describe(request: Request) -> dict[str, Any]:
    """Say what a taskset is configured by: each field with whether it takes a text or a path."""
    fields = vf.taskset_config_type(request["taskset"]).model_fields
    return {"fields": {name: {"text": _takes_text(field.annotation)} for name, field in fields.items()}}


def write_list(request: Request) -> dict[str, Any]:
    """Write a taskset's tasks into a file, a line each.

    Args:
        request: ``into`` is the file, ``most_bytes`` how long it may become; ``limit`` how many tasks are
            taken of an unbounded taskset.
    """
    found = _Opened(request["taskset"], request["options"])
    taskset, limit = found.taskset, request.get("limit")
    if not taskset.bounded:
        if limit is None:
            return {"unbounded": type(taskset).__name__}
        taskset = taskset.take(limit)
    cls = vf.task_type(request["taskset"])
    tools = _has_tools(cls, found)
    count = 0
    with Path(request["into"]).open("w", encoding="utf-8") as file:
        for index, task in enumerate(taskset):
            line = {**_line(task, index, cls, found.config), "tools": tools}
            file.write(json.dumps(line, default=str) + "\n")
            count += 1
            if file.tell() > request["most_bytes"]:
                raise ValueError(
                    f"its list is longer than {request['most_bytes']} bytes after {count} tasks; a taskset "
                    "without end says INFINITE = True, and is cut with --rlenv-limit"
                )
    return {"count": count, **_code(type(found.taskset))}


def task_of(request: Request) -> Any:
    """Return a request's task, made of its row, or found again where that cannot be.

    Raises:
        LookupError: the taskset has another task there now.
    """
    if request["whole"]:
        cls = vf.task_type(request["taskset"])
        config = vf.taskset_config_type(request["taskset"]).model_validate(
            {**request["options"], "id": request["taskset"]}
        )
        return cls(cls.data_type().model_validate(request["row"]), config.task)
    task = opened(request).at(request["index"])
    if not _same(_row(task), request["row"]):
        raise LookupError(
            f"the taskset has another task at position {request['index']} than when it was listed"
        )
    return task


def _line(task: Any, index: int, cls: type, config: Any) -> dict[str, Any]:
    data = task.data
    line = {"index": index, "id": data.id, "name": data.name}
    try:
        row = _row(task)
    except Exception as error:  # bytes that are no text, a type that pydantic cannot write
        problem = f"task {index} cannot be written as a row: {type(error).__name__}: {one_line(str(error))}"
        return {**line, "row": {}, "whole": False, "container": "", "problem": problem}
    whole = type(task) is cls and _comes_again(cls, row, config)
    return {**line, "row": row, "whole": whole, "container": container_reason(task)}


def _row(task: Any) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(json.dumps(task.data.model_dump(mode="json", exclude_none=True)))
    return row


def _comes_again(cls: Any, row: dict[str, Any], config: Any) -> bool:
    """Return whether a task made of a row is the same: nothing of it stays out of the row."""
    fields = cls.data_type().model_fields.values()
    if any(field.exclude for field in fields):
        return False
    try:
        return _same(_row(cls(cls.data_type().model_validate(row), config.task)), row)
    except Exception:
        return False


def _same(row: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two rows are the same, though NaN is in them, which equals nothing."""
    return json.dumps(row, sort_keys=True) == json.dumps(other, sort_keys=True)


def container_reason(task: Any) -> str:
    """Return why a task needs a container; empty if it does not."""
    if getattr(type(task), "NEEDS_CONTAINER", False):
        return f"{type(task).__name__} says that it needs one"
    if task.data.image is not None:
        return f"it has the image {task.data.image}"
    allow = getattr(task.data, "network_allow", ["*"])
    if "*" not in allow or getattr(task.data, "network_block", None):
        return "it has rules for its network"
    return ""


def _has_tools(cls: Any, found: _Opened) -> bool:
    """Return whether an agent is given tools; one that cannot be asked without more says so when it runs."""
    try:
        return bool(cls.toolsets(found.config.task) or type(found.taskset).toolsets(found.config))
    except Exception:
        return True


def _takes_text(annotation: Any) -> bool:
    if annotation in (str, Path):
        return True
    if typing.get_origin(annotation) in (typing.Union, UnionType):
        return any(_takes_text(each) for each in typing.get_args(annotation))
    return False


def _code(cls: type) -> dict[str, Any]:
    """Return where a taskset's code is, and a digest of it: it is what gives rewards."""
    module = sys.modules[cls.__module__]
    package = sys.modules.get(cls.__module__.partition(".")[0], module)
    file = getattr(package, "__file__", None)
    if file is None:
        return {"file": None, "code": ""}
    path = Path(file)
    sources = sorted(path.parent.rglob("*.py"))[:_SOURCES] if path.name == "__init__.py" else [path]
    digest = hashlib.sha256()
    for source in sources:
        digest.update(
            source.relative_to(path.parent).as_posix().encode() + b"\0" + source.read_bytes() + b"\0"
        )
    return {"file": str(path), "code": digest.hexdigest()}
