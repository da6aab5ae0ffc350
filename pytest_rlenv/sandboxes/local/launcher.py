"""Our end of the launcher: each request starts a process in a box, or a box."""

from __future__ import annotations

import contextlib
import marshal
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.local import _launcher
from pytest_rlenv.sandboxes.network.listeners import receive_listener

_PROGRAM = Path(__file__).with_name("_launcher.py")
_END_LIMIT = 15.0


class Launcher:
    """The process that starts others in boxes. Safe to use from several threads.

    Args:
        folder: what to remove when this process ends without closing it.
        cgroups: where this process makes control groups, and with which prefix; removed likewise.
        prefix: how their names start.
    """

    def __init__(self, folder: Path, cgroups: Iterable[Path], prefix: str) -> None:
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._closing = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_PROGRAM), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                env={},  # nothing of the caller's environment comes near a box
            )
        hello = {"folder": str(folder), "cgroups": [str(path) for path in cgroups], "prefix": prefix}
        self._send(_launcher.HELLO, hello)

    def spawn(self, argv: Sequence[str], fds: Sequence[int]) -> None:
        """Start bubblewrap with stdout, stderr and further descriptors, which it knows as 3, 4 ..."""
        self._send(_launcher.SPAWN, {"argv": [os.fsencode(each) for each in argv]}, fds)

    def attend(self, fields: Mapping[str, Any], pidfd: int) -> Attendant:
        """Have an attendant for the box whose first process is ``pidfd``; see ``_attendant.py``."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._send(_launcher.ATTEND, fields, (pidfd, theirs.fileno()))
        except BaseException:
            ours.close()
            raise
        return Attendant(ours)

    def kill(self, pidfd: int, status: int, *, signal: int, user_namespace: bool) -> None:
        """Signal all processes of a box but its first; 0 only tries whether one can be started."""
        self._send(_launcher.KILL, {"signal": int(signal), "user_namespace": user_namespace}, (pidfd, status))

    def drain(self, fd: int, *, copy: Path | None = None, cap: int = 0) -> None:
        """Read a descriptor to its end, whenever that is, keeping the first ``cap`` bytes in a file."""
        self._send(_launcher.DRAIN, {"copy": os.fsencode(copy) if copy else None, "cap": cap}, (fd,))

    def close(self) -> None:
        """End it, and with it all boxes."""
        with self._closing:
            self._link.close()
            try:
                self._process.wait(_END_LIMIT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _send(self, kind: bytes, fields: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        _send(self._link, kind, fields, fds)


class Attendant:
    """Our end of a box's attendant. Safe to use from several threads.

    Args:
        link: the socket to it.
    """

    def __init__(self, link: socket.socket) -> None:
        self._link = link

    def start(self, fields: Mapping[str, Any], out: int, err: int, status: int) -> None:
        """Start a command with these descriptors; how it ended comes through ``status``.

        Raises:
            SandboxFailed: the attendant is gone.
        """
        _send(self._link, _launcher.RUN, fields, (out, err, status))

    def listen(self, port: int) -> socket.socket:
        """Return a socket that listens on the box's loopback.

        Raises:
            SandboxFailed: it cannot be made, or the attendant is gone.
        """
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                _send(self._link, _launcher.LISTEN, {"port": port}, (theirs.fileno(),))
            return receive_listener(ours)

    def close(self) -> None:
        """Send it away; may be called twice."""
        self._link.close()


def _send(link: socket.socket, kind: bytes, fields: Mapping[str, Any], fds: Sequence[int]) -> None:
    payload = os.memfd_create("rlenv-request", os.MFD_CLOEXEC)
    try:
        # a request may be longer than a datagram can be
        os.write(payload, marshal.dumps(dict(fields)))
        socket.send_fds(link, [kind], [payload, *fds])
    except OSError as error:
        raise SandboxFailed(
            f"the process that starts commands in local boxes is gone: {error.strerror or error}",
            hint="was it killed, or was the machine out of memory?",
        ) from error
    finally:
        os.close(payload)


def read_status(fd: int) -> tuple[str, int] | None:
    """Return how a request ended: ``("", exit code)``, or the step that failed and its errno.

    ``None`` if nothing was told.
    """
    data = b""
    with contextlib.suppress(BlockingIOError):
        while chunk := os.read(fd, 4096):
            data += chunk
    return parse_status(data)


def parse_status(data: bytes) -> tuple[str, int] | None:
    """Return what the lines of a status mean; see :func:`read_status`."""
    lines = [line.split() for line in data.decode("ascii", "replace").splitlines()]
    for line in lines:
        if len(line) == 3 and line[0] == "E":
            return line[1], int(line[2])
    for line in lines:
        if len(line) == 2 and line[0] == "X":
            return "", int(line[1])
    return None
