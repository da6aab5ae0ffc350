"""Which rollouts are under way, and since when."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Running(NamedTuple):
    """A rollout under way.

    Attributes:
        label: which one, for people.
        seconds: since when.
    """

    label: str
    seconds: float


class UnderWay:
    """The rollouts under way in a run, as far as this process can tell. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[Hashable, tuple[str, float]] = {}

    def begin(self, key: Hashable, label: str) -> None:
        """Take note that one has begun."""
        with self._lock:
            self._running[key] = (label, time.monotonic())

    def end(self, key: Hashable) -> None:
        """Take note that one has ended; one that never began is none."""
        with self._lock:
            self._running.pop(key, None)

    @contextmanager
    def rollout(self, label: str) -> Iterator[None]:
        """Have one under way."""
        key = object()
        self.begin(key, label)
        try:
            yield
        finally:
            self.end(key)

    def now(self) -> list[Running]:
        """Return those under way, the longest first."""
        moment = time.monotonic()
        with self._lock:
            found = [Running(label, moment - since) for label, since in self._running.values()]
        return sorted(found, key=lambda running: -running.seconds)
