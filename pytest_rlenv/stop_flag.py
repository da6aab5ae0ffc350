"""Why a run starts no more rollouts: told to all its processes by a file, also where the disk is full."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

NO_WORDS = "no space left for the run's own files"
"""What a file without a reason in it means: there was no space for the reason."""

NOT_STARTED = "not started: "
"""How the reason of a test begins that was skipped because no more rollouts are started."""

_FILE = "stop"


class StopFlag:
    """One run's flag, as one of its processes sees it. Safe to use from several threads.

    Args:
        folder: shared by the run's processes; made when the flag is set.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / _FILE
        self._why: str | None = None

    def set(self, why: str) -> None:
        """Say that no more rollouts are started; the first reason stays. Never raises."""
        if self.get() is not None:
            return
        self._why = why
        partial = self._file.with_name(f"{_FILE}-{os.getpid()}-{threading.get_ident()}.part")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(why, encoding="utf-8")
            partial.replace(self._file)
        except OSError:
            # a file system that has no space for words may have some for an empty file
            _quietly(partial.unlink)
            _quietly(self._file.touch)

    def get(self) -> str | None:
        """Return why no more rollouts are started, ``None`` while they are."""
        if self._why is None:
            try:
                self._why = self._file.read_text(encoding="utf-8") or NO_WORDS
            except OSError:
                return None
        return self._why


def _quietly(call: Callable[[], object]) -> None:
    with contextlib.suppress(OSError):
        call()
