"""All frames of a rollout, as ``frames.jsonl`` in its folder: its record, and what can be replayed."""

from __future__ import annotations

import json
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

FRAMES = "frames.jsonl"
CAP_BYTES = 32 * 1024 * 1024
"""Bytes of frames that are kept of a rollout."""


class FrameLog:
    """The growing file. Each line has the seconds since the beginning, and what was sent or received."""

    def __init__(self, folder: Path) -> None:
        self.began = datetime.now(timezone.utc)
        self._file = (folder / FRAMES).open("w", encoding="utf-8")
        self._begin = time.monotonic()
        self._left = CAP_BYTES

    def sent(self, frame: dict[str, Any]) -> None:
        """Keep what is sent."""
        if self._full:
            return
        self._write("sent", json.dumps(frame))

    def received(self, text: str | bytes) -> None:
        """Keep what came, as it came if it is JSON."""
        if self._full:
            return
        if isinstance(text, bytes):
            text = text.decode(errors="replace")
        try:
            text = json.dumps(json.loads(text))
        except (ValueError, RecursionError):
            text = json.dumps(text)
        self._write("received", text)

    def close(self) -> None:
        """End the file."""
        self._file.close()

    @property
    def _full(self) -> bool:
        return self._left < 0 or self._file.closed

    def _write(self, what: str, frame: str) -> None:
        line = f'{{"at": {time.monotonic() - self._begin:.3f}, "{what}": {frame}}}\n'
        self._left -= len(line)
        if self._left < 0:
            line = json.dumps({"cut": f"no more than {CAP_BYTES} bytes of frames are kept"}) + "\n"
        self._file.write(line)
        self._file.flush()
