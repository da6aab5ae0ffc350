"""HTTP to an engine on a Unix socket of this machine, by the standard library alone.

Through ``requests``, as the ``docker`` package does it, a request takes 2 ms of CPU and the imports 0.2 s in
each process; a rollout makes some twenty.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import socket
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

_CHUNK = 64 * 1024
_SWITCHED = 101

Body = bytes | str | Iterable[bytes] | None


class UnixAnswer:
    """An answer, as far as it is used here in the form of ``requests.Response``.

    Args:
        reply: the answer whose headers have been read.
        let_go: told once, when it is read or closed, whether the connection can be used again.
    """

    def __init__(self, reply: http.client.HTTPResponse, let_go: Callable[[bool], None]) -> None:
        self.raw = reply
        self.status_code = reply.status
        self.reason = reply.reason
        self.headers = reply.headers
        self._let_go: Callable[[bool], None] | None = let_go

    @cached_property
    def content(self) -> bytes:
        """The body; read to its end at first use."""
        try:
            return self.raw.read()
        finally:
            self.close()

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """Return the decoded body; raises ValueError."""
        return json.loads(self.content)

    def iter_lines(self) -> Iterator[bytes]:
        """Yield the lines of a streamed body as they come."""
        read = self.raw.read1 if self.raw.length is None else self.raw.read
        rest = b""
        while chunk := read(_CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line.rstrip(b"\r") for line in lines)
        if rest:
            yield rest

    def close(self) -> None:
        """Let go of the connection; one with something left to read is closed. May be called twice."""
        let_go, self._let_go = self._let_go, None
        if let_go is None:
            return
        if self.raw.length == 0 and self.status_code != _SWITCHED:
            self.raw.read()  # which reads nothing, but marks it as read
        let_go(self.raw.isclosed() and not self.raw.will_close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class UnixHttp:
    """Connections to one socket, kept open and used again. Safe to use from several threads.

    Args:
        path: the socket's path.
        pool_size: connections to keep.
    """

    def __init__(self, path: str, pool_size: int) -> None:
        self._path = path
        self._idle: deque[_Connection] = deque(maxlen=pool_size)
        weakref.finalize(self, _close_all, self._idle)  # else Python warns of each at the end of the process

    def request(
        self,
        method: str,
        target: str,
        *,
        body: Body = None,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
        connect_timeout: float,
        timeout: float | None,
    ) -> UnixAnswer:
        """Send one request and return the answer, whatever its status.

        Args:
            method: the HTTP verb.
            target: path and query.
            body: what to send; an iterable is sent in chunks.
            headers: further headers.
            stream: leave the body to be read by the caller, who closes the answer.
            connect_timeout: seconds to wait for the connection.
            timeout: seconds of silence after which to give up; ``None`` waits for ever.

        Raises:
            OSError, http.client.HTTPException: the connection cannot be made, or broke.
        """
        connection = self._take(connect_timeout)
        try:
            connection.sock.settimeout(timeout)
            # who refuses a body answers before its end, and hangs up
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, target, body=body, headers=dict(headers or {}))
            reply = connection.getresponse()
        except BaseException:
            connection.close()
            raise
        answer = UnixAnswer(reply, lambda usable: self._give_back(connection, usable))
        if not stream:
            answer.content  # noqa: B018 - read to its end, so that the connection is free
        return answer

    def close(self) -> None:
        """Close the connections that are not in use."""
        _close_all(self._idle)

    def _take(self, timeout: float) -> _Connection:
        with contextlib.suppress(IndexError):
            while True:
                connection = self._idle.pop()
                if not connection.has_ended():
                    return connection
                connection.close()
        connection = _Connection(self._path, timeout)
        connection.connect()
        return connection

    def _give_back(self, connection: _Connection, usable: bool) -> None:
        if usable and len(self._idle) < (self._idle.maxlen or 0):
            self._idle.append(connection)
        else:
            connection.close()


def _close_all(connections: deque[_Connection]) -> None:
    with contextlib.suppress(IndexError):
        while True:
            connections.pop().close()


class _Connection(http.client.HTTPConnection):
    sock: socket.socket

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout, blocksize=_CHUNK)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(self.timeout)
            sock.connect(self._path)
        except BaseException:
            sock.close()
            raise
        self.sock = sock

    def has_ended(self) -> bool:
        """Return True for an idle connection that the engine has closed, or broken in another way."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(0))
