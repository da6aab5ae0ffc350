"""Simulated agents, whose true rates are known: how often the verdict on two runs is right."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

import pytest

from pytest_rlenv.reports.statistics.paired import Change, compare, detectable, interval

RUNS = 250
"""Pairs of runs per question; a rate is then known within 0.06 at worst."""


def passing_rates(tasks: int, rng: random.Random) -> list[float]:
    """Most tasks are solved nearly always or hardly ever, some now and then."""
    return [rng.choice((0.02, 0.1, 0.5, 0.9, 0.98)) for _ in range(tasks)]


def mean_rewards(rates: Sequence[float], attempts: int, rng: random.Random) -> list[float]:
    return [fmean(rng.random() < rate for _ in range(attempts)) for rate in rates]


def differences(
    rng: random.Random, *, tasks: int, attempts: int, broken: float = 0.0
) -> tuple[list[float], float]:
    """Return what a run of a changed agent shows, and by how much its true mean moved.

    Args:
        rng: the chance of this pair of runs.
        tasks: how many.
        attempts: at each, in both runs.
        broken: the share of tasks that the changed agent never solves.
    """
    rates = passing_rates(tasks, rng)
    changed = [0.0 if rng.random() < broken else rate for rate in rates]
    before, after = mean_rewards(rates, attempts, rng), mean_rewards(changed, attempts, rng)
    return [b - a for a, b in zip(before, after, strict=True)], fmean(changed) - fmean(rates)


def verdicts(seed: int, *, margin: float, tasks: int, attempts: int, broken: float) -> Counter[Change]:
    rng = random.Random(seed)
    found: Counter[Change] = Counter()
    for _ in range(RUNS):
        moved, _ = differences(rng, tasks=tasks, attempts=attempts, broken=broken)
        effect = compare(moved, margin=margin)
        assert effect is not None
        found[effect.verdict] += 1
    return found


@pytest.mark.parametrize(("tasks", "attempts"), [(12, 1), (60, 1), (30, 4)])
def test_the_same_agent_is_hardly_ever_called_worse(tasks: int, attempts: int) -> None:
    found = verdicts(1, margin=0.1, tasks=tasks, attempts=attempts, broken=0.0)
    assert found[Change.REGRESSION] / RUNS <= 0.06, found  # 0.025 is promised


@pytest.mark.parametrize(("tasks", "attempts"), [(60, 4), (200, 1)])
def test_an_agent_that_fell_far_is_seen(tasks: int, attempts: int) -> None:
    found = verdicts(2, margin=0.05, tasks=tasks, attempts=attempts, broken=0.35)
    assert found[Change.REGRESSION] / RUNS >= 0.75, found
    assert found[Change.NO_REGRESSION] == 0, found


@pytest.mark.parametrize("attempts", [1, 4])
def test_a_fall_of_the_margin_is_hardly_ever_ruled_out(attempts: int) -> None:
    """The mean of the rates is 0.5, so that the mean falls by half the share that breaks: by the margin."""
    found = verdicts(3, margin=0.1, tasks=40, attempts=attempts, broken=0.2)
    assert found[Change.NO_REGRESSION] / RUNS <= 0.07, found


def test_more_attempts_rule_out_what_one_does_not() -> None:
    one = verdicts(4, margin=0.1, tasks=60, attempts=1, broken=0.0)
    many = verdicts(4, margin=0.1, tasks=60, attempts=8, broken=0.0)
    assert one[Change.NO_REGRESSION] / RUNS < 0.6, one
    assert many[Change.NO_REGRESSION] / RUNS > 0.85, many


@pytest.mark.parametrize(("tasks", "attempts"), [(8, 1), (25, 1), (25, 3)])
def test_the_interval_holds_the_truth(tasks: int, attempts: int) -> None:
    rng = random.Random(5)
    held = 0
    for _ in range(RUNS):
        moved, _ = differences(rng, tasks=tasks, attempts=attempts, broken=0.2)
        low, high = interval(moved)
        held += low <= -0.1 <= high  # of the tasks that there might have been
    assert held / RUNS >= 0.91


def test_the_detectable_fall_is_detected_at_its_rate() -> None:
    """As many tasks break for good as the first run of equals says can be seen with a power of 80 %."""
    rng = random.Random(6)
    seen = 0
    for _ in range(RUNS):
        noise = [(rng.random() < 0.1) - (rng.random() < 0.1) for _ in range(80)]
        fall = detectable([float(each) for each in noise])
        assert fall is not None
        moved = [-1.0 if rng.random() < fall else float(each) for each in noise]
        effect = compare(moved, margin=0.05)
        assert effect is not None
        seen += effect.verdict is Change.REGRESSION
    assert 0.65 <= seen / RUNS <= 0.95
