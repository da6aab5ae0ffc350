"""Lines for the user while a test runs: past pytest's capture, from any thread, and from workers too."""

from __future__ import annotations

import contextlib
import os

_STDERR = 2


class Notices:
    """Writes to what was stderr when this was made; pytest puts a file in its place while a test runs.

    A worker's stderr is that of the process that reports.
    """

    def __init__(self) -> None:
        try:
            self._fd = os.dup(_STDERR)
        except OSError:  # there is none
            self._fd = -1

    def say(self, line: str) -> None:
        """Write a line; never raises."""
        if self._fd >= 0:
            # the first line break ends the line of dots that pytest may be in
            with contextlib.suppress(OSError):
                os.write(self._fd, f"\nrlenv: {line}\n".encode(errors="replace"))

    def close(self) -> None:
        """Write no more."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
