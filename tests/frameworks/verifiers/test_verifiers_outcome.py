"""What an episode leaves, as a reward or as the error that there is none."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pytest_rlenv.errors import RlenvError, Stage
from pytest_rlenv.frameworks.verifiers.outcome import (
    choose_trace,
    of_failure,
    write_rewards,
    write_times,
)
from pytest_rlenv.frameworks.verifiers.process import ChildFailed
from pytest_rlenv.rollout import Rollout


def a_rollout() -> Rollout:
    return Rollout(environment="verifiers:toy", framework="verifiers", task="one", agent="model")


def a_trace(rewards: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    found = {"correct": {"score": 1.0, "weight": 1.0}} if rewards is None else rewards
    return {
        "seat": "agent",
        "ok": True,
        "stop": "agent_completed",
        "rewards": found,
        "metrics": {},
        "errors": [],
        "seconds": {"boot": 0.5, "setup": 0.1, "agent": 2.0, "finalize": 0.1, "scoring": 0.25},
        "usage": {},
        "turns": 1,
        **more,
    }


def an_error(kind: str, message: str = "told", status: int | None = None) -> dict[str, Any]:
    return {"type": kind, "message": message, "status": status, "detail": ""}


def an_answer(*traces: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"ok": True, "timed_out": False, "errors": [], "traces": list(traces), "seat": "agent", **more}


def reward_of(
    answer: dict[str, Any], rollout: Rollout | None = None, seat: str = "agent"
) -> dict[str, float]:
    found = rollout or a_rollout()
    write_rewards(choose_trace(answer, seat, found), found)
    assert found.rewards is not None
    return found.rewards


NONE: list[tuple[str, dict[str, Any], str, Stage]] = [
    (
        "no trace",
        an_answer(ok=False, errors=[an_error("EnvError", "ValueError: image")]),
        "EnvironmentFailed",
        Stage.START,
    ),
    ("no trace, no reason", an_answer(ok=False), "RewardMissing", Stage.VERIFY),
    (
        "the episode's time was up",
        an_answer(ok=False, timed_out=True, errors=[an_error("TimeoutError", "exceeded its 60s deadline")]),
        "StageTimeout",
        Stage.AGENT,
    ),
    (
        "the episode failed",
        an_answer(a_trace(), ok=False, errors=[an_error("EnvError")]),
        "EnvironmentFailed",
        Stage.START,
    ),
    ("the episode is not ok", an_answer(a_trace(), ok=False), "RewardMissing", Stage.VERIFY),
    (
        "a reward raised",
        an_answer(a_trace({"correct": None}, ok=False, errors=[an_error("TaskError")]), ok=False),
        "RewardMissing",
        Stage.VERIFY,
    ),
    (
        "the set-up raised",
        an_answer(
            a_trace({}, ok=False, turns=0, stop="task_error", errors=[an_error("TaskError")]), ok=False
        ),
        "EnvironmentFailed",
        Stage.AGENT_SETUP,
    ),
    (
        "set-up out of time",
        an_answer(a_trace(stop="setup_timeout", turns=0)),
        "StageTimeout",
        Stage.AGENT_SETUP,
    ),
    ("finalize out of time", an_answer(a_trace(stop="finalize_timeout")), "VerifierTimeout", Stage.VERIFY),
    (
        "scoring out of time",
        an_answer(a_trace({"correct": None}, stop="scoring_timeout")),
        "VerifierTimeout",
        Stage.VERIFY,
    ),
    ("a reward not given", an_answer(a_trace({"correct": None})), "RewardMissing", Stage.VERIFY),
    ("no reward declared", an_answer(a_trace({})), "RewardMissing", Stage.VERIFY),
    ("NaN", an_answer(a_trace({"r": {"score": math.nan, "weight": 1.0}})), "RewardInvalid", Stage.VERIFY),
    ("too large", an_answer(a_trace({"r": {"score": 1e101, "weight": 1.0}})), "RewardInvalid", Stage.VERIFY),
    ("another seat only", an_answer(a_trace(seat="judge")), "TaskInvalid", Stage.LOAD),
    (
        "the harness could not install itself",
        an_answer(
            a_trace({}, ok=False, errors=[{**an_error("HarnessError"), "message": "harness setup: no uv"}]),
            ok=False,
        ),
        "AgentFailed",
        Stage.AGENT_SETUP,
    ),
    (
        "another seat broke",
        an_answer(a_trace(), a_trace(seat="judge", ok=False, errors=[an_error("HarnessError")]), ok=False),
        "AgentFailed",
        Stage.AGENT,
    ),
    *(
        (
            kind,
            an_answer(a_trace({}, ok=False, errors=[an_error(kind)]), ok=False),
            "SandboxFailed",
            Stage.AGENT,
        )
        for kind in ("SandboxError", "InterceptionError", "TunnelError", "ToolsetError")
    ),
    *(
        (
            f"provider {status}",
            an_answer(a_trace({}, ok=False, errors=[an_error("ProviderError", status=status)]), ok=False),
            kind,
            Stage.AGENT,
        )
        for status, kind in (
            (401, "ModelAccessDenied"),
            (403, "ModelAccessDenied"),
            (404, "ModelNotFound"),
            (400, "ModelRequestInvalid"),
            (429, "ModelUnavailable"),
            (500, "ModelUnavailable"),
            (None, "ModelUnavailable"),
        )
    ),
]


@pytest.mark.parametrize(("answer", "kind", "stage"), [pytest.param(*row[1:], id=row[0]) for row in NONE])
def test_without_a_reward_there_is_an_error(answer: dict[str, Any], kind: str, stage: Stage) -> None:
    with pytest.raises(RlenvError) as raised:
        reward_of(answer)

    assert (type(raised.value).__name__, raised.value.stage) == (kind, stage)


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ({"r": {"score": 1.0, "weight": 1.0}}, {"reward": 1.0, "r": 1.0}),
        ({"r": {"score": True, "weight": 1.0}}, {"reward": 1.0, "r": 1.0}),
        (
            {"a": {"score": 1.0, "weight": 0.25}, "b": {"score": 0.5, "weight": 0.5}},
            {"reward": 0.5, "a": 1.0, "b": 0.5},
        ),
        ({"reward": {"score": 1.0, "weight": 0.5}}, {"reward": 0.5}),
        ({"r": {"score": -2.0, "weight": 1.0}}, {"reward": -2.0, "r": -2.0}),
    ],
)
def test_the_reward_is_the_weighted_sum(rewards: dict[str, Any], expected: dict[str, float]) -> None:
    assert reward_of(an_answer(a_trace(rewards))) == expected


@pytest.mark.parametrize(
    ("stop", "code"),
    [
        ("agent_completed", None),
        (None, None),
        ("agent_timeout", "agent-timeout"),
        ("max_turns", "turn-limit"),
        ("max_total_tokens", "token-budget"),
        ("has_won", "stop-condition"),
    ],
)
def test_what_ended_the_agent_is_a_note_and_no_error(stop: str | None, code: str | None) -> None:
    rollout = a_rollout()

    assert reward_of(an_answer(a_trace(stop=stop)), rollout)["reward"] == 1.0
    assert [note.code for note in rollout.notes] == ([code] if code else [])


def test_an_error_before_a_retry_that_went_well_is_a_note() -> None:
    rollout = a_rollout()

    reward_of(an_answer(a_trace(errors=[an_error("ProviderError", "busy")])), rollout)

    assert [(note.code, note.text) for note in rollout.notes] == [("earlier-errors", "after 1 errors: busy")]


def test_of_several_traces_the_last_of_the_seat_counts_and_all_are_told() -> None:
    rollout = a_rollout()
    low = a_trace({"r": {"score": 0.25, "weight": 1.0}})

    assert reward_of(an_answer(a_trace(), low, a_trace(seat="judge")), rollout)["reward"] == 0.25
    (note,) = rollout.notes
    assert note.text == "the last one of agent is judged: agent 1.0; agent 0.25; judge 1.0"


def test_metrics_are_told_and_no_rewards() -> None:
    rollout = a_rollout()
    metrics = {"steps": 3.0, "unknown": None, "odd": math.nan}

    assert set(reward_of(an_answer(a_trace(metrics=metrics)), rollout)) == {"reward", "correct"}
    assert [(note.code, note.text) for note in rollout.notes] == [("metrics", "steps 3.0")]


def test_times_of_stages_are_written_and_add_up() -> None:
    rollout = a_rollout()

    write_times(a_trace(), rollout)
    write_times(a_trace(), rollout)

    assert rollout.stages == {
        Stage.START: 1.0,
        Stage.AGENT_SETUP: 0.2,
        Stage.AGENT: 4.0,
        Stage.VERIFY: 0.7,
    }


FAILURES: list[tuple[str, str, tuple[str, ...], str, Stage]] = [
    ("load", "ValueError", (), "TaskInvalid", Stage.LOAD),
    ("boot", "RuntimeError", (), "SandboxFailed", Stage.START),
    ("boot", "SystemExit", ("SystemExit",), "EnvironmentFailed", Stage.START),
    ("setup", "ValueError", (), "EnvironmentFailed", Stage.AGENT_SETUP),
    ("setup", "SandboxError", ("SandboxError", "RolloutError"), "SandboxFailed", Stage.AGENT_SETUP),
    ("setup", "TimeoutError", (), "StageTimeout", Stage.AGENT_SETUP),
    ("validate", "TimeoutError", (), "VerifierTimeout", Stage.VERIFY),
    ("validate", "KeyError", (), "RewardMissing", Stage.VERIFY),
    ("scoring", "TaskError", ("TaskError", "RolloutError"), "RewardMissing", Stage.VERIFY),
    ("", "MemoryError", (), "TaskInvalid", Stage.LOAD),
]


@pytest.mark.parametrize(("stage", "kind", "kinds", "ours", "where"), FAILURES)
def test_what_is_raised_outside_of_an_episode(
    stage: str, kind: str, kinds: tuple[str, ...], ours: str, where: Stage
) -> None:
    failure = ChildFailed(
        {"type": kind, "kinds": kinds, "message": "why", "detail": "", "stage": stage, "status": None}
    )

    error = of_failure(failure)

    assert (type(error).__name__, error.stage) == (ours, where)
