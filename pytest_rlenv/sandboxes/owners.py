"""Whose process a box is: told apart from a reused process id, another boot and another namespace."""

from __future__ import annotations

import hashlib
import os
import secrets
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

NAME_PREFIX = "rlenv-"
"""What may stand before an owner's name, where others name things too."""


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return a word for this machine since it last started."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return _output_of("sysctl", "-n", "kern.bootsessionuuid") or os.uname().nodename


@lru_cache(maxsize=1)
def pid_namespace() -> str:
    """Return a word for the namespace that this process's id belongs to."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return "host"


def pid_start(pid: int) -> str | None:
    """Return when a process started, in its system's own notation; ``None`` if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _output_of("ps", "-o", "lstart=", "-p", str(pid))
    except OSError:
        return None
    # the name, in brackets, may hold spaces and brackets itself; the start time is field 22 of all
    return stat.rpartition(b")")[2].split()[19].decode("ascii")


def is_alive(pid: int, start: str) -> bool:
    """Return False only if it is certain that the process is gone, or that its id is another's now."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is there, but somebody else's
    # a machine may hide the processes of other users from /proc: then there is no start to compare
    return pid_start(pid) in (start, None)


def _output_of(*argv: str) -> str | None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


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
        parts = name.removeprefix(NAME_PREFIX).split("-")
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


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _start(pid: int) -> str:
    return pid_start(pid) or "0"
