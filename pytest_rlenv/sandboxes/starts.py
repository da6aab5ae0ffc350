"""The starts of boxes that are under way, so that a sandbox which is closed meanwhile leaves none behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_rlenv.errors import SandboxFailed

END_LIMIT = 30.0
"""Seconds that a start under way has to notice that its sandbox was closed: engines may be slow to answer."""


class Starts:
    """Counts starts, and refuses them once it is closed.

    A box that came up just now is either known to who closes, or its start fails in :meth:`check` and has to
    remove it: so the start makes the box known first, and checks then.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._under_way = 0
        self._closed = False

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one start.

        Raises:
            SandboxFailed: no more boxes are started.
        """
        with self._changed:
            self.check()
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def check(self) -> None:
        """Raise SandboxFailed if no more boxes are started."""
        if self._closed:
            raise SandboxFailed("the run has ended: no more boxes are started")

    def close(self) -> None:
        """Let no more starts begin or succeed."""
        with self._changed:
            self._closed = True

    def wait(self) -> bool:
        """Wait until none is under way; return False if one still is after a while."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._under_way, END_LIMIT)
