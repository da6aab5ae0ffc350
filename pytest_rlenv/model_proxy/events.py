"""Server-sent events, read piece by piece as they pass."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

MOST = 16 * 1024 * 1024
"""Bytes of one event that are looked at; what is longer passes unread."""

_END = re.compile(rb"\n\n|\r\n\r\n|\r\r")
_LONGEST_END = 3
"""Bytes of an end that may have come already when its last one comes."""


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
    """Cuts a stream of bytes into events. What was looked at once is not looked at again: one may be long."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._looked = 0
        """So many of the bytes held have no end of an event in them."""

    def feed(self, data: bytes) -> Iterator[Event]:
        """Yield the events that are whole now."""
        held, begin = self._held, 0
        held += data
        for end in _END.finditer(held, max(0, self._looked - _LONGEST_END)):
            yield _parse(bytes(held[begin : end.end()]))
            begin = end.end()
        if begin:
            self._held = held[begin:]
        self._looked = len(self._held)
        if len(self._held) > MOST:
            yield Event(self.rest())

    def rest(self) -> bytes:
        """Return what has come of an event that did not end, and forget it."""
        held, self._held, self._looked = bytes(self._held), bytearray(), 0
        return held


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
