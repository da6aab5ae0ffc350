"""A child process that removes a process's boxes when their owner dies, whatever killed it.

The child holds the reading end of a pipe. When the owner's end closes, by :meth:`Reaper.stop` or because
the owner is gone (SIGKILL included), it removes every container, network and volume with the owner's label.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path

from pytest_rlenv.sandboxes.docker import labels
from pytest_rlenv.sandboxes.docker.endpoint import Endpoint, resolve_endpoint
from pytest_rlenv.sandboxes.model import SandboxContext

DISMISS = b"q"
"""Sent to the child to have it leave without removing anything."""

_SCRIPT = Path(__file__).with_name("_reaper.py")
_STOP_LIMIT = 30.0


class Reaper:
    """The child process and our end of its pipe.

    Args:
        endpoint: the engine.
        label: ``name=value``; containers that carry it are removed.
    """

    def __init__(self, endpoint: Endpoint, label: str) -> None:
        tls = json.dumps(asdict(endpoint.tls)) if endpoint.tls else ""
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", str(_SCRIPT), endpoint.url, label, tls],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def stop(self, *, sweep: bool = True) -> None:
        """End the child, after it has removed what is left.

        Args:
            sweep: False leaves the containers alone, for someone who wants to look at them.
        """
        pipe = self._process.stdin
        if pipe is None or pipe.closed:
            return
        try:
            if not sweep:
                pipe.write(DISMISS)
            pipe.close()
        except OSError:
            pass  # it is dead already
        try:
            self._process.wait(_STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_reapers: dict[str, Reaper] = {}
_lock = threading.Lock()


def start_reaper(context: SandboxContext, endpoint: Endpoint | None = None) -> Reaper:
    """Start the reaper of this process's boxes, once.

    Each process of a run has its own: a killed worker's boxes go at once, the other workers' stay.

    Raises:
        EngineUnavailable: the docker configuration names no engine. Nothing is asked of the engine itself.
    """
    owner = labels.owner(context)
    with _lock:
        if owner not in _reapers:
            reaper = Reaper(endpoint or resolve_endpoint(), f"{labels.OWNER}={owner}")
            atexit.register(reaper.stop)
            _reapers[owner] = reaper
        return _reapers[owner]


def dismiss_reaper(context: SandboxContext) -> None:
    """End the reaper of this process without a look round: everything has been removed already."""
    with _lock:
        reaper = _reapers.pop(labels.owner(context), None)
    if reaper is not None:
        atexit.unregister(reaper.stop)
        reaper.stop(sweep=False)
