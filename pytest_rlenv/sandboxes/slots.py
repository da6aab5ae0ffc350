"""A number of slots that all processes of a user on this machine share, such as one for each core.

A slot is a courtesy and never a condition: who has waited too long goes ahead without one, and so does who
cannot make the files. A process that is killed lets go of its slots.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_WAIT = 30.0
"""Seconds after which a slot is not waited for any more: its holders may hang."""

_FIRST_PAUSE, _SHORTEST_PAUSE, _AT_THE_SLOTS = 0.04, 0.01, 0.01


class Slots:
    """Slots of one kind. Safe to use from several threads.

    Args:
        folder: where they are; made when first needed.
        count: how many.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self._count = max(1, count)

    @contextmanager
    def take(self, look: Callable[[], None] | None = None, *, max_wait: float = MAX_WAIT) -> Iterator[None]:
        """Hold a slot for the time of the block, if one can be had.

        Args:
            look: called now and then while waiting; what it raises ends the wait.
            max_wait: seconds after which to go ahead without.
        """
        slot = self._wait(look, max_wait)
        try:
            yield
        finally:
            if slot is not None:
                os.close(slot)

    def _wait(self, look: Callable[[], None] | None, max_wait: float) -> int | None:
        """Return a slot, or ``None`` after too long a wait.

        Of all who wait, one looks at the slots and the others at its door: to look at many files many times
        a second is work, and there may be a hundred who wait.
        """
        give_up = time.monotonic() + max_wait
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            self._folder.mkdir(parents=True, exist_ok=True)
            slot = self._try()
            if slot is not None:
                return slot
            door = self._open("door")
            stack.callback(os.close, door)
            if _until(lambda: _lock(door), look, give_up):
                while (slot := self._try()) is None and time.monotonic() < give_up:
                    _pause(_AT_THE_SLOTS, look)
            return slot
        return None

    def _try(self) -> int | None:
        """Return a free slot; each is a lock of an open file of its own, so threads do not share one."""
        for number in random.sample(range(self._count), self._count):
            fd = self._open(str(number))
            if _lock(fd):
                return fd
            os.close(fd)
        return None

    def _open(self, name: str) -> int:
        return os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _until(condition: Callable[[], bool], look: Callable[[], None] | None, give_up: float) -> bool:
    """Wait for a condition, and look the more often the longer the wait has been."""
    pause = _FIRST_PAUSE
    while not condition():
        if time.monotonic() > give_up:
            return False
        _pause(pause, look)
        pause = max(pause * 0.95, _SHORTEST_PAUSE)
    return True


def _pause(seconds: float, look: Callable[[], None] | None) -> None:
    if look is not None:
        look()
    time.sleep(seconds * random.uniform(0.5, 1.5))  # unequal, so that not all look at once
