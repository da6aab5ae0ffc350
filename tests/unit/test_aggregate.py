"""Aggregates: an error is never a silent 0, and never a silent hole in the denominator."""

from __future__ import annotations

import pytest

from pytest_rlenv.reports.aggregate import Result, aggregate
from pytest_rlenv.reports.terminal import aggregate_lines
from pytest_rlenv.verdict import Outcome


def result(verdict: Outcome, reward: float | None = None, kind: str | None = None) -> Result:
    return Result("env", "task", "oracle", verdict, reward=reward, error_kind=kind)


def test_errors_are_counted_apart() -> None:
    numbers = aggregate(
        [
            result(Outcome.PASSED, 1.0),
            result(Outcome.FAILED, 0.5),
            result(Outcome.ERROR, kind="infra"),
            result(Outcome.ERROR, kind="task"),
            result(Outcome.ERROR, kind="infra"),
            result(Outcome.SKIPPED),
        ]
    )
    assert (numbers.total, numbers.scored) == (6, 2)
    assert numbers.mean_scored == pytest.approx(0.75)
    assert numbers.mean_errors_as_0 == pytest.approx(0.3)
    assert numbers.error_kinds == (("infra", 2), ("task", 1))
    first, second = aggregate_lines("oracle", numbers)
    assert first == "oracle: scored 2 of 6, mean reward 0.750 (0.300 with errors as 0)"
    assert second.strip() == "1 passed, 1 failed, 3 error, 1 skipped (errors: 2 infra, 1 task)"


def test_nothing_scored_has_no_mean() -> None:
    numbers = aggregate([result(Outcome.SKIPPED)])
    assert numbers.mean_scored is None
    assert numbers.mean_errors_as_0 is None
    assert "mean" not in aggregate_lines("oracle", numbers)[0]


def test_all_errors_have_a_mean_of_0_but_no_mean_over_scored() -> None:
    numbers = aggregate([result(Outcome.ERROR, kind="infra")])
    assert (numbers.mean_scored, numbers.mean_errors_as_0) == (None, 0.0)
