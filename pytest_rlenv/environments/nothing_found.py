"""Say why no task was found: what was looked for, and what was there instead."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pytest_rlenv.environments.discovery import MAX_DEPTH, depth, frameworks_of_folders, is_ignored
from pytest_rlenv.environments.layouts import COMPANIONS, MANIFEST, OLDER_MANIFEST, manifest_of
from pytest_rlenv.errors import SpecError

_ROWS = (".parquet", ".jsonl", ".arrow")
_SHOWN = 8

IN_FOLDERS = f"folders with {MANIFEST} (Terminal-Bench 1: {OLDER_MANIFEST}), at most {MAX_DEPTH} folders deep"
"""What is looked for where tasks are folders, as a message says it."""


def nothing_found(
    where: str, paths: Collection[str], *, base: str = "", looked_for: str = "", reason: str = ""
) -> SpecError:
    """Return the error for an environment without tasks.

    Args:
        where: the environment as shown to people.
        paths: what was seen: files relative to its root, with ``/`` between the parts.
        base: the folder of the environment that was looked in.
        looked_for: what was looked for, where that is not folders alone.
        reason: why what is there will not do, where that is known; it says what to do.
    """
    prefix = f"{base}/" if base else ""
    files = sorted(path[len(prefix) :] for path in paths if path.startswith(prefix))
    if base and not files:
        return SpecError(
            f"there is no folder {base!r} in {where}", hint=f"it has {_top_level(sorted(paths))}"
        )
    seen = _top_level(files)
    return SpecError(
        f"0 tasks found in {where}: looked for {looked_for or IN_FOLDERS}; "
        + (f"saw {seen}" if seen else "it holds no files"),
        hint=reason or (_explain(files) if files else _empty(where)),
    )


def _explain(files: list[str]) -> str:
    frameworks = frameworks_of_folders(files)
    if frameworks:
        folder = min(frameworks)
        return _out_of_reach("/".join(filter(None, (folder, manifest_of(frameworks[folder])))))
    old = next((path for path in files if path.rpartition("/")[2] in (OLDER_MANIFEST, "task.yml")), None)
    if old:
        beside = " and ".join(COMPANIONS)
        return f"{old} is no task: one of Terminal-Bench 1 has {OLDER_MANIFEST}, and beside it {beside}"
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
