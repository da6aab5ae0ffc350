"""What agents say that they used, as far as somebody counts it: the cost in US dollars."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

COST = "cost_usd"
"""Key of ``usage`` by which an agent says what it cost, in US dollars; Harbor's results have it too."""


def cost_of(record: Mapping[str, Any]) -> float | None:
    """Return what a rollout cost in US dollars by its record, earlier tries included.

    ``None`` if neither says: no agent is taken to cost nothing for not saying what it costs.
    """
    known = list(_costs(record))
    return sum(known) if known else None


def total_usage(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the usage of several parts as one: sums of numbers, else what the last part says."""
    sums: defaultdict[str, float] = defaultdict(int)
    others: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                sums[key] += value
            else:
                others[key] = value
    return {**others, **sums}


def _costs(record: Mapping[str, Any]) -> Iterator[float]:
    for each in (*(record.get("tries") or ()), record):
        value = (each.get("usage") or {}).get(COST)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if math.isfinite(value) and value >= 0:
            yield float(value)
