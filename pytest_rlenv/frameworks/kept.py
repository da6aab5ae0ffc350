"""What a process of the run keeps up from one rollout to the next: servers and slow interpreters."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, TypeVar, cast

from pytest_rlenv.errors import SandboxFailed, Stage

_LOOK = 0.2


class Keepable(Protocol):
    """Something that is up until it is closed, or has died."""

    @property
    def alive(self) -> bool:
        """False once nothing more can be had of it."""
        ...

    def close(self) -> None:
        """End it. May be called twice, and from another thread."""
        ...


Thing = TypeVar("Thing", bound=Keepable)


class _Kind:
    """The things of one key."""

    def __init__(self) -> None:
        self.idle: list[Keepable] = []
        self.up = 0


class Kept:
    """All that one process keeps up; threads may share it.

    What is leased is its holder's alone until it is given back, so that a server with one session is enough;
    as many are made as are in use at once, up to a limit. One that has died is made anew for the next holder.
    """

    def __init__(self) -> None:
        self._kinds: dict[Hashable, _Kind] = {}
        self._leased: set[Keepable] = set()
        self._changed = threading.Condition()
        self._closed = False

    @contextmanager
    def lease(
        self,
        key: Hashable,
        make: Callable[[], Thing],
        *,
        at_most: int = 1,
        deadline: float | None = None,
        stage: Stage = Stage.START,
    ) -> Iterator[Thing]:
        """Have a thing for oneself.

        Args:
            key: whoever gives the same one can use the same things.
            make: makes one, taking its time; what it raises goes to the caller, and nothing is kept.
            at_most: so many are up at once; when all are in use, wait.
            deadline: on the monotonic clock, until when to wait for one in use; ``None`` is for ever.
            stage: where the rollout is meanwhile.

        Raises:
            SandboxFailed: none became free in time, or the run has ended.
        """
        thing = self._idle_or_place(key, at_most, deadline, stage)
        if thing is None:
            try:
                thing = make()
            except BaseException:
                with self._changed:
                    if (kind := self._kinds.get(key)) is not None:  # else all has been closed meanwhile
                        kind.up -= 1
                    self._changed.notify_all()
                raise
        with self._changed:
            self._leased.add(thing)
            closed = self._closed
        try:
            if closed:
                raise _ended(stage)
            yield cast(Thing, thing)
        finally:
            self._give_back(key, thing)

    def close_idle(self) -> None:
        """End what nobody uses now; it is made anew for who wants it."""
        with self._changed:
            things = [thing for kind in self._kinds.values() for thing in kind.idle]
            for kind in self._kinds.values():
                kind.up -= len(kind.idle)
                kind.idle.clear()
            self._changed.notify_all()
        for thing in things:
            with suppress(Exception):
                thing.close()

    def close(self) -> None:
        """End all, also what is in use. Nothing is kept any more."""
        with self._changed:
            self._closed = True
            things = [*self._leased, *(thing for kind in self._kinds.values() for thing in kind.idle)]
            self._kinds.clear()
            self._changed.notify_all()
        for thing in things:
            with suppress(Exception):
                thing.close()

    def _idle_or_place(
        self, key: Hashable, at_most: int, deadline: float | None, stage: Stage
    ) -> Keepable | None:
        """Return an idle thing, or ``None`` with the right to make one."""
        with self._changed:
            while True:
                if self._closed:
                    raise _ended(stage)
                kind = self._kinds.setdefault(key, _Kind())
                while kind.idle:
                    thing = kind.idle.pop()
                    if thing.alive:
                        return thing
                    kind.up -= 1
                    thing.close()
                if kind.up < at_most:
                    kind.up += 1
                    return None
                if deadline is not None and time.monotonic() >= deadline:
                    raise SandboxFailed("waited in vain for a server that others use", stage=stage)
                self._changed.wait(_LOOK)

    def _give_back(self, key: Hashable, thing: Keepable) -> None:
        with self._changed:
            self._leased.discard(thing)
            kind = self._kinds.get(key)
            keep = kind is not None and not self._closed and thing.alive
            if kind is not None and keep:
                kind.idle.append(thing)
            elif kind is not None:
                kind.up -= 1
            self._changed.notify_all()
        if not keep:
            thing.close()


def _ended(stage: Stage) -> SandboxFailed:
    return SandboxFailed("the run has ended: nothing is started any more", stage=stage)
