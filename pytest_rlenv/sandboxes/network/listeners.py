"""Takes the listening socket of a gate from whoever made it in the box's network namespace."""

from __future__ import annotations

import array
import os
import socket

from pytest_rlenv.errors import SandboxFailed

LIMIT = 30.0
"""Seconds that a box has to hand over its socket."""

_INT = array.array("i").itemsize


def receive_listener(link: socket.socket) -> socket.socket:
    """Return the listening TCP socket that comes through a connected Unix socket.

    Nothing else is taken: what sends it may run in a box whose image nobody has looked at.

    Raises:
        SandboxFailed: none comes, or something else does.
    """
    link.settimeout(LIMIT)
    try:
        _, messages, _, _ = link.recvmsg(1, socket.CMSG_SPACE(_INT), socket.MSG_CMSG_CLOEXEC)
    except OSError as error:
        raise SandboxFailed(f"the box did not hand over its gate: {error}") from error
    fds = array.array("i")
    for level, kind, data in messages:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % _INT])
    for surplus in fds[1:]:
        os.close(surplus)
    if not fds:
        raise SandboxFailed("the box handed over nothing as its gate")
    return _checked(fds[0])


def _checked(fd: int) -> socket.socket:
    try:
        listener = socket.socket(fileno=fd)
    except OSError:
        os.close(fd)
        raise _odd() from None
    try:
        listens = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError:
        listens = 0
    if not listens or listener.family != socket.AF_INET or listener.type != socket.SOCK_STREAM:
        listener.close()
        raise _odd()
    return listener


def _odd() -> SandboxFailed:
    return SandboxFailed("the box handed over something else than a listening socket as its gate")
