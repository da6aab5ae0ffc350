"""JSON events, one a line, among whatever else a program prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def events(log: bytes) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a log, in order; a line that is none, or cut off, is passed over."""
    for line in log.splitlines():
        if not line.lstrip().startswith(b"{"):
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


def document(log: bytes) -> Any:
    """Return a log that is one JSON document as a whole, ``None`` if it is none."""
    try:
        return json.loads(log)
    except (ValueError, RecursionError):
        return None
