"""Two runs paired and compared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from support.stored_runs import record, rewards, run_of

from pytest_rlenv.reports.comparison.compared import Comparison, compare_runs
from pytest_rlenv.reports.comparison.gate import NOTHING_COMPARED
from pytest_rlenv.reports.comparison.markdown import markdown
from pytest_rlenv.reports.comparison.pairing import Status
from pytest_rlenv.reports.comparison.text import lines
from pytest_rlenv.reports.statistics.paired import Change
from pytest_rlenv.reports.stored import StoredRun


def compared(before: StoredRun, after: StoredRun, **keywords: Any) -> Comparison:
    return compare_runs(before, after, names=("before", "after"), **keywords)


def text(comparison: Comparison, **keywords: Any) -> str:
    return "\n".join(line.text for line in lines(comparison, **keywords))


# ---- pairs


@pytest.mark.parametrize(
    ("before", "after", "status", "reason"),
    [
        ([record("t", 1.0)], [record("t", 0.0)], Status.BROKEN, ""),
        ([record("t", 0.0)], [record("t", 1.0)], Status.FIXED, ""),
        ([record("t", 0.2)], [record("t", 0.4)], Status.CHANGED, ""),
        ([record("t", 0.3)], [record("t", 0.1 + 0.2)], Status.UNCHANGED, ""),
        ([], [record("t", 0.4)], Status.NEW, ""),
        ([record("t", 0.4)], [], Status.GONE, ""),
        ([record("t", 1.0)], [record("t", None)], Status.EXCLUDED, "error in the run"),
        ([record("t", None)], [record("t", 1.0)], Status.EXCLUDED, "error in the baseline"),
        ([record("t", None)], [record("t", None)], Status.EXCLUDED, "error in both"),
        (
            [record("t", None)],
            [record("t", None, verdict="skipped")],
            Status.EXCLUDED,
            "error in the baseline and skipped in the run",
        ),
        (
            [record("t", 1.0)],
            [record("t", 0.0, quarantine={"reason": "r", "until": "2030-01-01"})],
            Status.EXCLUDED,
            "in quarantine in the run",
        ),
        (
            [record("t", 1.0, task_digest="a")],
            [record("t", 0.0, task_digest="b")],
            Status.EXCLUDED,
            "the task has changed",
        ),
        # of one that could not be loaded the digest is not known
        ([record("t", 1.0, task_digest=None)], [record("t", 0.0)], Status.BROKEN, ""),
        # most of several attempts decide
        (
            [record("t", r, attempt=i) for i, r in enumerate((1.0, 1.0, 0.0))],
            [record("t", r, attempt=i) for i, r in enumerate((1.0, 0.0, 0.0))],
            Status.BROKEN,
            "",
        ),
        (
            [record("t", r, attempt=i) for i, r in enumerate((1.0, 1.0, 1.0))],
            [record("t", r, attempt=i) for i, r in enumerate((1.0, 1.0, 0.0))],
            Status.CHANGED,
            "",
        ),
    ],
)
def test_what_became_of_a_task(
    before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]], status: Status, reason: str
) -> None:
    (found,) = compared(run_of(*before), run_of(*after)).pairs
    assert (found.status, found.reason) == (status, reason)


def test_an_attempt_without_a_reward_leaves_the_others_to_compare() -> None:
    before = run_of(record("t", 1.0, attempt=1), record("t", None, attempt=2))
    found = compared(before, run_of(record("t", 1.0)))
    assert found.of(Status.UNCHANGED)
    assert found.lost_attempts == 1
    assert "1 attempt without a reward left out" in text(found)


def test_agents_are_paired_each_with_itself() -> None:
    before = run_of(record("t", 1.0), record("t", 0.5, agent="nop", expected="< 1.0", verdict="passed"))
    after = run_of(record("t", 0.0), record("t", 0.5, agent="nop", expected="< 1.0", verdict="passed"))
    found = compared(before, after)
    assert [(each.key.agent, each.status) for each in found.pairs] == [
        ("nop", Status.UNCHANGED),
        ("oracle", Status.BROKEN),
    ]


def test_one_model_for_another_is_what_a_comparison_is_for() -> None:
    found = compared(rewards([1.0, 0.0], model="a/old"), rewards([1.0, 1.0], model="a/new"))
    assert [each.status for each in found.pairs] == [Status.UNCHANGED, Status.FIXED]
    assert "model of oracle: a/old in the baseline, a/new in the run" in found.differences


def test_of_several_models_each_is_paired_with_itself() -> None:
    before = run_of(record("t", 1.0, model="a", node="1"), record("t", 0.0, model="b", node="2"))
    after = run_of(record("t", 0.0, model="a"))
    found = compared(before, after)
    assert {each.key.model: each.status for each in found.pairs} == {"a": Status.BROKEN, "b": Status.GONE}


def test_other_settings_are_told_of() -> None:
    before = run_of(record("t"), settings={"timeout_multiplier": 1.0, "verifier": "shared"})
    after = run_of(record("t", sandbox="local"), settings={"timeout_multiplier": 2.0, "verifier": "shared"})
    assert compared(before, after).differences == (
        "timeout_multiplier: 1.0 in the baseline, 2.0 in the run",
        "sandbox of oracle: docker in the baseline, local in the run",
    )


# ---- effects


def test_a_fall_is_a_regression() -> None:
    found = compared(rewards([1.0] * 40), rewards([0.0] * 8 + [1.0] * 32))
    assert found.verdict is Change.REGRESSION
    (agent,) = found.agents
    assert (agent.fixed, agent.broken, agent.passing_before, agent.passing_after) == (0, 8, 40, 32)
    assert (agent.mean_before, agent.mean_after) == (1.0, 0.8)
    assert agent.effect.difference == pytest.approx(-0.2)
    assert agent.p_verdicts == agent.effect.p == pytest.approx(2 / 2**8)


def test_a_negative_control_regresses_where_its_reward_rises() -> None:
    fields = {"agent": "nop", "expected": "< 1.0"}
    up = compared(
        rewards([0.0] * 20, verdict="passed", **fields), rewards([1.0] * 20, verdict="failed", **fields)
    )
    assert up.verdict is Change.REGRESSION
    assert up.agents[0].lower_is_better
    assert "the mean reward rose by 1.000" in text(up)
    assert "+1.000 (95 %:" in text(up)
    down = compared(
        rewards([0.4] * 20, verdict="passed", **fields), rewards([0.0] * 20, verdict="passed", **fields)
    )
    assert down.verdict is Change.NO_REGRESSION


@pytest.mark.parametrize("expected", ["== 3", "2 <= reward <= 4"])
def test_where_neither_more_nor_less_is_better_the_verdict_counts(expected: str) -> None:
    before = rewards([3.0] * 10, expected=expected, verdict="passed")
    after = rewards([900.0] * 10, expected=expected, verdict="failed")
    assert compared(before, after).agents[0].effect.difference == -1.0


def test_the_margin_is_a_share_of_the_range_of_rewards() -> None:
    of_hundred = [100.0 * (i % 2) for i in range(60)]
    found = compared(rewards(of_hundred), rewards(of_hundred), margin=0.05)
    assert found.agents[0].effect.margin == pytest.approx(5.0)
    assert found.verdict is Change.NO_REGRESSION


def test_the_worst_of_the_agents_decides() -> None:
    fell = rewards([0.0] * 40, agent="worse").records
    before = run_of(*rewards([1.0] * 40, agent="worse").records, *rewards([1.0] * 40).records)
    found = compared(before, run_of(*fell, *rewards([1.0] * 40).records))
    assert {each.agent: each.effect.verdict for each in found.agents} == {
        "oracle": Change.NO_REGRESSION,
        "worse": Change.REGRESSION,
    }
    assert found.verdict is Change.REGRESSION


def test_too_few_tasks_are_inconclusive_and_say_what_could_be_seen() -> None:
    few = compared(rewards([1.0] * 5), rewards([1.0] * 5))
    assert few.verdict is Change.INCONCLUSIVE
    assert "5 tasks with 1 attempt can show no fall, however great" in text(few, width=200)
    more = compared(rewards([1.0] * 20), rewards([1.0] * 20))
    assert "a fall of up to 0.095 is not ruled out; 20 tasks with 1 attempt can show one of 0.3" in (
        text(more, width=200)
    )


def test_nothing_in_common_is_inconclusive_and_says_why() -> None:
    found = compared(rewards([1.0], agent="v1"), rewards([1.0], agent="v2"))
    assert found.verdict is Change.INCONCLUSIVE
    assert "nothing could be compared: the baseline has agent v1, the run v2" in text(found)
    assert "nothing could be compared" in markdown(found)


@pytest.mark.parametrize(
    ("after", "fail_on", "failures"),
    [
        ([0.0] * 8 + [1.0] * 42, ["regression"], ["regression"]),
        ([0.0] * 8 + [1.0] * 42, ["broken", "regression"], ["regression", "broken"]),
        ([0.0] * 2 + [1.0] * 48, ["regression"], []),
        ([0.0] * 2 + [1.0] * 48, ["regression", "inconclusive"], ["inconclusive"]),
        ([0.0] * 2 + [1.0] * 48, ["broken"], ["broken"]),
        ([1.0] * 50, ["regression", "inconclusive", "broken"], []),
        ([0.0] * 50, [], []),
        ([None] + [1.0] * 49, ["error", "regression"], ["error"]),
    ],
)
def test_what_it_fails_on(after: list[float | None], fail_on: list[str], failures: list[str]) -> None:
    assert compared(rewards([1.0] * 50), rewards(after)).failures(fail_on) == failures


def test_a_gate_that_has_seen_nothing_does_not_pass() -> None:
    killed = run_of()
    for word in ("regression", "broken", "error"):
        assert compared(rewards([1.0]), killed).failures([word]) == [NOTHING_COMPARED]
    assert compared(rewards([1.0]), killed).failures(["gone"]) == ["gone", NOTHING_COMPARED]
    assert compared(rewards([1.0]), killed).failures([]) == []
    assert compared(rewards([1.0, 1.0]), rewards([1.0])).failures(["gone"]) == ["gone"]
    assert compared(rewards([1.0, 1.0]), rewards([1.0])).failures(["regression", "error"]) == []
    assert compared(rewards([1.0]), rewards([1.0, 1.0])).failures(["gone"]) == []


def test_what_nobody_asked_for_is_not_gone() -> None:
    before = rewards([1.0] * 4)

    def part(*after: float) -> Comparison:
        return compared(before, rewards(after), asked_for=lambda record: record["task"] == "task-002")

    assert [each.key.task for each in part(1.0, 1.0).of(Status.UNSELECTED)] == ["task-003"]
    assert "1 of the baseline's 4 tasks was not selected" in text(part(1.0, 1.0))
    assert "1 of the baseline's 4 tasks was not selected" in text(part(1.0, 1.0), brief=True)
    assert part(1.0, 1.0).failures(["gone"]) == ["gone"]
    assert part(1.0, 1.0, 1.0).failures(["gone", "broken", "regression"]) == []
    assert part().failures(["regression"]) == [NOTHING_COMPARED]
    assert "inconclusive: nothing could be compared" in text(part(), brief=True)


def test_an_error_of_before_is_no_error_of_now() -> None:
    assert compared(rewards([None, 1.0]), rewards([None, 1.0])).failures(["error"]) == []
    skipped = run_of(record("task-000", None, verdict="skipped"))
    assert compared(rewards([1.0]), skipped).failures(["error"]) == [NOTHING_COMPARED]


# ---- forms


def attempts() -> Comparison:
    """Of three attempts each, with rewards of many digits."""
    names = ["a-name-that-takes-all-of-the-room-that-there-is-and-more", *(f"task-{i}" for i in range(9))]
    before = [record(name, 2 / 3, attempt=i) for name in names for i in range(3)]
    after = [record(name, 1 / 3, attempt=i) for name in names for i in range(3)]
    return compared(run_of(*before), run_of(*after))


def mixed() -> Comparison:
    before = run_of(
        *rewards([1.0] * 30).records,
        record("a-task-with-a-name-that-is-longer-than-any-column-would-be-wide", 1.0),
        record("gone"),
        record("errs"),
        record("changed", 0.25),
    )
    after = run_of(
        *rewards([0.0] * 25 + [1.0] * 5).records,
        record("a-task-with-a-name-that-is-longer-than-any-column-would-be-wide", 0.0),
        record("errs", None),
        record("changed", 0.5),
        record("new"),
    )
    return compared(before, after)


def test_text_keeps_to_80_columns_and_cuts_long_lists() -> None:
    shown = text(mixed()).splitlines()
    assert max(map(len, shown)) <= 80
    assert max(map(len, text(attempts()).splitlines())) <= 80
    assert sum(line.startswith("BROKEN ") for line in shown) == 20
    assert "... and 6 more broken" in shown
    assert "CHANGED  changed" in "\n".join(shown)
    assert "1 pair not compared: 1 error in the run" in shown
    assert "only in the run: 1 new; only in the baseline: 1 gone" in shown
    assert sum(line.startswith("BROKEN ") for line in text(mixed(), every=True).splitlines()) == 26


def test_json_has_all_and_no_more_than_json_has() -> None:
    found = json.loads(json.dumps(mixed().as_json(), allow_nan=False))
    assert found["verdict"] == "regression"
    assert found["counts"] == {
        "broken": 26,
        "fixed": 0,
        "changed": 1,
        "unchanged": 5,
        "new": 1,
        "gone": 1,
        "unselected": 0,
        "excluded": 1,
    }
    assert found["excluded"] == {"error in the run": 1}
    assert len(found["tasks"]) == 35
    assert {"task", "status", "difference", "baseline", "run"} <= found["tasks"][0].keys()
    assert found["agents"][0]["effect"]["verdict"] == "regression"


def test_markdown_takes_no_orders_from_names() -> None:
    name = "x|y <img src=x> [a](http://b) @everyone *b* `c`"
    shown = markdown(compared(run_of(record(name)), run_of(record(name, 0.0))))
    (row,) = [line for line in shown.splitlines() if line.startswith("| broken")]
    assert row.count("|") - row.count("\\|") == 5
    assert "<img" not in shown
    assert "[a](" not in shown
    assert "@everyone" not in shown
    assert "`c`" not in shown.replace("\\`c\\`", "")
