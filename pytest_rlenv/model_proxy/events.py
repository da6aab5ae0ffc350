"""Server-sent events, read piece by piece as they pass."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

MOST = 16 * 1024 * 1024
"""Bytes of one event that are looked at; what is longer passes unread."""


class Event(NamedTuple):
    """One event.

    Attributes:
        raw: its bytes as they came, with the empty line that ends it.
        data: what it says, if that is a JSON object.
        done: True for ``[DONE]``.
    """

    raw: bytes
    data: dict[str, Any] | None = None
    done: bool = False


class EventReader:
    """Cuts a stream of bytes into events."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Event]:
        """Yield the events that are whole now."""
        self._held += data
        while (end := _end_of_event(self._held)) > 0:
            raw = bytes(self._held[:end])
            del self._held[:end]
            yield _parse(raw)
        if len(self._held) > MOST:
            yield Event(self.rest())

    def rest(self) -> bytes:
        """Return what has come of an event that did not end, and forget it."""
        held = bytes(self._held)
        self._held.clear()
        return held


def _end_of_event(held: bytearray) -> int:
    ends = [found + len(mark) for mark in (b"\n\n", b"\r\n\r\n", b"\r\r") if (found := held.find(mark)) >= 0]
    return min(ends, default=0)


def _parse(raw: bytes) -> Event:
    lines = [line[5:].strip() for line in raw.splitlines() if line.startswith(b"data:")]
    data = b"\n".join(lines)
    if data == b"[DONE]":
        return Event(raw, done=True)
    try:
        found = json.loads(data) if data else None
    except ValueError:
        found = None
    return Event(raw, found if isinstance(found, dict) else None)
