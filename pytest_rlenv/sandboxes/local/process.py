"""One command in a box: started through the launcher, read by a loop with a deadline and bounded memory."""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_rlenv.errors import BoxUnfit, SandboxFailed
from pytest_rlenv.sandboxes.commands import check_command
from pytest_rlenv.sandboxes.local import seccomp
from pytest_rlenv.sandboxes.local.command import CAPABILITY_MASK
from pytest_rlenv.sandboxes.local.launcher import Attendant, Launcher, parse_status
from pytest_rlenv.sandboxes.local.limits import Limits
from pytest_rlenv.sandboxes.local.users import User
from pytest_rlenv.sandboxes.output import STDERR, Output

_STDOUT, _STATUS = 1, 3
_CHUNK = 256 * 1024
_LINGER = 2.0
"""Seconds that what a command leaves running may go on printing into its output, at most ..."""
_SILENCE = 0.1
"""... and the silence, in seconds, after which it is taken to be done: a filter's last words come sooner."""
_END_LIMIT = 10.0
_KILL_AGAIN = 0.5


@dataclass(frozen=True)
class Command:
    """What to run, and as whom."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    user: User

    def fields(self) -> dict[str, Any]:
        """Return it as the attendant takes it.

        Raises:
            BoxUnfit: there is something in it that no program can be given.
        """
        check_command(self.argv, self.env, self.cwd)
        return {
            "argv": [os.fsencode(each) for each in self.argv],
            "env": {os.fsencode(name): os.fsencode(value) for name, value in self.env.items()},
            "cwd": os.fsencode(self.cwd),
            "uid": self.user.uid,
            "gid": self.user.gid,
            "groups": list(self.user.groups) if self.user != User() else None,
        }


def common_fields(limits: Limits, *, user_namespace: bool, network_namespace: bool) -> dict[str, Any]:
    """Return what all commands of a box have in common, as the attendant takes it."""
    return {
        "cgroups": limits.procs(),
        "command_cgroups": limits.command_procs(),
        "rlimits": list(limits.rlimits),
        "capabilities": CAPABILITY_MASK,
        "seccomp": seccomp.program(),
        "user_namespace": user_namespace,
        "network_namespace": network_namespace,
    }


class Process:
    """A command that has been started. Close it when done.

    Args:
        attendant: who starts it.
        launcher: who reads on what it leaves open.
        command: what to run.
        cap: bytes to keep of each stream.
    """

    def __init__(self, attendant: Attendant, launcher: Launcher, command: Command, cap: int) -> None:
        self.command = command
        self.output = Output(cap)
        self._launcher = launcher
        self._status = b""
        self._selector = selectors.DefaultSelector()
        ends = []
        try:
            for which in (_STDOUT, STDERR, _STATUS):
                reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
                ends.append(writer)
                os.set_blocking(writer, True)  # the command's end is an ordinary one
                self._selector.register(reader, selectors.EVENT_READ, which)
            attendant.start(command.fields(), *ends)
        except BaseException:
            self._close_all()
            raise
        finally:
            for fd in ends:
                os.close(fd)

    def pump(self, deadline: float | None) -> bool:
        """Read output until the command ends; return False if the deadline came first.

        What the command left running and printing is given a moment more.
        """
        while self._is_open(_STATUS):
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            self._read(left)
        give_up = time.monotonic() + _LINGER
        while self._selector.get_map() and time.monotonic() < give_up:
            if not self._read(_SILENCE):
                break
        return True

    def end(self, kill: Callable[[], None]) -> None:
        """Kill the command and read on until it is gone; it may only just have been about to start.

        Args:
            kill: kills all processes that there are in the box.
        """
        give_up = time.monotonic() + _END_LIMIT
        while time.monotonic() < give_up:
            kill()
            if self.pump(time.monotonic() + _KILL_AGAIN):
                return
        raise SandboxFailed(f"a killed command did not end within {_END_LIMIT:g} s")

    def result(self) -> tuple[str, int] | None:
        """Return how it ended; see :func:`~pytest_rlenv.sandboxes.local.launcher.read_status`."""
        return parse_status(self._status)

    def close(self) -> None:
        """Let go of it; where something in the box still prints, it is read on to no purpose."""
        for key in list(self._selector.get_map().values()):
            if key.data != _STATUS:
                with contextlib.suppress(SandboxFailed):
                    self._launcher.drain(key.fd)
        self._close_all()

    def _is_open(self, which: int) -> bool:
        return any(key.data == which for key in self._selector.get_map().values())

    def _read(self, wait: float | None) -> bool:
        """Take what is there, waiting for it; return False if nothing came."""
        ready = self._selector.select(wait)
        for key, _ in ready:
            try:
                data = os.read(key.fd, _CHUNK)
            except BlockingIOError:
                continue
            if not data:
                self._selector.unregister(key.fd)
                os.close(key.fd)
            elif key.data == _STATUS:
                self._status += data
            else:
                self.output.write(key.data, memoryview(data))
        return bool(ready)

    def _close_all(self) -> None:
        for key in list(self._selector.get_map().values()):
            os.close(key.fd)
        self._selector.close()


def not_started(step: str, number: int, command: Command, user: object, cwd: str | None) -> SandboxFailed:
    """Return the error for a command that could not be started.

    Args:
        step: what failed, in the launcher's words.
        number: its errno.
        command: what was to run.
        user: as whom, in the caller's words.
        cwd: where, ``None`` for the image's own working directory.
    """
    name, said = command.argv[0], os.strerror(number)
    hint = ""
    kind: type[SandboxFailed] = BoxUnfit
    if step == "cwd":
        where = f"workdir {cwd!r}" if cwd is not None else "the image's WORKDIR"
        message = f"{where} does not exist in the image"
        hint = "create it in the Dockerfile, with WORKDIR"
        if said != os.strerror(2):
            message = f"{where} cannot be used: {said}"
    elif step == "interpreter":
        message = f"{name!r} cannot be executed: its #! line names an interpreter that is not in the image"
        hint = "install the interpreter; a line that ends in CR LF (Windows) has this effect too"
    elif step == "exec" and number in _EXEC:
        message, hint = _EXEC[number]
        message = message.format(name=name)
    elif step == "user":
        message = f"the box cannot become user {str(user)!r}"
    else:
        kind, message = SandboxFailed, f"the command {name!r} could not be started ({step})"
    return kind(message, hint=hint, detail=said)


_EXEC = {
    2: ("command {name!r} is not in the image", "install it in the Dockerfile"),
    20: ("command {name!r} is not in the image", "install it in the Dockerfile"),
    13: ("{name!r} is not executable", "set its executable bit, or run it through a shell"),
    7: ("the arguments of {name!r} are longer than the kernel allows", "pass long texts in files"),
    8: (
        "{name!r} is neither a program for this machine nor a script with a #! line",
        "give the script a #! line, or build the image for this machine's architecture",
    ),
}
