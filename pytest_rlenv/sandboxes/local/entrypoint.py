"""An image's ENTRYPOINT: run as Docker runs it, with a keeper as its command, before anything else.

In Docker it is the first process, and the container's end is its end. Here the first process is the box's
own, so the same is kept by looking: an ENTRYPOINT that ends without having started its command is an error.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_rlenv.errors import EntrypointExited, SandboxFailed
from pytest_rlenv.sandboxes.keeper import keeper_command
from pytest_rlenv.sandboxes.local.launcher import Attendant, Launcher, read_status
from pytest_rlenv.sandboxes.local.namespace import Namespace
from pytest_rlenv.sandboxes.local.process import Command, not_started

_HANDOVER_LIMIT = 10.0
"""Seconds that commands wait for an ENTRYPOINT to start its own; a slower one is looked at again later."""
_POLL = 0.003
_OUTPUT_CAP = 64 * 1024
_TAIL = 4000
_OUTSIDE = "0"


class Entrypoint:
    """The ENTRYPOINT of one box.

    Args:
        attendant: who starts it.
        launcher: who reads what it prints.
        namespace: the box.
        argv: the image's words, without a command.
        lifetime: seconds that its command keeps it up.
        command: makes a command of an argv: as the image's user, with its environment.
        log: where the first of what it prints is kept, on this machine.
    """

    def __init__(
        self,
        attendant: Attendant,
        launcher: Launcher,
        namespace: Namespace,
        argv: Sequence[str],
        lifetime: float,
        command: Callable[[Sequence[str]], Command],
        log: Path,
    ) -> None:
        self._attendant = attendant
        self._launcher = launcher
        self._namespace = namespace
        self._argv = argv
        self._full = [*argv, *keeper_command(lifetime)]
        self._make = command
        self._log = log
        self._status = -1
        self._became_command = False
        self._handed_over = False

    def start(self) -> None:
        """Start it and wait until it has handed over.

        Raises:
            EntrypointExited: it ended instead. BoxUnfit: it cannot be executed.
        """
        self.close()
        self._handed_over = False
        self._status, status_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        try:
            self._launcher.drain(reader, copy=self._log, cap=_OUTPUT_CAP)
            fields = self._make(self._full).fields()
            self._attendant.start(fields, writer, writer, status_end)
        finally:
            for fd in (reader, writer, status_end):
                os.close(fd)
        give_up = time.monotonic() + _HANDOVER_LIMIT
        while not self._handed_over and time.monotonic() < give_up:
            self.check()
            time.sleep(_POLL)

    def check(self) -> None:
        """Look whether it has handed over, unless that is known.

        Raises:
            EntrypointExited: it has ended before it did.
        """
        if self._handed_over:
            return
        ended = read_status(self._status)
        keeper = self._find_keeper()
        if keeper is not None:
            self._handed_over = True
            self._became_command = keeper == _OUTSIDE
        elif ended is not None:
            raise self._exited(*ended)

    def after_kill(self) -> None:
        """Bring back what Docker would, now that all processes but the first were killed.

        A script that became its command (``exec "$@"``) is the first process there, and is spared; one that
        waits for its command ends with it, and is started again.
        """
        if not (self._handed_over and self._became_command):
            self.start()

    def close(self) -> None:
        """Forget it; it goes on in the box."""
        if self._status >= 0:
            os.close(self._status)
            self._status = -1

    def _find_keeper(self) -> str | None:
        """Return the parent of the process that keeps the ENTRYPOINT up; ``0`` is the box's outside."""
        keeper = [os.fsencode(each) for each in self._full[len(self._argv) :]]
        with self._namespace.root.folder("/proc") as folder:
            proc = self._namespace.root.reopen(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in os.listdir(proc):  # noqa: PTH208 - a descriptor, not a path
                if name.isdigit() and name != "1":
                    argv = _read_at(proc, f"{name}/cmdline").split(b"\0")
                    if argv[1:4] == keeper[1:4]:
                        return _parent(_read_at(proc, f"{name}/stat"))
        finally:
            os.close(proc)
        return None

    def _exited(self, step: str, code: int) -> SandboxFailed:
        words = shlex.join(self._argv)
        if step:
            reason = not_started(step, code, self._make(self._full), None, None)
            return type(reason)(f"the image's ENTRYPOINT cannot be executed: {reason}", hint=reason.hint)
        return EntrypointExited(
            f"the image's ENTRYPOINT ended instead of running the command it was given: {words} "
            f"(exit code {code})",
            hint='an ENTRYPOINT script must end with exec "$@"',
            detail=self._printed(),
        )

    def _printed(self) -> str:
        with contextlib.suppress(OSError):
            time.sleep(_POLL)  # the launcher may be about to write it
            return self._log.read_bytes()[-_TAIL:].decode("utf-8", "replace").strip()
        return ""


def _read_at(folder: int, name: str) -> bytes:
    try:
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder), "rb") as file:
            return file.read()
    except OSError:  # it has ended meanwhile
        return b""


def _parent(stat: bytes) -> str:
    fields = stat.rpartition(b")")[2].split()
    return fields[1].decode("ascii") if len(fields) > 1 else ""
