"""When another try is worth it, and how long to wait for it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from pytest_rlenv import errors
from pytest_rlenv.execution import Judged
from pytest_rlenv.rollout import ErrorInfo, Rollout
from pytest_rlenv.rules import retries
from pytest_rlenv.rules.retries import LONGEST_PAUSE, Retries, pause_before
from pytest_rlenv.verdict import Expectation, judge


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.0)


def judged(error: errors.RlenvError | None) -> Judged:
    info = ErrorInfo.of(error) if error else None
    rewards = None if error else {"reward": 1.0}
    rollout = Rollout(environment="e", framework="harbor", task="t", agent="a", error=info, rewards=rewards)
    return Judged(rollout, Expectation(), judge(rollout, Expectation()))


class Script:
    """Gives errors in turn, and counts how often it was asked."""

    def __init__(self, *results: errors.RlenvError | None) -> None:
        self.results = list(results)
        self.asked = 0

    def __call__(self, number: int) -> Judged:
        self.asked += 1
        assert number == self.asked
        return judged(self.results[min(number, len(self.results)) - 1])


def make(limit: int = 3, on: Sequence[str] = ("infra",), stopped: str | None = None) -> Retries:
    return Retries(limit, on, stopped=lambda: stopped, closing=threading.Event())


@pytest.mark.parametrize(
    ("error", "on", "asked"),
    [
        (errors.SandboxFailed("x"), ("infra",), 4),
        (errors.EngineUnavailable("x"), ("infra",), 4),
        (errors.StageTimeout("x"), ("infra",), 4),
        (errors.BoxUnfit("x"), ("infra",), 1),  # a kind of SandboxFailed, and the task's fault
        (errors.BoxUnfit("x"), ("SandboxFailed",), 1),
        (errors.BoxUnfit("x"), ("task",), 4),
        (errors.RewardMissing("x"), ("infra",), 1),
        (errors.AgentFailed("x"), ("infra", "agent"), 4),
        (errors.SpecError("x"), ("config",), 4),
        # what had patience of its own, or gets no better
        (errors.DiskFull("x"), ("infra",), 1),
        (errors.ImageUnavailable("x"), ("infra",), 1),
        (errors.FetchFailed("x"), ("infra",), 1),
        (errors.ImageUnavailable("x"), ("ImageUnavailable",), 4),
    ],
)
def test_which_errors_are_worth_another_try(error: errors.RlenvError, on: Sequence[str], asked: int) -> None:
    script = Script(error)
    found = make(on=on).run(script)
    assert script.asked == asked
    assert len(found.rollout.tries) == asked - 1


def test_the_first_try_without_an_error_ends_it() -> None:
    script = Script(errors.SandboxFailed("one"), errors.EngineUnavailable("two"), None)
    found = make().run(script)
    assert [each.error.message for each in found.rollout.tries] == ["one", "two"]
    assert found.verdict.outcome.value == "passed"


def test_an_error_of_another_kind_ends_it() -> None:
    script = Script(errors.SandboxFailed("one"), errors.RewardMissing("two"), None)
    found = make().run(script)
    assert (script.asked, found.verdict.message) == (2, "two")


def test_an_engine_that_stays_away_is_waited_for_once() -> None:
    rule = make()
    gone = Script(errors.EngineUnavailable("gone"))
    rule.run(gone)
    later = Script(errors.EngineUnavailable("gone"))
    rule.run(later)
    assert (gone.asked, later.asked) == (4, 1)
    rule.run(Script(None))  # it is back
    again = Script(errors.EngineUnavailable("gone"), None)
    assert rule.run(again).verdict.outcome.value == "passed"


def test_a_stopped_run_tries_nothing_again() -> None:
    script = Script(errors.SandboxFailed("x"))
    make(stopped="-x").run(script)
    assert script.asked == 1


def test_a_wait_ends_as_the_run_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE", 3600.0)
    monkeypatch.setattr(retries, "LONGEST_PAUSE", 3600.0)
    closing = threading.Event()
    script = Script(errors.SandboxFailed("x"))
    rule = Retries(3, ("infra",), stopped=lambda: None, closing=closing, notify=lambda _: closing.set())
    rule.run(script)
    assert script.asked == 1


def test_a_wait_ends_as_the_run_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE", 3600.0)
    monkeypatch.setattr(retries, "LONGEST_PAUSE", 3600.0)
    monkeypatch.setattr(retries, "LOOK", 0.001)
    looks = iter([None, None, None])
    script = Script(errors.SandboxFailed("x"))
    Retries(3, ("infra",), stopped=lambda: next(looks, "stopped"), closing=threading.Event()).run(script)
    assert script.asked == 1


def test_the_user_is_told_whom_we_wait_for() -> None:
    told: list[str] = []
    rule = Retries(2, ("infra",), stopped=lambda: None, closing=threading.Event(), notify=told.append)
    rule.run(Script(errors.SandboxFailed("x")))
    assert told == ["t: SandboxFailed; try 2 of 3 in 0 s", "t: SandboxFailed; try 3 of 3 in 0 s"]


def test_pauses_grow_and_are_never_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE", 1.0)
    for number in range(20):
        pauses = {pause_before(number) for _ in range(50)}
        longest = min(2.0**number, LONGEST_PAUSE)
        assert len(pauses) > 1
        assert all(longest / 2 <= pause <= longest for pause in pauses)
    assert pause_before(10_000) <= LONGEST_PAUSE
