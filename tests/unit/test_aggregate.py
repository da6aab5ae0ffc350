"""Aggregates: an error is never a silent 0, and never a silent hole in the denominator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.reports.aggregate import Aggregate, Result, aggregate
from pytest_rlenv.reports.terminal import aggregate_lines
from pytest_rlenv.verdict import Outcome


def result(
    verdict: Outcome, reward: float | None = None, kind: str | None = None, task: str = "task"
) -> Result:
    return Result("env", task, "oracle", verdict, reward=reward, error_kind=kind)


def test_errors_are_counted_apart() -> None:
    numbers = aggregate(
        [
            result(Outcome.PASSED, 1.0),
            result(Outcome.FAILED, 0.5, task="other"),
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
    first, second, third = aggregate_lines("oracle", numbers)
    assert first == "oracle: scored 2 of 6, mean reward 0.750 (0.300 with errors as 0)"
    assert second.strip() == "1 passed, 1 failed, 3 errors (2 infra, 1 task), 1 skipped"
    assert third.strip() == "95%: passed 0.500 [0.09, 0.91], mean reward [0.50, 1.00]"


def test_nothing_scored_has_no_mean() -> None:
    numbers = aggregate([result(Outcome.SKIPPED)])
    assert numbers.mean_scored is None
    assert numbers.mean_errors_as_0 is None
    assert "mean" not in aggregate_lines("oracle", numbers)[0]


def test_all_errors_have_a_mean_of_0_but_no_mean_over_scored() -> None:
    numbers = aggregate([result(Outcome.ERROR, kind="infra")])
    assert (numbers.mean_scored, numbers.mean_errors_as_0) == (None, 0.0)


SCORES = {"p": (Outcome.PASSED, 1.0), "f": (Outcome.FAILED, 0.0), "h": (Outcome.FAILED, 0.5)}
OTHERS = {"e": Outcome.ERROR, "s": Outcome.SKIPPED}


def attempts_of(tasks: Mapping[str, str]) -> Aggregate:
    """Return the numbers of tasks whose attempts end as the letters say."""
    rows = []
    for task, letters in tasks.items():
        for number, letter in enumerate(letters, start=1):
            verdict, reward = SCORES.get(letter) or (OTHERS[letter], None)
            rows.append(Result("env", task, "oracle", verdict, reward=reward, attempt=number))
    return aggregate(rows)


@pytest.mark.parametrize(
    ("tasks", "passing"),
    [
        ({"a": "pp", "b": "pf"}, [(1, 0.75, 0.75, 2), (2, 1.0, 0.5, 2)]),
        ({"a": "ff"}, [(1, 0.0, 0.0, 1), (2, 0.0, 0.0, 1)]),
        # unbiased: 1 - C(2,2)/C(4,2), not 1 - (1/2)^2
        ({"a": "ppff"}, [(1, 0.5, 0.5, 1), (2, 5 / 6, 1 / 6, 1), (3, 1.0, 0.0, 1), (4, 1.0, 0.0, 1)]),
        # an attempt that is no result makes n smaller, and is no failure
        ({"a": "pe", "b": "pp"}, [(1, 1.0, 1.0, 2), (2, 1.0, 1.0, 1)]),
        ({"a": "ps", "b": "se"}, [(1, 1.0, 1.0, 1)]),
        ({"a": "ee"}, []),
        ({"a": "p"}, [(1, 1.0, 1.0, 1)]),
    ],
)
def test_passing_in_k_attempts(
    tasks: Mapping[str, str], passing: list[tuple[int, float, float, int]]
) -> None:
    found = attempts_of(tasks).passing
    assert [(each.k, each.tasks) for each in found] == [(k, n) for k, _, _, n in passing]
    assert [each.at_least_one for each in found] == pytest.approx([any_ for _, any_, _, _ in passing])
    assert [each.all_of_them for each in found] == pytest.approx([all_ for _, _, all_, _ in passing])


@pytest.mark.parametrize(
    ("tasks", "flaky"),
    [
        ({"a": "pf", "b": "pp", "c": "ff"}, [("a", 1, 2)]),
        ({"b": "ppf", "a": "fhp"}, [("a", 1, 3), ("b", 2, 3)]),
        ({"a": "pe", "b": "fs", "c": "ph"}, [("c", 1, 2)]),  # an error or a skip is no verdict on a task
        ({"a": "epf"}, [("a", 1, 2)]),
    ],
)
def test_a_task_of_mixed_verdicts_is_flaky(
    tasks: Mapping[str, str], flaky: list[tuple[str, int, int]]
) -> None:
    found = attempts_of(tasks).flaky
    assert [(each.task, each.passed, each.rate.n) for each in found] == flaky
    assert all(each.rate.low < each.passed / each.rate.n < each.rate.high for each in found)


def test_two_tests_that_ask_different_things_make_no_task_flaky() -> None:
    low = Result.of(record(reward=0.5, expected=">= 0.4"))
    high = Result.of(record(reward=0.5, expected=">= 0.9", verdict="failed"))
    assert not aggregate([low, high]).flaky
    assert aggregate([high, Result.of(record(expected=">= 0.9"))]).flaky


def test_intervals_go_over_what_was_scored() -> None:
    numbers = attempts_of({"a": "pp", "b": "hh", "c": "ee", "d": "ss"})
    assert numbers.pass_rate is not None
    assert numbers.mean_reward is not None
    assert (numbers.pass_rate.value, numbers.pass_rate.n) == (0.5, 4)
    assert (numbers.mean_reward.value, numbers.mean_reward.n) == (0.75, 2)  # tasks, not attempts
    assert (numbers.mean_reward.low, numbers.mean_reward.high) == (0.5, 1.0)
    assert (numbers.tasks, numbers.attempts, numbers.scored, numbers.total) == (4, 2, 4, 8)
    assert numbers.mean_errors_as_0 == pytest.approx(0.5)


def test_each_task_counts_alike_however_many_attempts_it_has() -> None:
    numbers = attempts_of({"a": "p", "b": "fff"})
    assert numbers.mean_reward is not None
    assert numbers.mean_reward.value == 0.5
    assert numbers.mean_scored == 0.25


@given(st.dictionaries(st.sampled_from("abcdef"), st.text("pfhes", min_size=1, max_size=5), min_size=1))
def test_an_error_or_a_skip_changes_no_estimate(tasks: dict[str, str]) -> None:
    plain = attempts_of({task: kept for task, text in tasks.items() if (kept := text.strip("es"))})
    only_scored = {task: "".join(c for c in text if c in SCORES) for task, text in tasks.items()}
    found = attempts_of(tasks)
    clean = attempts_of({task: text for task, text in only_scored.items() if text})
    assert found.pass_rate == clean.pass_rate == plain.pass_rate
    assert found.mean_reward == clean.mean_reward
    assert found.flaky == clean.flaky
    assert found.scored == sum(len(text) for text in only_scored.values())
    for each in found.passing:
        assert 0 <= each.all_of_them <= each.at_least_one <= 1
        assert each.tasks <= found.tasks
    rising = [each.at_least_one for each in found.passing if each.tasks == found.tasks]
    assert rising == sorted(rising)


def record(**values: Any) -> dict[str, Any]:
    base = {"environment": "env", "task": "t", "agent": "oracle", "verdict": "passed", "reward": 1.0}
    return {**base, **values}


@pytest.mark.parametrize(
    ("values", "cost"),
    [
        ({}, None),
        ({"usage": {}}, None),
        ({"usage": {"cost_usd": 0.25}}, 0.25),
        ({"usage": {"cost_usd": 0}}, 0.0),
        ({"usage": {"cost_usd": True}}, None),
        ({"usage": {"cost_usd": "0.25"}}, None),
        ({"usage": {"cost_usd": -1}}, None),
        ({"usage": {"cost": 1}}, None),
        ({"usage": {"cost_usd": 0.25}, "tries": [{"usage": {"cost_usd": 0.5}}, {"usage": {}}]}, 0.75),
        ({"tries": [{"usage": {"cost_usd": 0.5}}]}, 0.5),
    ],
)
def test_the_cost_is_what_the_agents_say(values: dict[str, Any], cost: float | None) -> None:
    assert Result.of(record(**values)).cost == cost


def test_what_is_in_quarantine_counts_nowhere() -> None:
    held = {"reason": "flaky mirror", "until": "2030-01-31", "mode": "run", "task": "t"}
    rows = [
        Result.of(record(quarantine=held)),
        Result.of(record(quarantine=held, verdict="failed", reward=0.4, message="reward 0.4 < 1.0")),
        Result.of(record(task="other", reward=0.5)),
    ]
    numbers = aggregate(rows)
    assert (numbers.quarantined, numbers.scored, numbers.mean_scored) == (2, 1, 0.5)
    assert numbers.counts == {Outcome.SKIPPED: 2, Outcome.PASSED: 1}
    assert rows[1].message == "quarantined until 2030-01-31: flaky mirror (reward 0.4 < 1.0)"
    assert not numbers.flaky


def test_the_line_says_if_no_task_has_all_attempts() -> None:
    line = aggregate_lines("oracle", attempts_of({"a": "ppe", "b": "fee"}))[3]
    assert line.strip() == "pass@1 0.500, pass@2 1.000, pass^2 1.000 (1 of 2 tasks have 2 scored, none has 3)"


def test_the_lines_of_attempts() -> None:
    lines = aggregate_lines("oracle", attempts_of({"a": "ppp", "b": "pfe", "c": "ess"}))
    assert [line.strip() for line in lines[2:]] == [
        "95%: passed 0.800 [0.38, 0.96], mean reward [0.50, 1.00]",
        "pass@1 0.750, pass@3 1.000, pass^3 1.000 (1 of 3 tasks have 3 scored)",
        "flaky: b 1/2 [0.09, 0.91]",
    ]
