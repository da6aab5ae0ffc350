"""Whose layout a folder of tasks has, told by the names of its files. No file is opened.

A ``task.yaml`` alone says little, as other tools have files of that name; Terminal-Bench 1 has one of the
others beside it in every task.
"""

from __future__ import annotations

from collections.abc import Container

MANIFEST = "task.toml"
OLDER_MANIFEST = "task.yaml"
COMPANIONS = ("docker-compose.yaml", "run-tests.sh")

HARBOR = "harbor"
TERMINAL_BENCH = "terminal-bench"
OPENENV = "openenv"
NEMO_GYM = "nemo-gym"
VERIFIERS = "verifiers"

IN_FOLDERS = (HARBOR, TERMINAL_BENCH)
"""Frameworks whose tasks are folders that are known by the names of their files."""
FRAMEWORKS = (*IN_FOLDERS, OPENENV, NEMO_GYM, VERIFIERS)

TASKSET_PREFIX = f"{VERIFIERS}:"
"""What an environment begins with that is no files, but a taskset."""

TELLING = frozenset({MANIFEST, OLDER_MANIFEST, *COMPANIONS})
"""The names that :func:`framework_of` looks for."""


def framework_of(names: Container[str]) -> str | None:
    """Return the framework of a task whose folder holds files of these names; ``None`` if it is no task.

    A folder with both manifests is Harbor's: that is the newer layout.
    """
    if MANIFEST in names:
        return HARBOR
    if OLDER_MANIFEST in names and any(name in names for name in COMPANIONS):
        return TERMINAL_BENCH
    return None


def manifest_of(framework: str) -> str:
    """Return the file that describes a task of a framework, relative to its folder."""
    return OLDER_MANIFEST if framework == TERMINAL_BENCH else MANIFEST
