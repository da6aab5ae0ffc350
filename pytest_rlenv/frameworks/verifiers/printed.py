"""What an interpreter prints, in a file without a name: nothing is left of it, however this process ends."""

from __future__ import annotations

import os
import threading

NEWS_BYTES = 1024 * 1024
"""Bytes at the end of what is new that are told."""
TAIL_BYTES = 4096
KEPT_BYTES = 64 * 1024 * 1024
"""Bytes of the file from which on it is begun anew, once they have been told."""


class PrintedLog:
    """A file that another process writes, read from here.

    Args:
        handle: of the open file; it is closed with this.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._using = threading.Lock()
        self._told = 0
        self._last = b""

    def news(self) -> bytes:
        """Return what was printed since this was last asked.

        Raises:
            OSError: it cannot be read.
        """
        with self._using:
            if self._handle < 0:
                return b""
            end = os.fstat(self._handle).st_size
            begin, self._told = max(self._told, end - NEWS_BYTES), end
            found = os.pread(self._handle, end - begin, begin)
            if end > KEPT_BYTES:  # of many rollouts; who writes appends, so it goes on at the beginning
                self._last = self._end()
                os.ftruncate(self._handle, 0)
                self._told = 0
            return found

    def tail(self) -> str:
        """Return the end of all that was printed, also when it is closed."""
        with self._using:
            return self._end().decode(errors="replace")

    def close(self) -> None:
        """Give the file up; only its end is kept."""
        with self._using:
            self._last = self._end()
            if self._handle >= 0:
                os.close(self._handle)
                self._handle = -1

    def _end(self) -> bytes:
        if self._handle < 0:
            return self._last
        try:
            end = os.fstat(self._handle).st_size
            now = os.pread(self._handle, TAIL_BYTES, max(0, end - TAIL_BYTES))
            return (self._last + now)[-TAIL_BYTES:]
        except OSError:
            return b""
