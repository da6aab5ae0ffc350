"""A box's gate: connections to the listening socket that the box has handed over, served under its policy."""

from __future__ import annotations

import socket
import threading
from collections import Counter

from pytest_rlenv.sandboxes.network.accepting import Accepting
from pytest_rlenv.sandboxes.network.background import BackgroundLoop, shared_loop
from pytest_rlenv.sandboxes.network.dialing import Resolver, resolve
from pytest_rlenv.sandboxes.network.policy import Policy
from pytest_rlenv.sandboxes.network.session import Session
from pytest_rlenv.sandboxes.network.stream import Stream

_MAX_DENIED = 200
_OTHERS = "other hosts"


class Gate:
    """One box's gate, served in the background of this process. Safe to use from several threads.

    Args:
        listener: a listening socket in the box's network, which belongs to the gate from now on.
        policy: what passes at first.
        resolver: from names to addresses.
    """

    def __init__(self, listener: socket.socket, policy: Policy, resolver: Resolver = resolve) -> None:
        self._resolver = resolver
        self._policy = policy
        self._denied: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._accepting: Accepting | None = None
        self._loop: BackgroundLoop | None = shared_loop()
        self._loop.run(self._open(listener, self._loop))

    def set_policy(self, policy: Policy) -> None:
        """Let another policy hold; connections that were made under the old one are cut."""
        if self._loop is not None:
            self._loop.run(self._change(policy))

    def replace_listener(self, listener: socket.socket) -> None:
        """Serve another socket from now on: the box has started again, in a new network namespace."""
        if self._loop is None:
            listener.close()
            return
        self._loop.run(self._shut())
        self._loop.run(self._open(listener, self._loop))

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

    async def _open(self, listener: socket.socket, loop: BackgroundLoop) -> None:
        self._accepting = Accepting(listener, self._serve, loop.slots)

    async def _change(self, policy: Policy) -> None:
        self._policy = policy
        if self._accepting is not None:
            await self._accepting.cut()

    async def _shut(self) -> None:
        if self._accepting is not None:
            await self._accepting.shut()
            self._accepting = None

    async def _serve(self, client: Stream) -> None:
        await Session(client, self._policy, self._deny, self._resolver).serve()

    def _deny(self, what: str) -> None:
        with self._lock:
            known = what in self._denied or len(self._denied) < _MAX_DENIED
            self._denied[what if known else _OTHERS] += 1
