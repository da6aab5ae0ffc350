"""Numbers of a ``task.toml`` that limit something: time, processors, memory.

Harbor 0.26 accepts any number here. Where its behaviour with one is meaningless (a time limit of -1 ends
the agent before it begins, a negative memory limit stops the container from starting), the task is refused
with the field's name instead. Where there is a meaning it is kept: 0 processors or 0 memory is no limit,
an infinite time is no limit, a health check's time below one second is no limit.
"""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import AfterValidator

FOREVER = 1e9
"""Seconds (31 years) from which a time limit is no limit; larger ones overflow the system's timers."""


def time_limit(value: float | None) -> float | None:
    """Return a stage's time limit in seconds, ``None`` for no limit.

    Raises:
        ValueError: nothing could run within it.
    """
    if value is None or value >= FOREVER:
        return None
    if not value > 0:
        raise ValueError("expected a number of seconds above 0")
    return value


def pause(value: float) -> float:
    """Return the seconds between two checks; a negative number is 0.

    Raises:
        ValueError: it is infinite or not a number.
    """
    if not math.isfinite(value):
        raise ValueError("expected a finite number of seconds")
    return max(0.0, value)


def check_limit(value: float) -> float:
    """Return the seconds that one health check may take, as written.

    Raises:
        ValueError: it is infinite, not a number, or negative so that no check can succeed.
    """
    if not math.isfinite(value) or value <= -1:
        raise ValueError("expected a number of seconds, 0 for no limit")
    return value


def processors(value: float | None) -> int | float | None:
    """Return a number of cores, whole where it is whole; ``None`` for no limit.

    Raises:
        ValueError: it is infinite, not a number, or negative.
    """
    if value is None:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("expected a finite number of cores")
    if value < 0:
        raise ValueError("expected a number of cores, 0 for no limit")
    whole = int(value)
    return (whole if whole == value else value) or None


def mebibytes(value: int | None) -> int | None:
    """Return a size in MiB; ``None`` for no limit.

    Raises:
        ValueError: it is negative.
    """
    if value is not None and value < 0:
        raise ValueError("expected a number of MiB, 0 for no limit")
    return value or None


def count(value: int | None) -> int | None:
    """Return how many devices are asked for.

    Raises:
        ValueError: it is negative.
    """
    if value is not None and value < 0:
        raise ValueError("expected a count of 0 or more")
    return value


def size_to_mebibytes(text: str) -> int:
    """Return the MiB of a deprecated size such as ``4G``, ``512M`` or ``1048576K``.

    Raises:
        ValueError: another suffix, none, or no number.
    """
    factor = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}.get(text.strip().upper()[-1:])
    try:
        if factor is None:
            raise ValueError
        return int(float(text.strip()[:-1]) * factor)
    except (ValueError, OverflowError):
        raise ValueError(f'{text!r} is not a size such as "4G", "512M" or "64K"') from None


TimeLimit = Annotated[float | None, AfterValidator(time_limit)]
Pause = Annotated[float, AfterValidator(pause)]
CheckLimit = Annotated[float, AfterValidator(check_limit)]
Processors = Annotated[int | float | None, AfterValidator(processors)]
Mebibytes = Annotated[int | None, AfterValidator(mebibytes)]
Count = Annotated[int | None, AfterValidator(count)]
