"""Run an agent within its time, whatever it does on this machine or in the box."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

GRACE = 5.0
"""Seconds for an agent whose time is up to notice it; then it is left behind with its box taken away."""


class LeftBehind(Exception):
    """The call did not return in its time; its thread may still run."""


class Escaped(Exception):
    """The call raised what is no ``Exception``, such as ``SystemExit``: meant for the whole process.

    It is wrapped, so that a stranger's ``sys.exit()`` is told from what concerns the caller itself.

    Args:
        error: what it raised.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


class _Call(Generic[T]):
    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self.result: T | None = None
        self.error: BaseException | None = None

    def __call__(self) -> None:
        try:
            self.result = self._function()
        except BaseException as error:  # handed to the caller, whatever it is
            self.error = error


def call_within(function: Callable[[], T], timeout: float | None) -> T | None:
    """Call ``function`` and return what it returns or raise what it raises, ``KeyboardInterrupt`` too.

    It runs in a thread of its own: an agent is a stranger's code, and a thread that never returns must not
    hold up the run.

    Args:
        function: what to call.
        timeout: seconds to wait; ``None`` waits for ever.

    Raises:
        LeftBehind: it did not return in time.
        Escaped: it raised ``SystemExit``, ``GeneratorExit`` or the like.
    """
    call = _Call(function)
    thread = threading.Thread(target=call, name="rlenv-agent", daemon=True)
    thread.start()
    thread.join(timeout)
    if thread.is_alive():
        raise LeftBehind
    if call.error is not None:
        if not isinstance(call.error, (Exception, KeyboardInterrupt)):
            raise Escaped(call.error)
        raise call.error
    return call.result
