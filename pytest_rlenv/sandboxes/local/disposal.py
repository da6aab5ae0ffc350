"""Removes what is left of boxes in the background: on a busy disk that takes longer than all the rest."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class Disposal:
    """One thread that does what it is handed, in order. It is started when first needed."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, remove: Callable[[], None]) -> None:
        """Have something removed soon; ``remove`` raises nothing."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True, name="rlenv-disposal")
                self._thread.start()
            self._work.put(remove)

    def close(self) -> None:
        """Wait until all is removed."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._work.put(None)
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while (remove := self._work.get()) is not None:
            remove()
