"""Sizes, durations and counts as people write and read them: ``500M``, ``2GiB``, ``12h``, ``error: 3``."""

from __future__ import annotations

import re
from collections.abc import Mapping

_AMOUNT = re.compile(r"\s*(?P<number>\d{1,15}(?:\.\d{1,15})?)\s*(?P<unit>[a-zA-Z]*)\s*")
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_DURATIONS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def parse_size(text: str) -> int:
    """Return a size in bytes; units are powers of 1024, with or without ``B`` or ``iB`` behind them.

    Raises:
        ValueError: it is not a size.
    """
    number, unit = _split(text)
    factor = _SIZES.get(re.sub(r"(?<=[kmgt])i?b$|^b$", "", unit))
    if factor is None:
        raise ValueError(f"{text!r} is not a size such as 500M or 2G")
    return int(number * factor)


def parse_duration(text: str) -> float:
    """Return a duration in seconds.

    Raises:
        ValueError: it is not a duration; a bare number is none but for 0, since nobody can tell its unit.
    """
    number, unit = _split(text)
    factor = _DURATIONS.get(unit, 0 if number == 0 and not unit else None)
    if factor is None:
        raise ValueError(f"{text!r} is not a duration such as 30m, 12h or 7d")
    return number * factor


def show_size(count: float) -> str:
    """Return a number of bytes in the unit that suits it."""
    power = 0
    while count >= 1024 and power < len(_UNITS) - 1:
        count, power = count / 1024, power + 1
    return f"{count:.0f} {_UNITS[power]}" if power == 0 or count >= 100 else f"{count:.1f} {_UNITS[power]}"


def _split(text: str) -> tuple[float, str]:
    found = _AMOUNT.fullmatch(text)
    return (float(found["number"]), found["unit"].lower()) if found else (0.0, "?")


def show_reasons(reasons: Mapping[str, int]) -> str:
    """Return how often each reason applies, the commonest first, such as ``error: 3; skipped: 1``."""
    by_count = sorted(reasons.items(), key=lambda item: -item[1])
    return "; ".join(f"{reason}: {many}" for reason, many in by_count)
