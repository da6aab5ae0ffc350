"""A taskset's tasks as they were listed: a file that all processes of a run read, and each task's id.

The first line says which taskset it was and how it was configured, each other one is a task. The file is
named after its content, so that runs at the same time do not disturb each other.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_rlenv.environments.discovery import task_id
from pytest_rlenv.environments.layouts import VERIFIERS
from pytest_rlenv.environments.model import TaskRef
from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.identity import cache_root

KEPT_SEC = 30 * 24 * 3600.0
"""Seconds that a list is kept: longer than any run takes."""
LONGEST_ID = 120
"""Characters of an id; a longer one, such as a whole question, is cut and told apart by its digest."""


@dataclass(frozen=True)
class Listed:
    """What holds for all tasks of a list.

    Attributes:
        taskset: the taskset's id.
        options: its configuration, as it was listed with.
        paths: folders that it may be imported from.
        code: a digest of its code.
        data: which data it was given, in words.
    """

    taskset: str
    options: dict[str, Any]
    paths: tuple[str, ...]
    code: str
    data: str


@dataclass(frozen=True)
class Row:
    """One task of a list.

    Attributes:
        listed: what holds for all of them.
        index: its position in the taskset.
        row: its data, by which it can be made again.
        whole: True if nothing of the task is missing in its data.
        container: why it needs a container; empty if it does not.
        tools: True if it has tools for its agent.
    """

    listed: Listed
    index: int
    row: dict[str, Any]
    whole: bool
    container: str
    tools: bool

    @property
    def digest(self) -> str:
        """A digest over the data, the configuration and the code that gives rewards."""
        row = {key: value for key, value in self.row.items() if key != "idx"}
        content = [self.listed.taskset, self.listed.options, self.listed.code, row]
        text = json.dumps(content, sort_keys=True, default=str)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def store(listed: Listed, lines: Path) -> Path:
    """Make a list's file of the lines that the interpreter wrote, and return it."""
    head = json.dumps(asdict(listed), sort_keys=True).encode() + b"\n"
    folder = cache_root() / VERIFIERS / "rows"
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(head)
    handle, name = tempfile.mkstemp(dir=folder, suffix=".part")
    with os.fdopen(handle, "wb") as target, lines.open("rb") as source:
        target.write(head)
        while chunk := source.read(1024 * 1024):
            digest.update(chunk)
            target.write(chunk)
    stored = folder / f"{digest.hexdigest()[:32]}.jsonl"
    Path(name).replace(stored)
    _remove_old(folder)
    return stored


def _remove_old(folder: Path) -> None:
    """Remove lists that no run can be using any more: one is made anew whenever a run lists its tasks."""
    for path in folder.iterdir():
        with suppress(OSError):  # another run does the same, or it is not ours
            if path.stat().st_mtime < time.time() - KEPT_SEC:
                path.unlink()


def task_refs(stored: Path, *, file: str | None) -> Iterator[TaskRef]:
    """Yield the tasks of a list.

    Args:
        stored: the list's file.
        file: the taskset's code, relative to the environment's root, where it lies in there.
    """
    found = list(_read(stored))
    ids = _ids([(line.get("id"), line.get("name"), line["index"]) for _, line in found])
    for name, (offset, line) in zip(ids, found, strict=True):
        data = {"rows": str(stored), "at": offset, **({"file": file} if file else {})}
        yield TaskRef(name, ".", VERIFIERS, problem=line.get("problem"), data=data)


def read_row(data: dict[str, Any]) -> Row:
    """Return a task's row.

    Args:
        data: that of its :class:`TaskRef`.

    Raises:
        TaskInvalid: the list is not there any more.
    """
    stored = Path(str(data["rows"]))
    try:
        listed = _head(stored)
        with stored.open("rb") as file:
            file.seek(int(data["at"]))
            line = json.loads(file.readline())
    except (OSError, ValueError) as error:
        raise TaskInvalid(
            f"the list of the taskset's tasks cannot be read: {error}", hint="run it again: it is made anew"
        ) from error
    return Row(listed, line["index"], line["row"], line["whole"], line["container"], line["tools"])


@lru_cache(maxsize=8)
def _head(stored: Path) -> Listed:
    with stored.open("rb") as file:
        found = json.loads(file.readline())
    return Listed(**{**found, "paths": tuple(found["paths"])})


def _read(stored: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with stored.open("rb") as file:
        file.readline()
        offset = file.tell()
        for text in file:
            yield offset, json.loads(text)
            offset += len(text)


def _ids(named: Sequence[tuple[Any, Any, int]]) -> list[str]:
    """Return an id for each task: its own, else its name, else its position; twins get that, too."""
    plain = [_plain(id_) or _plain(name) or str(index) for id_, name, index in named]
    uses = Counter(plain)
    apart = [
        text if uses[text] == 1 else f"{text}-{index}" for text, (*_, index) in zip(plain, named, strict=True)
    ]
    return apart if len(set(apart)) == len(apart) else [str(index) for *_, index in named]


def _plain(value: Any) -> str:
    text = " ".join(str(value).split()) if value is not None else ""
    text = task_id(text).strip("/")
    if len(text) <= LONGEST_ID:
        return text
    return f"{text[: LONGEST_ID - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
