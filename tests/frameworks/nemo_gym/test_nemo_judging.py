"""What a server's answer is: a reward, a failed judgement, a refusal, or nothing that can be judged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.nemo_gym import row

from pytest_rlenv.errors import (
    AgentFailed,
    JudgementFailed,
    Kind,
    RewardInvalid,
    RewardMissing,
    RlenvError,
    Stage,
    TaskInvalid,
)
from pytest_rlenv.frameworks.nemo_gym.judging import judgement
from pytest_rlenv.frameworks.nemo_gym.wire import Answer

SENT = row(expected_answer="B", response={})


def judged(content: Any, status: int = 200) -> Any:
    body = content if isinstance(content, str) else json.dumps(content)
    return judgement(Answer(status, body), SENT)


@pytest.mark.parametrize("reward", [1.0, 0, -1, 0.25, 17.5, -0.0])
def test_a_number_is_the_reward_whatever_it_is(reward: float) -> None:
    assert judged({"reward": reward}).rewards == {"reward": reward}


def test_what_the_server_says_besides_is_told() -> None:
    answer = {
        **SENT,
        "reward": 0.0,
        "extracted_answer": "A",
        "library_reward": 0.5,
        "parts": [1],
        "error": None,
    }
    assert judged(answer).facts == "extracted_answer = A, library_reward = 0.5"


def test_parts_of_a_reward_are_rewards_of_their_own() -> None:
    parts = {"format": 1, "reward": 9, "odd": "x", "none": None}
    assert judged({"reward": 0.5, "reward_components": parts}).rewards == {"reward": 0.5, "format": 1.0}


@pytest.mark.parametrize(
    ("content", "error", "said"),
    [
        ({}, RewardMissing, "without a reward (it has nothing)"),
        ({"score": 1.0}, RewardMissing, "without a reward (it has score)"),
        ({"reward": None}, RewardInvalid, "is null"),
        ({"reward": True}, RewardInvalid, "is true"),
        ({"reward": "1.0"}, RewardInvalid, "is the string '1.0'"),
        ({"reward": [1]}, RewardInvalid, "is an array"),
        ('{"reward": NaN}', RewardInvalid, "NaN"),
        ('{"reward": Infinity}', RewardInvalid, "inf"),
        ('{"reward": 1e999}', RewardInvalid, "inf"),
        ({"reward": 1e101}, RewardInvalid, "is no reward"),
        ({"reward": 0.0, "mask_sample": True}, JudgementFailed, "(mask_sample)"),
        (
            {"reward": 0.0, "mask_sample": True, "failure_kind": "judge_failed", "failure_reason": "429"},
            JudgementFailed,
            "judge_failed, 429",
        ),
        (
            {"reward": 1.0, "instance_config": {"mask_sample": True}},
            JudgementFailed,
            "instance_config.mask_sample",
        ),
        ({"reward": 0.0, "_ng_failure_class": "judge_failed"}, JudgementFailed, "judge_failed"),
        ({"_ng_failure_class": "agent_run_error"}, JudgementFailed, "agent_run_error"),
        ({"reward": 0.0, "_ng_no_persist": True}, JudgementFailed, "_ng_no_persist"),
        ("", RewardMissing, "not JSON"),
        ("<html>", RewardMissing, "not JSON: <html>"),
        ("[" * 100_000, RewardMissing, "not JSON"),
        ([1.0], RewardMissing, "with no object: [1.0]"),
        ("1.0", RewardMissing, "with no object"),
    ],
)
def test_what_is_no_reward_is_an_error(content: Any, error: type[RlenvError], said: str) -> None:
    with pytest.raises(error) as raised:
        judged(content)
    assert type(raised.value) is error
    assert said in raised.value.message
    assert raised.value.stage is Stage.VERIFY


def test_marks_that_say_nothing_are_none() -> None:
    unmarked = {"mask_sample": False, "failure_kind": None, "failure_reason": None, "instance_config": {}}
    assert judged({"reward": 0.0, **unmarked}).rewards == {"reward": 0.0}


def test_a_failed_judgement_may_go_well_the_next_time() -> None:
    assert JudgementFailed.kind is Kind.INFRA


def refusal(*places: list[Any]) -> dict[str, Any]:
    return {"detail": [{"loc": place, "msg": "Field required", "input": "SECRET PROMPT"} for place in places]}


@pytest.mark.parametrize(
    ("status", "content", "error", "said"),
    [
        (422, refusal(["body", "expected_answer"]), TaskInvalid, "row: body.expected_answer: Field required"),
        (422, refusal(["body", "response", "output", 0, "x"]), AgentFailed, "body.response.output.0.x"),
        (422, refusal(["body", "response", "id"], ["body", "answer"]), TaskInvalid, "body.answer"),
        (422, refusal(*([["body", "a"]] * 5)), TaskInvalid, "and 2 more"),
        (422, {"detail": "no"}, RewardMissing, "status 422"),
        (422, "what", RewardMissing, "status 422: what"),
        (500, json.dumps("ValueError('No task name found')"), RewardMissing, "500: ValueError('No task name"),
        (500, "", RewardMissing, "status 500"),
        (400, {"detail": "Session not initialized."}, RewardMissing, "400: Session not initialized."),
        (404, {"detail": "Not Found"}, RewardMissing, "404: Not Found"),
        (307, "", RewardMissing, "status 307"),
        (204, "", RewardMissing, "status 204"),
    ],
)
def test_another_status_is_an_error_of_its_own(
    status: int, content: Any, error: type[RlenvError], said: str
) -> None:
    with pytest.raises(error) as raised:
        judged(content, status)
    assert type(raised.value) is error
    assert said in raised.value.message
    assert "SECRET PROMPT" not in raised.value.message
