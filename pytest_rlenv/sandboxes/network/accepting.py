"""Takes connections from a listening socket and serves each, on the loop that all such sockets share."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from functools import partial

from pytest_rlenv.sandboxes.network.stream import Stream

MAX_CONNECTIONS = 64
"""Connections of one listening socket that are served at once; more wait."""

_PAUSE = 0.2
_PASSING = (errno.ECONNABORTED, errno.EAGAIN, errno.EINTR, errno.EPROTO)
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Accepting:
    """Serves one listening socket. All methods run on the loop.

    Args:
        listener: the socket, which belongs to this from now on.
        serve: serves one connection to its end, and raises nothing; the connection is closed for it.
        slots: connections that all sockets together may have.
    """

    def __init__(
        self, listener: socket.socket, serve: Callable[[Stream], Awaitable[None]], slots: asyncio.Semaphore
    ) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._serve = serve
        self._sessions: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.ensure_future(self._accept(slots))

    async def cut(self) -> None:
        """End all connections that are open."""
        await _cancel(self._sessions)

    async def shut(self) -> None:
        """End everything."""
        await _cancel({self._accepting})
        await _cancel(self._sessions)
        self._listener.close()

    async def _accept(self, slots: asyncio.Semaphore) -> None:
        loop = asyncio.get_running_loop()
        room = asyncio.Semaphore(MAX_CONNECTIONS)
        while True:
            await room.acquire()
            await _readable(self._listener)
            await slots.acquire()
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                room.release()
                slots.release()
                if error.errno in _NO_ROOM:
                    await asyncio.sleep(_PAUSE)
                elif error.errno not in _PASSING:
                    return  # what was handed over is no listening socket any more
                continue
            client = Stream(connection)
            session = asyncio.ensure_future(self._session(client))
            self._sessions.add(session)
            session.add_done_callback(partial(self._ended, client, room, slots))

    async def _session(self, client: Stream) -> None:
        await self._serve(client)

    def _ended(
        self,
        client: Stream,
        room: asyncio.Semaphore,
        slots: asyncio.Semaphore,
        session: asyncio.Task[None],
    ) -> None:
        client.close()
        self._sessions.discard(session)
        room.release()
        slots.release()


async def _readable(listener: socket.socket) -> None:
    """Wait until somebody asks for a connection; until then, none of those that all share is taken."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    loop.add_reader(listener, asked.set)
    try:
        await asked.wait()
    finally:
        loop.remove_reader(listener)


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    pending = list(tasks)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
