"""Who is at work in a box: its descriptors are closed when nobody is, since their numbers are used again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

END_LIMIT = 10.0
"""Seconds that calls on a box have to return once its processes are dead."""


class Uses:
    """Counts the calls that are under way in one box, from all threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait(self) -> bool:
        """Wait until no call is under way; return False if one still is after a while."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._count, END_LIMIT)


class _HasUses(Protocol):
    uses: Uses


S = TypeVar("S", bound=_HasUses)


def counted(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Count the calls of a method of something that has ``uses``."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **keywords: P.kwargs) -> R:
        with self.uses:
            return method(self, *args, **keywords)

    return call
