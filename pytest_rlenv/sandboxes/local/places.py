"""Where boxes keep their files while they are up, whose they are, and the removal of dead owners' ones."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_rlenv.sandboxes.local._removal import remove_tree
from pytest_rlenv.sandboxes.owners import boot_id, pid_namespace, pid_start

CGROUP_PREFIX = "rlenv-"
_FORGOTTEN = 7 * 24 * 3600.0
"""Seconds after which files of an owner that cannot be asked (in another container, say) are removed."""


@dataclass(frozen=True)
class Owner:
    """A process that has boxes, named so that any other process can tell whether it is still there."""

    machine: str
    boot: str
    namespace: str
    pid: int
    start: str

    @classmethod
    def me(cls) -> Owner:
        """Return this process."""
        pid = os.getpid()
        return cls(_short(os.uname().nodename), _short(boot_id()), _short(pid_namespace()), pid, _start(pid))

    @classmethod
    def parse(cls, name: str) -> Owner | None:
        """Return the owner that a folder or control group is named after, ``None`` if it is not ours."""
        parts = name.removeprefix(CGROUP_PREFIX).split("-")
        if len(parts) < 6 or not parts[3].isdigit():
            return None
        return cls(parts[0], parts[1], parts[2], int(parts[3]), parts[4])

    def new_name(self) -> str:
        """Return a name that nobody else has, with this owner in it."""
        fields = (self.machine, self.boot, self.namespace, str(self.pid), self.start, secrets.token_hex(4))
        return "-".join(fields)

    def is_gone(self) -> bool | None:
        """Return True for a process that has ended; ``None`` for one that cannot be seen from here."""
        me = Owner.me()
        if self.machine != me.machine:
            return None
        if self.boot != me.boot:
            return True
        if self.namespace != me.namespace:
            return None
        return _start(self.pid) != self.start


def bases(cache_dir: Path) -> Iterator[Path]:
    """Yield the folders that may hold boxes, best first; made if need be, and for this user only.

    The cache is on a real disk. Where its file system cannot carry an overlay (it is one itself, as in a
    container, or is a network's) a temporary folder may, and memory can.
    """
    name = f"rlenv-boxes-{os.geteuid()}"
    for base in (cache_dir / "boxes", Path(tempfile.gettempdir(), name), Path("/dev/shm", name)):
        try:
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            info = base.lstat()
        except OSError:
            continue
        # in a folder that all may write to, somebody else may have made it
        if stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o022:
            yield base


def sweep(base: Path) -> int:
    """Remove the files of owners that are gone, and return of how many."""
    removed = 0
    for folder in _children(base):
        owner = Owner.parse(folder.name)
        if owner is None:
            continue
        gone = owner.is_gone()
        if gone or (gone is None and _age(folder) > _FORGOTTEN):
            remove_tree(folder)
            removed += 1
    return removed


def sweep_cgroups(parent: Path) -> None:
    """Remove the control groups of owners that are gone; the kernel refuses one with a process in it."""
    for folder in _children(parent):
        owner = Owner.parse(folder.name) if folder.name.startswith(CGROUP_PREFIX) else None
        if owner is not None and owner.is_gone():
            with contextlib.suppress(OSError):
                folder.rmdir()


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


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _start(pid: int) -> str:
    return pid_start(pid) or "0"
