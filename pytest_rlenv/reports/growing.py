"""A report that is whole at every moment of a run, also when the run is killed: XML or JSON that grows."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

SHARE = 20
"""Once written, a report is left alone for this many times as long as writing it took.

So writing it takes a twentieth of the time at most, however large it grows, and a small one is always fresh.
"""


def may_be_replaced(path: Path) -> bool:
    """Return whether another file may take a file's place: not that of a pipe, a device or a link."""
    if path.is_symlink() or path.is_relative_to("/dev") or path.is_relative_to("/proc"):
        return False
    return path.is_file() or not path.exists()


class GrowingFile:
    """A document with a head that counts, a body that only grows, and a constant tail.

    The body goes to a file of its own. The document is made from all three and put in its place in one go, so
    that whoever reads it, and whenever, finds a valid one. Where nothing can be put in place, such as at
    ``/dev/stdout``, it is written once, at the end.

    Args:
        path: the document.
        scratch: where its body goes meanwhile; removed by :meth:`finish`.
        head: makes what stands before the body.
        tail: what stands after it.
        separator: what stands between two parts of the body.
    """

    def __init__(
        self, path: Path, scratch: Path, *, head: Callable[[], str], tail: str, separator: str = ""
    ) -> None:
        self.path = path
        self._scratch = scratch
        self._head = head
        self._tail = tail
        self._separator = separator
        self._parts = 0
        self._stale = True
        self._due = 0.0
        self._grows = may_be_replaced(path)

    def begin(self) -> None:
        """Put an empty document in place.

        Raises:
            OSError: it cannot be written.
        """
        self._scratch.parent.mkdir(parents=True, exist_ok=True)
        self._scratch.write_bytes(b"")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self._grows:
            self.publish()

    def add(self, text: str) -> None:
        """Add to the body, and to the document if it is time.

        Raises:
            OSError: it cannot be written.
        """
        with self._scratch.open("a", encoding="utf-8") as body:
            body.write((self._separator if self._parts else "") + text)
        self._parts += 1
        self._stale = True
        self.refresh()

    def refresh(self) -> None:
        """Write the document if there is something new, and it is time."""
        if self._grows and self._stale and time.monotonic() >= self._due:
            self.publish()

    def publish(self) -> None:
        """Write the document now."""
        began = time.monotonic()
        partial = self.path.with_name(f".{self.path.name}.part")
        try:
            self._write(partial)
            partial.replace(self.path)
        finally:
            partial.unlink(missing_ok=True)
        ended = time.monotonic()
        self._stale = False
        self._due = ended + SHARE * (ended - began)

    def finish(self) -> None:
        """Write the document for the last time."""
        if self._grows:
            self.publish()
        else:
            self._write(self.path)
        self._scratch.unlink(missing_ok=True)

    def _write(self, path: Path) -> None:
        with path.open("wb") as document:
            document.write(self._head().encode())
            with self._scratch.open("rb") as body:
                shutil.copyfileobj(body, document)
            document.write(self._tail.encode())
