"""Find the tasks in a list of files: the same rule for a walk on this machine and for a tree on the Hub.

A task is a folder that holds ``task.toml``, or the files of an older layout (see ``layouts.py``), at most
:data:`MAX_DEPTH` folders down; nothing below a task is looked at. No file is opened.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable
from urllib.parse import quote

from pytest_rlenv.environments.layouts import HARBOR, MANIFEST, TELLING, framework_of
from pytest_rlenv.environments.model import TaskRef

INSTRUCTION = "instruction.md"
MAX_DEPTH = 6
"""How many folders below the environment's root (or the folder that was named) a task may lie."""

_TASK_PARTS = frozenset({"environment", "tests", "solution", "steps"})
_IGNORED = frozenset({"node_modules", "__pycache__"})
_LOST_IN_NODE_IDS = re.compile("::|[\\[\\]\x00-\x1f\x7f-\x9f\ud800-\udfff]|%(?=[0-9A-Fa-f]{2})")


def is_ignored(folder_name: str) -> bool:
    """Whether tasks are not looked for in a folder of this name: hidden ones and those that tools fill."""
    return folder_name.startswith(".") or folder_name in _IGNORED


def find_tasks(paths: Iterable[str], *, root_name: str, base: str = "") -> tuple[TaskRef, ...]:
    """Find the tasks among the files of an environment.

    A folder that plainly is a task but has no ``task.toml`` is returned with a ``problem``: it has
    ``instruction.md`` beside ``environment/``, ``tests/``, ``solution/`` or ``steps/``. Both are asked for
    because either alone is common in repositories that hold no task. There is no false alarm inside a real
    task (nothing below one is looked at) nor around real tasks (a folder that holds some is no task itself),
    and a step of a broken multi-step task is told as its task.

    Args:
        paths: the files, relative to the environment's root, with ``/`` between the parts.
        root_name: the id of the task if the root itself is one.
        base: stay in this folder; ids and paths are relative to the root all the same.

    Returns:
        The tasks in the order of their ids.
    """
    prefix = f"{base}/" if base else ""
    files = [path for path in paths if path.startswith(prefix)]
    frameworks = frameworks_of_folders(files)
    found = {folder for folder in frameworks if _in_reach(folder, base) and not _inside(folder, frameworks)}
    problems = dict.fromkeys(_without_manifest(files, found, base), f"{MANIFEST} is missing")
    ids = _ids(found | problems.keys(), root_name)
    tasks = (
        TaskRef(ids[folder], folder or ".", frameworks.get(folder, HARBOR), problems.get(folder))
        for folder in ids
    )
    return tuple(sorted(tasks, key=lambda task: task.id))


def outside_of(tasks: Iterable[TaskRef], paths: Iterable[str]) -> tuple[str, ...]:
    """Return the files that belong to none of the tasks in folders and that may be looked at, in order."""
    folders = {"" if task.path == "." else task.path for task in tasks}
    return tuple(
        sorted(
            path
            for path in paths
            if not _inside(path, folders) and not any(is_ignored(part) for part in path.split("/")[:-1])
        )
    )


def task_id(path: str) -> str:
    """Return a path as it can stand in a node id: what pytest would lose there is percent-encoded."""
    return _LOST_IN_NODE_IDS.sub(lambda lost: quote(lost.group(), safe="", errors="surrogatepass"), path)


def depth(folder: str) -> int:
    """Return how many folders down a folder is; the root is 0."""
    return folder.count("/") + 1 if folder else 0


def frameworks_of_folders(files: Iterable[str]) -> dict[str, str]:
    """Return the framework of each folder that has the files of a task."""
    names: dict[str, set[str]] = {}
    for path in files:
        folder, _, name = path.rpartition("/")
        if name in TELLING:
            names.setdefault(folder, set()).add(name)
    found = {folder: framework_of(held) for folder, held in names.items()}
    return {folder: framework for folder, framework in found.items() if framework is not None}


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _in_reach(folder: str, base: str) -> bool:
    below = folder[len(base) :].strip("/")
    return depth(below) <= MAX_DEPTH and not any(is_ignored(part) for part in below.split("/") if part)


def _parents(folder: str) -> Iterable[str]:
    while folder:
        folder = _folder(folder)
        yield folder


def _inside(folder: str, others: Container[str]) -> bool:
    return any(parent in others for parent in _parents(folder))


def _without_manifest(files: list[str], found: set[str], base: str) -> set[str]:
    instructed = {_folder(path) for path in files if path.rpartition("/")[2] == INSTRUCTION}
    instructed = {f for f in instructed if f not in found and _in_reach(f, base) and not _inside(f, found)}
    if not instructed:
        return set()
    holding_tasks = {parent for folder in found for parent in _parents(folder)}
    broken = {_whole_task(folder) for folder in instructed & _with_task_parts(files)} - holding_tasks
    return {folder for folder in broken if folder.startswith(base) and not _inside(folder, broken)}


def _with_task_parts(files: list[str]) -> set[str]:
    folders: set[str] = set()
    for path in files:
        parts = path.split("/")[:-1]
        folders.update("/".join(parts[:i]) for i, part in enumerate(parts) if part in _TASK_PARTS)
    return folders


def _whole_task(folder: str) -> str:
    """Return the multi-step task that a folder is a step of, else the folder."""
    parts = folder.split("/")
    return "/".join(parts[:-2]) if len(parts) >= 2 and parts[-2] == "steps" else folder


def _ids(folders: set[str], root_name: str) -> dict[str, str]:
    """Return the id of each folder: without a leading ``tasks/``, unless two ids would then be equal."""
    short = {folder: task_id(folder.removeprefix("tasks/") or root_name) for folder in folders}
    whole = {folder: task_id(folder or root_name) for folder in folders}
    uses = Counter(short.values())
    ids = {folder: short[folder] if uses[short[folder]] == 1 else whole[folder] for folder in folders}
    return ids if len(set(ids.values())) == len(ids) else whole
