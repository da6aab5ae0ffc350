"""Output that a command left open. Standard library only: the launcher loads it by its path."""

from __future__ import annotations

import contextlib
import os

_CHUNK = 65536


class Drain:
    """Reads on for a command, so that it neither blocks nor breaks."""

    def __init__(self, fd: int, copy: bytes | None, cap: int) -> None:
        self.fd = fd
        self._left = cap
        self._copy = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if copy else -1

    def read(self) -> bool:
        """Take what is there; False at the end."""
        try:
            data = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if self._copy >= 0 and self._left > 0:
            with contextlib.suppress(OSError):  # the disk is full, say
                self._left -= os.write(self._copy, data[: self._left])
        return bool(data)

    def close(self) -> None:
        """Let go."""
        os.close(self.fd)
        if self._copy >= 0:
            os.close(self._copy)
