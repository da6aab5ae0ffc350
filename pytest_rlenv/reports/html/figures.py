"""The overview's figures: rewards by size, time by stage, errors by cause. Means are the aggregate's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from pytest_rlenv.errors import Stage
from pytest_rlenv.verdict import Outcome

BINS = 20


def histogram(rewards: Iterable[tuple[float, Outcome]]) -> dict[str, Any] | None:
    """Return how many rewards lie in each of equal bins, by verdict; ``None`` where there are no rewards.

    The bins span 0 to 1, or further where rewards do. A reward on an edge belongs to the bin above it, the
    highest to the last bin.

    Args:
        rewards: of the scored rollouts, with their verdicts.
    """
    found = list(rewards)
    if not found:
        return None
    low = min(0.0, *(reward for reward, _ in found))
    high = max(1.0, *(reward for reward, _ in found))
    width = high / BINS - low / BINS  # their difference may be more than a float holds
    counts: list[Counter[str]] = [Counter() for _ in range(BINS)]
    for reward, verdict in found:
        number = min(int(reward / width - low / width + 1e-9), BINS - 1)
        counts[number][verdict.value] += 1
    return {"low": low, "high": high, "bins": [dict(count) for count in counts]}


def stage_times(stages: Iterable[Mapping[str, object]]) -> list[dict[str, Any]]:
    """Return median and total seconds of each stage over the rollouts that reached it, in a rollout's order.

    Args:
        stages: seconds by stage, of each rollout.
    """
    seconds: dict[str, list[float]] = {}
    for table in stages:
        for stage, spent in table.items():
            if isinstance(spent, (int, float)):
                seconds.setdefault(stage, []).append(float(spent))
    order = [stage.value for stage in Stage]
    known = sorted(seconds, key=lambda name: (order.index(name) if name in order else len(order), name))
    return [
        {"stage": name, "median": median(spent), "total": sum(spent), "count": len(spent)}
        for name, spent in ((name, seconds[name]) for name in known)
    ]


def error_causes(errors: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the errors by class and stage, the commonest first, each with the first one's words.

    Args:
        errors: the records' ``error``.
    """
    counts = Counter((str(error.get("type")), str(error.get("stage"))) for error in errors)
    first: dict[tuple[str, str], Mapping[str, Any]] = {}
    for error in errors:
        first.setdefault((str(error.get("type")), str(error.get("stage"))), error)
    return [
        {
            "type": kind,
            "stage": stage,
            "kind": first[kind, stage].get("kind"),
            "count": count,
            "message": first[kind, stage].get("message", ""),
            "hint": first[kind, stage].get("hint", ""),
        }
        for (kind, stage), count in counts.most_common()
    ]
