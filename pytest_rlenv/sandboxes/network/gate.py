"""A box's gate: connections to the listening socket that the box has handed over, served under its policy."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections import Counter
from functools import partial

from pytest_rlenv.sandboxes.network.background import BackgroundLoop, shared_loop
from pytest_rlenv.sandboxes.network.dialing import Resolver, resolve
from pytest_rlenv.sandboxes.network.policy import Policy
from pytest_rlenv.sandboxes.network.session import Session
from pytest_rlenv.sandboxes.network.stream import Stream

MAX_CONNECTIONS = 64
"""Connections of one box that are served at once; more wait."""

_MAX_DENIED = 200
_OTHERS = "other hosts"
_PAUSE = 0.2
_PASSING = (errno.ECONNABORTED, errno.EAGAIN, errno.EINTR, errno.EPROTO)
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Gate:
    """One box's gate, served in the background of this process. Safe to use from several threads.

    Args:
        listener: a listening socket in the box's network, which belongs to the gate from now on.
        policy: what passes at first.
        resolver: from names to addresses.
    """

    def __init__(self, listener: socket.socket, policy: Policy, resolver: Resolver = resolve) -> None:
        listener.setblocking(False)
        self._resolver = resolver
        self._policy = policy
        self._denied: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._sessions: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = listener
        self._accepting: asyncio.Task[None] | None = None
        self._loop: BackgroundLoop | None = shared_loop()
        self._loop.run(self._open(listener, self._loop.slots))

    def set_policy(self, policy: Policy) -> None:
        """Let another policy hold; connections that were made under the old one are cut."""
        if self._loop is not None:
            self._loop.run(self._change(policy))

    def replace_listener(self, listener: socket.socket) -> None:
        """Serve another socket from now on: the box has started again, in a new network namespace."""
        listener.setblocking(False)
        if self._loop is None:
            listener.close()
            return
        self._loop.run(self._shut())
        self._loop.run(self._open(listener, self._loop.slots))

    def take_denied(self) -> dict[str, int]:
        """Return what was refused since last asked, and how often."""
        with self._lock:
            denied, self._denied = self._denied, Counter()
        return dict(denied)

    def close(self) -> None:
        """Stop serving and cut all connections; may be called twice."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.run(self._shut())
            loop.release()

    # ---- on the loop

    async def _open(self, listener: socket.socket, slots: asyncio.Semaphore) -> None:
        self._listener = listener
        self._accepting = asyncio.ensure_future(self._accept(listener, slots))

    async def _change(self, policy: Policy) -> None:
        self._policy = policy
        await _cancel(self._sessions)

    async def _shut(self) -> None:
        if self._accepting is not None:
            await _cancel({self._accepting})
        await _cancel(self._sessions)
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _accept(self, listener: socket.socket, slots: asyncio.Semaphore) -> None:
        loop = asyncio.get_running_loop()
        room = asyncio.Semaphore(MAX_CONNECTIONS)
        while True:
            await room.acquire()
            await _readable(listener)
            await slots.acquire()
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                room.release()
                slots.release()
                if error.errno in _NO_ROOM:
                    await asyncio.sleep(_PAUSE)
                elif error.errno not in _PASSING:
                    return  # what was handed over is no listening socket any more
                continue
            client = Stream(connection)
            session = asyncio.ensure_future(self._serve(client))
            self._sessions.add(session)
            session.add_done_callback(partial(self._ended, client, room, slots))

    async def _serve(self, client: Stream) -> None:
        await Session(client, self._policy, self._deny, self._resolver).serve()

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

    def _deny(self, what: str) -> None:
        with self._lock:
            known = what in self._denied or len(self._denied) < _MAX_DENIED
            self._denied[what if known else _OTHERS] += 1


async def _readable(listener: socket.socket) -> None:
    """Wait until somebody asks for a connection; until then, none of those that all gates share is taken."""
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
