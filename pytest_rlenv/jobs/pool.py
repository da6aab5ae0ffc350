"""A few threads that do what they are handed, in order, and leave room for who works beside them.

The standard library's pool will not do: its threads are waited for when the process ends, and a stranger's
code that never returns would keep it from ending.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Pool:
    """Runs calls, at most ``size`` at once, in the order in which they were handed in.

    Args:
        size: how many calls may run at once, guests included.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._changed = threading.Condition()
        self._calls: deque[Callable[[], None]] = deque()
        self._threads = 0
        self._running = 0
        self._guests = 0
        self._closed = False

    def submit(self, call: Callable[[], None]) -> None:
        """Have something called soon; ``call`` raises nothing. After :meth:`close` it is dropped."""
        with self._changed:
            if self._closed:
                return
            self._calls.append(call)
            if self._threads < min(self._size, self._running + len(self._calls)):
                self._threads += 1
                threading.Thread(target=self._work, name=f"rlenv-job-{self._threads}", daemon=True).start()
            self._changed.notify()

    @contextmanager
    def guest(self) -> Iterator[None]:
        """Count what the caller does meanwhile as one of the calls; it need not stand in line."""
        with self._changed:
            self._guests += 1  # from now on no call is begun in the caller's place
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._running + self._guests <= self._size)
            yield
        finally:
            with self._changed:
                self._guests -= 1
                self._changed.notify_all()

    def close(self) -> bool:
        """Begin no more calls; return whether any is still running."""
        with self._changed:
            self._closed = True
            self._calls.clear()
            self._changed.notify_all()
            return self._running > 0

    def wait(self, timeout: float) -> bool:
        """Wait until no call is running; return False if some still is after ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._running == 0, timeout)

    def _work(self) -> None:
        while (call := self._next()) is not None:
            try:
                call()
            finally:
                with self._changed:
                    self._running -= 1
                    self._changed.notify_all()

    def _next(self) -> Callable[[], None] | None:
        """Wait for something to do; ``None`` is the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._has_room())
            if self._closed:
                return None
            self._running += 1
            return self._calls.popleft()

    def _has_room(self) -> bool:
        return bool(self._calls) and self._running + self._guests < self._size
