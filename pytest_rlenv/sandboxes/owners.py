"""Whose process a box is: told apart from a reused process id, another boot and another namespace."""

from __future__ import annotations

import os
import subprocess
from functools import lru_cache
from pathlib import Path


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
