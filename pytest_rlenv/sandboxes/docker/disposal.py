"""Removes containers in the background, so that no rollout waits for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.removal import remove_container

MAX_PENDING = 8
"""Containers that may wait to be removed; beyond that the caller removes its own."""

_THREADS = 2
_log = logging.getLogger(__name__)


class Disposal:
    """A bounded queue of containers to remove.

    Args:
        engine: where they are.
        done: called with the id of each container that was dealt with.
        remove: removes one, and returns what went wrong.
    """

    def __init__(
        self,
        engine: Engine,
        done: Callable[[str], None],
        remove: Callable[[Engine, str], str] = remove_container,
    ) -> None:
        self._engine = engine
        self._done = done
        self._remove_one = remove
        self._room = threading.BoundedSemaphore(MAX_PENDING)
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def discard(self, container: str, stopped: bool = False) -> None:
        """Remove a container soon, which may be known to be stopped; never raises."""
        if not self._room.acquire(blocking=False):
            self._remove(container, stopped)
            return
        try:
            self._threads().submit(self._remove, container, stopped).add_done_callback(self._release)
        except RuntimeError:  # the interpreter is going down and takes no more work
            self._room.release()
            self._remove(container, stopped)

    def close(self) -> None:
        """Wait until all is removed; more may be discarded afterwards."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="rlenv-dispose")
            return self._pool

    def _release(self, _: Future[None]) -> None:
        self._room.release()

    def _remove(self, container: str, stopped: bool) -> None:
        if stopped:
            problem = remove_container(self._engine, container, stopped=True)
        else:
            problem = self._remove_one(self._engine, container)
        if problem:
            _log.warning("container %s was not removed: %s", container[:12], problem)
        self._done(container)
