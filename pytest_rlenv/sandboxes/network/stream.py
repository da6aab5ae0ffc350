"""A connection as the proxy reads and writes it: buffered, bounded, and with two ends that close apart."""

from __future__ import annotations

import asyncio
import contextlib
import socket

CHUNK = 256 * 1024


class TooLong(Exception):
    """What was to be read is longer than it may be."""


class Ended(Exception):
    """The other side closed the connection before what was to be read was there."""


class Stream:
    """One connected socket, on the running event loop. Close it when done.

    Args:
        connection: the socket, which belongs to the stream from now on.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        with contextlib.suppress(OSError):  # not a TCP connection
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connection
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()

    async def peek(self, count: int) -> bytes:
        """Return the next ``count`` bytes, which stay to be read; fewer if there are no more."""
        while len(self._buffer) < count and await self._fill():
            pass
        return bytes(self._buffer[:count])

    async def read(self) -> bytes:
        """Return some bytes, at most :data:`CHUNK`; none at the end."""
        if not self._buffer:
            return await self._loop.sock_recv(self._socket, CHUNK)
        data = bytes(self._buffer[:CHUNK])
        del self._buffer[:CHUNK]
        return data

    async def read_until(self, end: bytes, limit: int) -> bytes:
        """Return what comes up to and with ``end``.

        Raises:
            TooLong: it is longer than ``limit``. Ended.
        """
        searched = 0
        while (found := self._buffer.find(end, searched)) < 0:
            if len(self._buffer) >= limit:
                raise TooLong
            searched = max(0, len(self._buffer) - len(end) + 1)
            if not await self._fill():
                raise Ended
        if found + len(end) > limit:
            raise TooLong
        data = bytes(self._buffer[: found + len(end)])
        del self._buffer[: found + len(end)]
        return data

    async def copy(self, to: Stream, count: int) -> None:
        """Send the next ``count`` bytes on.

        Raises:
            Ended: there are fewer; those have been sent.
        """
        while count > 0:
            data = self._buffer[:count] or await self._loop.sock_recv(self._socket, min(count, CHUNK))
            if not data:
                raise Ended
            del self._buffer[: len(data)]
            await to.send(data)
            count -= len(data)

    async def copy_all(self, to: Stream) -> None:
        """Send everything on, up to the end, and then that there is an end."""
        while data := await self.read():
            await to.send(data)
        to.end()

    async def discard(self, limit: int | None = None) -> None:
        """Read to the end, or ``limit`` bytes, to no purpose."""
        while (data := await self.read()) and (limit is None or limit > 0):
            limit = None if limit is None else limit - len(data)

    async def send(self, data: bytes | bytearray) -> None:
        """Send all of it."""
        await self._loop.sock_sendall(self._socket, data)

    async def hung_up(self) -> None:
        """Wait until the other side has closed; nothing is read, and nobody else may be reading.

        What it sends meanwhile stays to be read, and then its end is not seen.
        """
        told = asyncio.Event()
        self._loop.add_reader(self._socket, told.set)
        try:
            await told.wait()
        finally:
            self._loop.remove_reader(self._socket)
        with contextlib.suppress(OSError):
            if self._socket.recv(1, socket.MSG_PEEK):
                await asyncio.Event().wait()

    def end(self) -> None:
        """Tell the other side that nothing more is sent; it may go on sending."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Let go of the connection."""
        self._socket.close()

    async def _fill(self) -> bool:
        data = await self._loop.sock_recv(self._socket, CHUNK)
        self._buffer += data
        return bool(data)
