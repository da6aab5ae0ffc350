"""The run beside its baseline: what the comparison says of it, for the overview and for each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from pytest_rlenv.reports.comparison import words
from pytest_rlenv.reports.comparison.compared import Comparison
from pytest_rlenv.reports.comparison.pairing import Pair, Side, Status

MAX_GONE = 500
"""Names of what is only in the baseline that are listed."""


class Against:
    """A comparison, as the report shows it.

    Args:
        comparison: of the run that is shown with its baseline.
    """

    def __init__(self, comparison: Comparison) -> None:
        self._found = comparison
        self._pairs: dict[str, Pair] = {
            str(record["node"]): pair
            for pair in comparison.pairs
            if pair.after
            for record in pair.after.records
        }

    def overview(self) -> dict[str, Any]:
        """Return what the overview says."""
        found = self._found
        gone = found.of(Status.GONE)
        called = words.names(found)
        return {
            "name": found.baseline,
            "verdict": found.verdict.value,
            "counts": {status.value: count for status in Status if (count := len(found.of(status)))},
            "agents": [
                {
                    "name": change.name,
                    "before": change.mean_before,
                    "after": change.mean_after,
                    "verdict": change.effect.verdict.value,
                    "words": words.conclusion(change),
                    "p": words.p_value(change.effect.p),
                }
                for change in found.agents
            ],
            "lines": list(_lines(found)),
            "gone": [called[id(each)] for each in gone[:MAX_GONE]],
        }

    def row(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return what became of a rollout's task, and what the baseline has of it."""
        pair = self._pairs.get(str(record["node"]))
        if pair is None:
            return {}
        return {
            "change": pair.status.value,
            "reason": pair.reason or None,
            "before": _side(pair.before),
            "after": _side(pair.after),
        }


def _lines(found: Comparison) -> list[str]:
    lines = [] if found.agents else [words.nothing_paired(found)]
    return [*lines, *words.not_compared(found), *found.differences, *found.problems]


def _side(side: Side | None) -> dict[str, Any] | None:
    """Return one run's rollouts of a task and an agent in a few words and numbers."""
    if side is None:
        return None
    return {
        "verdict": _verdict(side.records, side),
        "reward": side.reward,
        "seconds": median(float(record.get("seconds") or 0.0) for record in side.records),
    }


def _verdict(records: Sequence[Mapping[str, Any]], side: Side) -> str:
    if len(records) == 1:
        return str(records[0]["verdict"])
    if not side.scored:
        return f"none of {len(records)} attempts scored: {side.why_unscored}"
    return f"{side.passed} of {words.count(len(side.scored), 'scored attempt')} passed"
