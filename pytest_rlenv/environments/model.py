"""An environment as it travels from the controller to the workers: names and paths, no file contents.

Plain dataclasses that turn into JSON: a worker needs neither the network nor a model class to collect.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pytest_rlenv.environments.layouts import IN_FOLDERS, manifest_of

LOCAL = "local"
HUB = "hub"
TASKSET = "taskset"
"""No files, but the taskset of a package."""


@dataclass(frozen=True, slots=True)
class TaskRef:
    """A task that was found, before any of its files is read.

    Attributes:
        id: its name in node ids and records: the path in the environment without a leading ``tasks/``.
        path: its folder relative to the environment's root, ``.`` for the root itself, ``/`` between parts.
        framework: whose layout it has, such as ``harbor``.
        problem: why it cannot be run, where that is known already; it becomes an item that errors.
        tags: words for ``-m``, where they were read.
        attributes: further metadata for ``-m`` (``difficulty``, ``category``), where it was read.
        data: what its framework needs to find it again where a folder does not tell, such as the line of a
            file; plain JSON, and small, as there may be 10,000.
    """

    id: str
    path: str
    framework: str = "harbor"
    problem: str | None = None
    tags: tuple[str, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def manifest(self) -> str | None:
        """The file that describes it, relative to its folder; ``None`` where there is none to point at."""
        if self.framework in IN_FOLDERS:
            return manifest_of(self.framework)
        named = self.data.get("file")
        return named if isinstance(named, str) else None


@dataclass(frozen=True)
class Environment:
    """A resolved and pinned environment with its selected tasks.

    Attributes:
        name: in node ids and records: ``org/repo``, or a local path relative to pytest's rootdir.
        source: :data:`LOCAL`, :data:`HUB` or :data:`TASKSET`.
        root: folder of the files on this machine. For the Hub it is where the files of this commit are put
            when they are fetched.
        repo_id: ``org/repo`` on the Hub.
        revision: the commit SHA on the Hub, 40 hex digits.
        requested_revision: the branch, tag or commit that the user named, if any.
        tags: the card's tags.
        tasks: what was found and selected, in the order of their ids.
        found: how many tasks there were before selection.
        unselected: the ids of those that were found and not selected.
        folders: the folders of a repository that the user named; none stands for all of it.
        warnings: one line each, shown once per run.
    """

    name: str
    source: str
    root: Path
    repo_id: str | None = None
    revision: str | None = None
    requested_revision: str | None = None
    tags: tuple[str, ...] = ()
    tasks: tuple[TaskRef, ...] = ()
    found: int = 0
    unselected: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def folder(self, task: TaskRef) -> Path:
        """Return where the task's files are (or will be, once fetched) on this machine."""
        return self.root if task.path == "." else self.root / task.path

    @property
    def title(self) -> str:
        """The name with the commit, as shown to people."""
        return f"{self.name}@{self.revision[:12]}" if self.revision else self.name


def dumps(environments: list[Environment]) -> str:
    """Return the JSON text that workers are given."""
    return json.dumps([asdict(e) | {"root": str(e.root)} for e in environments])


def loads(text: str) -> list[Environment]:
    """Read what :func:`dumps` wrote."""
    return [
        Environment(
            **{
                **raw,
                "root": Path(raw["root"]),
                "tags": tuple(raw["tags"]),
                "unselected": tuple(raw["unselected"]),
                "folders": tuple(raw["folders"]),
                "warnings": tuple(raw["warnings"]),
                "tasks": tuple(TaskRef(**{**t, "tags": tuple(t["tags"])}) for t in raw["tasks"]),
            }
        )
        for raw in json.loads(text)
    ]
