"""An event loop in a thread of its own, there while something needs it."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

_T = TypeVar("_T")
_RESOLVERS = 8
_SHARE = 4
_FEWEST, _MOST = 16, 4096


class BackgroundLoop:
    """A running loop with users; it ends with the last of them. Made by :func:`shared_loop`."""

    def __init__(self) -> None:
        self.users = 0
        self.slots = asyncio.Semaphore(_connections())
        """Connections that may be served at once."""
        self._loop = asyncio.new_event_loop()
        # a name server that does not answer keeps a thread for as long as it likes: nobody waits for it here
        self._resolvers = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="rlenv-resolve")
        self._loop.set_default_executor(self._resolvers)
        self._thread = threading.Thread(target=self._loop.run_forever, name="rlenv-network", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run something on the loop and return its result; not to be called from the loop itself."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def release(self) -> None:
        """Take leave: the last user's leave ends the loop."""
        global _shared
        with _lock:
            self.users -= 1
            if self.users:
                return
            if _shared is not None and _shared[1] is self:
                _shared = None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._resolvers.shutdown(wait=False, cancel_futures=True)
        self._loop.close()


def _connections() -> int:
    """Return how many connections may use up descriptors, two each, so that half of them stay for others."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft < 0 else min(max(soft // _SHARE, _FEWEST), _MOST)


_lock = threading.Lock()
_shared: tuple[int, BackgroundLoop] | None = None


def shared_loop() -> BackgroundLoop:
    """Return this process's loop, with the caller as one more user; a forked child gets its own."""
    global _shared
    with _lock:
        if _shared is None or _shared[0] != os.getpid():
            _shared = (os.getpid(), BackgroundLoop())
        _shared[1].users += 1
        return _shared[1]
