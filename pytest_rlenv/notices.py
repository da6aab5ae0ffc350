"""Lines for the user while a test runs: past pytest's capture, from any thread, and from workers too."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager

_STDOUT, _STDERR = 1, 2


class Notices:
    """Writes to what was stderr when this was made; pytest puts a file in its place while a test runs.

    A worker's stderr is that of the process that reports.
    """

    def __init__(self) -> None:
        self.around: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
        """Makes room for a line, where something else is drawn on the same terminal."""
        try:
            self._fd = os.dup(_STDERR)
        except OSError:  # there is none
            self._fd = -1

    def say(self, line: str) -> None:
        """Write a line; never raises."""
        from pytest_rlenv.secrets import SECRETS

        if self._fd >= 0:
            line = SECRETS.redact(line)
            # the first line break ends the line of dots that pytest may be in
            with self.around(), contextlib.suppress(OSError):
                os.write(self._fd, f"\nrlenv: {line}\n".encode(errors="replace"))

    def close(self) -> None:
        """Write no more."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def kept_stdout(at_the_end: Callable[[Callable[[], None]], object]) -> int:
    """Return a file descriptor for what is stdout now, while nothing is captured; -1 if there is none.

    Args:
        at_the_end: is given what closes it.
    """
    try:
        fd = os.dup(_STDOUT)
    except OSError:
        return -1
    at_the_end(lambda: os.close(fd))
    return fd
