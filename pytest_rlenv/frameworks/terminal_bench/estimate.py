"""How long a task may take, read from its ``task.yaml`` in a few microseconds; see Harbor's twin."""

from __future__ import annotations

import os
import re
from pathlib import Path

CONFIG_FILE = "task.yaml"
LIMITS = {b"agent": 360.0, b"test": 60.0}
"""Seconds that agent and tests have where nothing is said."""

_READ = 64 * 1024
_LINE = re.compile(
    rb"^max_(agent|test)_timeout_sec[ \t]*:[ \t]*(\d+(?:\.\d*)?)[ \t\r]*(?:#.*)?$", re.MULTILINE
)


def estimated_seconds(folder: Path) -> float | None:
    """Return the sum of what agent and tests may take, ``None`` if the file cannot be read."""
    try:
        fd = os.open(folder / CONFIG_FILE, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            text = file.read(_READ)
    except OSError:
        return None
    said = {line[1]: float(line[2]) for line in _LINE.finditer(text)}
    return sum((LIMITS | said).values())
