"""Processors and memory in a compose file: ``cpus``, ``mem_limit`` and ``deploy.resources.limits``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([bkmg]?)b?\s*", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


@dataclass(frozen=True)
class Limits:
    """What a container may use; ``None`` is no limit.

    Attributes:
        cpus: cores.
        memory_mb: MiB.
    """

    cpus: float | None = None
    memory_mb: int | None = None


def read_limits(key: str, value: Any, known: Limits) -> Limits | None:
    """Return the limits with what one key of a service adds; ``None`` if it says more, or nothing clear.

    Args:
        key: ``cpus``, ``mem_limit`` or ``deploy``.
        value: what the file says.
        known: the limits so far.
    """
    if key == "deploy":
        return _deploy(value, known)
    if key == "cpus":
        cpus = _cores(value)
        return None if cpus is None else replace(known, cpus=cpus or None)
    memory = _mebibytes(value)
    return None if memory is None else replace(known, memory_mb=memory or None)


def _deploy(value: Any, known: Limits) -> Limits | None:
    limits = value
    for name in ("resources", "limits"):
        if not isinstance(limits, Mapping) or list(limits) != [name]:
            return None
        limits = limits[name]
    if not isinstance(limits, Mapping) or not limits.keys() <= {"cpus", "memory"}:
        return None
    found: Limits | None = known
    for name, amount in limits.items():
        found = found and read_limits("cpus" if name == "cpus" else "mem_limit", amount, found)
    return found


def _cores(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        cores = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return cores if math.isfinite(cores) and cores >= 0 else None


def _mebibytes(value: Any) -> int | None:
    match = None if isinstance(value, bool) else _SIZE.fullmatch(str(value))
    if match is None:
        return None
    size = float(match[1]) * _UNITS[match[2].lower()]
    return math.ceil(size / 1024**2) if math.isfinite(size) else None
