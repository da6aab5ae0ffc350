"""The labels on everything we make: whose it is, and when it may be removed by anyone.

Nothing without the first of these labels is ever touched.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from pytest_rlenv.sandboxes.model import BoxSpec, SandboxContext
from pytest_rlenv.sandboxes.owners import boot_id, is_alive, pid_namespace, pid_start

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
    return pid.isdigit() and not is_alive(int(pid), labels.get(PID_START, ""))
