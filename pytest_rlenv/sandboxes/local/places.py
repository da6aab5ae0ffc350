"""Where boxes keep their files while they are up, whose they are, and the removal of dead owners' ones."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pytest_rlenv.sandboxes.local._removal import remove_tree
from pytest_rlenv.sandboxes.owners import NAME_PREFIX, Owner

CGROUP_PREFIX = NAME_PREFIX
_FORGOTTEN = 7 * 24 * 3600.0
"""Seconds after which files of an owner that cannot be asked (in another container, say) are removed."""


def bases(cache_dir: Path) -> Iterator[Path]:
    """Yield the folders that may hold boxes, best first; made if need be, and for this user only.

    The cache is on a real disk. Where its file system cannot carry an overlay (it is one itself, as in a
    container, or is a network's) a temporary folder may, and memory can.
    """
    for base in _possible_bases(cache_dir):
        with contextlib.suppress(OSError):
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_ours(base):
            yield base


def bases_there(cache_dir: Path) -> list[Path]:
    """Return those of the folders of :func:`bases` that are there already."""
    return [base for base in _possible_bases(cache_dir) if _is_ours(base)]


def sweep(base: Path) -> int:
    """Remove the files of owners that are gone, and return of how many."""
    found = stale(base)
    for folder in found:
        remove_tree(folder)
    return len(found)


def stale(base: Path) -> list[Path]:
    """Return the folders of owners that are gone."""
    found = []
    for folder in _children(base):
        owner = Owner.parse(folder.name)
        if owner is not None:
            gone = owner.is_gone()
            if gone or (gone is None and _age(folder) > _FORGOTTEN):
                found.append(folder)
    return found


def sweep_cgroups(parent: Path) -> None:
    """Remove the control groups of owners that are gone; the kernel refuses one with a process in it."""
    for folder in _children(parent):
        owner = Owner.parse(folder.name) if folder.name.startswith(CGROUP_PREFIX) else None
        if owner is not None and owner.is_gone():
            with contextlib.suppress(OSError):
                folder.rmdir()


def _possible_bases(cache_dir: Path) -> tuple[Path, ...]:
    name = f"rlenv-boxes-{os.geteuid()}"
    return (cache_dir / "boxes", Path(tempfile.gettempdir(), name), Path("/dev/shm", name))


def _is_ours(base: Path) -> bool:
    """Return True for a folder of this user's; where all may write, somebody else may have made it."""
    try:
        info = base.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o022


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _age(folder: Path) -> float:
    try:
        return time.time() - folder.lstat().st_mtime
    except OSError:
        return 0.0
