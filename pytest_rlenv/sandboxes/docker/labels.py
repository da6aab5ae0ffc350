"""The labels on everything we make: whose it is, and when it may be removed by anyone.

Nothing without the first of these labels is ever touched.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from pytest_rlenv.sandboxes.protocol import BoxSpec, SandboxContext

OURS = "rlenv"
"""Set to ``1`` on every container and image of ours."""
SESSION = "rlenv.session"
WORKER = "rlenv.worker"
OWNER = "rlenv.owner"
"""Session and worker in one word: what one process of a run has made."""
HOST = "rlenv.host"
"""The boot of the machine whose process owns the box."""
PID_NAMESPACE = "rlenv.pidns"
"""Process ids mean something within one namespace only: a run in a container may use the host's engine."""
PID = "rlenv.pid"
PID_START = "rlenv.pidstart"
"""When the owner started, so that a reused process id is not taken for it."""
DEADLINE = "rlenv.deadline"
"""Unix time after which a box may be removed, whoever owns it."""
KEY = "rlenv.key"
"""The content key of a built image."""

_GRACE = 300.0


def box_labels(context: SandboxContext, spec: BoxSpec) -> dict[str, str]:
    """Return the labels of a box; the caller's own words are prefixed and never displace ours."""
    labels = {f"{OURS}.{key}": str(value) for key, value in spec.labels.items()}
    labels.update(
        {
            OURS: "1",
            SESSION: context.session,
            WORKER: context.worker,
            OWNER: owner(context),
            HOST: boot_id(),
            PID_NAMESPACE: pid_namespace(),
            PID: str(os.getpid()),
            PID_START: pid_start(os.getpid()) or "",
            DEADLINE: str(int(time.time() + spec.lifetime + _GRACE)),
        }
    )
    return labels


def owner(context: SandboxContext) -> str:
    """Return the word for one process of a run."""
    return f"{context.session}/{context.worker}"


def is_stale(labels: Mapping[str, str], now: float) -> bool:
    """Return True for a box of ours whose time is up, or whose owner was here and is gone."""
    if labels.get(OURS) != "1":
        return False
    deadline = labels.get(DEADLINE, "")
    if deadline.isdigit() and now > int(deadline):
        return True
    if labels.get(HOST) != boot_id() or labels.get(PID_NAMESPACE) != pid_namespace():
        return False
    pid = labels.get(PID, "")
    return pid.isdigit() and not _is_alive(int(pid), labels.get(PID_START, ""))


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


def _is_alive(pid: int, start: str) -> bool:
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
