"""Say why no task was found: what was looked for, and what was there instead."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pytest_rlenv.environments.discovery import MANIFEST, MAX_DEPTH, depth, is_ignored
from pytest_rlenv.errors import SpecError

_ROWS = (".parquet", ".jsonl", ".arrow")
_SHOWN = 8


def nothing_found(where: str, paths: Collection[str], *, base: str = "") -> SpecError:
    """Return the error for an environment without tasks.

    Args:
        where: the environment as shown to people.
        paths: what was seen: files relative to its root, with ``/`` between the parts.
        base: the folder of the environment that was looked in.
    """
    prefix = f"{base}/" if base else ""
    files = sorted(path[len(prefix) :] for path in paths if path.startswith(prefix))
    if base and not files:
        return SpecError(
            f"there is no folder {base!r} in {where}", hint=f"it has {_top_level(sorted(paths))}"
        )
    seen = _top_level(files)
    return SpecError(
        f"0 tasks found in {where}: looked for folders with {MANIFEST}, at most {MAX_DEPTH} folders deep; "
        + (f"saw {seen}" if seen else "it holds no files"),
        hint=_explain(files) if files else _empty(where),
    )


def _explain(files: list[str]) -> str:
    manifests = [path for path in files if path.rpartition("/")[2] == MANIFEST]
    if manifests:
        return _out_of_reach(manifests[0])
    for name, framework in (("task.yaml", "Terminal-Bench 1"), ("task.yml", "Terminal-Bench 1")):
        old = next((path for path in files if path.rpartition("/")[2] == name), None)
        if old:
            return f"{old} is the layout of {framework}: convert it to Harbor's ({MANIFEST}, instruction.md)"
    rows = next((path for path in files if path.endswith(_ROWS)), None)
    if rows:
        return (
            f"it holds rows ({rows}), not task folders: unpack them into folders, each with {MANIFEST}, "
            "or name the environment that the rows were made from"
        )
    return f"name the folder that holds the tasks; a task is a folder with {MANIFEST} and instruction.md"


def _empty(where: str) -> str:
    if Path(where).is_absolute():  # a folder of this machine, not a repository
        return f"put task folders there, each with {MANIFEST} and instruction.md, or name another folder"
    return "push the task folders first, or name another revision"


def _out_of_reach(path: str) -> str:
    folder = path.rpartition("/")[0]
    hidden = next((part for part in folder.split("/") if is_ignored(part)), None)
    if hidden:
        return f"{path} is there, but folders such as {hidden!r} are not looked into"
    return f"{path} is {depth(folder)} folders deep: name a folder nearer to it"


def _top_level(files: list[str]) -> str:
    entries = list(dict.fromkeys(path.split("/")[0] + "/" * ("/" in path) for path in files))
    shown = ", ".join(entries[:_SHOWN])
    return f"{shown}, and {len(entries) - _SHOWN} more" if len(entries) > _SHOWN else shown
