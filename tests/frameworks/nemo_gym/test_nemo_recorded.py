"""Recorded rollouts are joined with rows as far as what both have tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.nemo_gym import rollout_line, row, write_rows

from pytest_rlenv.errors import AgentFailed, RewardInvalid
from pytest_rlenv.frameworks.nemo_gym.recorded import Recorded, recorded_rollout
from pytest_rlenv.frameworks.nemo_gym.responses import message, response
from pytest_rlenv.frameworks.nemo_gym.rows import REQUEST
from pytest_rlenv.verdict import Expectation

ROW = row("How many?", expected_answer="4")


def texts(found: Recorded | None) -> str | None:
    if found is None or found.response is None:
        return None
    return str(found.response["output"][0]["content"][0]["text"])


def look(source: Path, of: dict[str, Any] = ROW, attempt: int = 1) -> Recorded | None:
    return recorded_rollout(source, of, "train/row-0", attempt)


def test_a_rollout_belongs_to_the_row_with_its_prompt(tmp_path: Path) -> None:
    file = write_rows(
        tmp_path / "out.jsonl", rollout_line(row("Who?"), "me", 0.0), rollout_line(ROW, "4", 1.0)
    )
    found = look(file)
    assert (texts(found), found and found.reward, found and found.where) == ("4", 1.0, "out.jsonl, line 2")
    assert look(file, row("Why?")) is None


@pytest.mark.parametrize(
    "echoed",
    [
        [{"role": "user", "content": "How many?"}],
        [{"role": "user", "content": "How many?", "type": "message", "status": None}],
        [{"role": "user", "content": [{"type": "input_text", "text": "How many?"}], "id": "x"}],
    ],
)
def test_what_servers_add_to_a_prompt_makes_no_difference(tmp_path: Path, echoed: Any) -> None:
    assert texts(look(write_rows(tmp_path / "out.jsonl", rollout_line(row(echoed), "4", 1.0)))) == "4"


def test_of_rows_with_one_prompt_the_other_fields_tell(tmp_path: Path) -> None:
    other = row("How many?", expected_answer="5")
    lines = [
        rollout_line(r, r["expected_answer"], 1.0, expected_answer=r["expected_answer"]) for r in (other, ROW)
    ]
    assert texts(look(write_rows(tmp_path / "out.jsonl", *lines))) == "4"


def test_several_rollouts_of_a_row_are_its_attempts(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "out.jsonl", *(rollout_line(ROW, text, 1.0) for text in "abc"))
    assert [texts(look(file, attempt=n)) for n in (1, 2, 3, 4)] == ["a", "b", "c", None]


def test_inputs_beside_the_rollouts_join_by_index(tmp_path: Path) -> None:
    indices = {"_ng_task_index": 0, "_ng_rollout_index": 0}
    bare = {"response": response(ROW, [message("4")], "m"), "reward": 1.0, **indices}
    file = write_rows(tmp_path / "out.jsonl", bare)
    assert look(file) is None
    write_rows(tmp_path / "run_materialized_inputs.jsonl", {**ROW, **indices})
    second = write_rows(tmp_path / "run_rollouts.jsonl", bare)
    assert texts(look(second)) == "4"


def test_lines_that_are_no_rollouts_are_passed_over(tmp_path: Path) -> None:
    broken = {REQUEST: ROW[REQUEST], "response": None, "reward": 0.0}
    lines = ["<PLACEHOLDER ROW>", "[]", "{}", broken, rollout_line(ROW, "4", 1.0)]
    assert texts(look(write_rows(tmp_path / "out.jsonl", *lines))) == "4"


def test_a_folder_of_rollouts_is_searched(tmp_path: Path) -> None:
    write_rows(tmp_path / "example_rollouts.jsonl", rollout_line(ROW, "4", 1.0))
    write_rows(tmp_path / "example.jsonl", ROW)
    assert texts(look(tmp_path)) == "4"


def test_a_run_of_ours_can_be_judged_again(tmp_path: Path) -> None:
    def record(task: str, attempt: int, reward: float) -> dict[str, Any]:
        logs = f"rollouts/{task.replace('/', '-')}-{attempt}"
        folder = tmp_path / logs / "agent"
        folder.mkdir(parents=True)
        (folder / "response.json").write_text(json.dumps(response(ROW, [message(logs)], "m")))
        return {"task": task, "attempt": attempt, "reward": reward, "logs": logs}

    records = [record("train/row-0", 1, 0.5), record("train/row-0", 2, 1.0), record("train/row-1", 1, 0.0)]
    write_rows(tmp_path / "results.jsonl", *records, '{"torn')
    found = look(tmp_path, attempt=2)
    assert (texts(found), found and found.reward) == ("rollouts/train-row-0-2", 1.0)
    assert look(tmp_path, attempt=3) is None


def test_of_several_agents_one_must_be_named(tmp_path: Path) -> None:
    def record(agent: str, reward: Any) -> dict[str, Any]:
        folder = tmp_path / agent / "agent"
        folder.mkdir(parents=True)
        (folder / "response.json").write_text(json.dumps(response(ROW, [message(agent)], "m")))
        return {"task": "train/row-0", "agent": agent, "reward": reward, "logs": agent}

    records = [record("nop", 0.0), record("oracle", 1.0)]
    write_rows(tmp_path / "results.jsonl", *records)
    assert texts(look(tmp_path)) == "oracle"  # doing nothing is not what anybody wants to see again
    write_rows(tmp_path / "results.jsonl", *records, record("model", 0.5))
    with pytest.raises(AgentFailed, match=r"several agents have a response to train/row-0 .*: model, oracle"):
        look(tmp_path)
    write_rows(tmp_path / "results.jsonl", record("odd", "good"))
    with pytest.raises(RewardInvalid, match="the recorded reward in"):
        look(tmp_path)


def test_of_several_recordings_it_is_said_which_one(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "out.jsonl", rollout_line(ROW, "3", 0.0), rollout_line(ROW, "4", 1.0))
    found = look(source, attempt=2)
    assert found is not None
    assert found.where == "out.jsonl, line 2 (2 of 2)"


@pytest.mark.parametrize("reward", ["good", True, float("nan")])
def test_a_recorded_reward_that_is_none_is_an_error(tmp_path: Path, reward: Any) -> None:
    with pytest.raises(RewardInvalid, match=r"out\.jsonl, line 1"):
        look(write_rows(tmp_path / "out.jsonl", rollout_line(ROW, "4", reward)))


def test_a_file_that_cannot_be_read_is_the_agents_error(tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match="cannot be read"):
        look(tmp_path / "gone.jsonl")


@pytest.mark.parametrize(
    ("recorded", "now", "holds"),
    [
        (1.0, 1.0, True),
        (1.0, 0.999, False),
        (0.0, 0.0, True),
        (-1.0, 0.0, False),
        (1 / 3, 1 / 3, True),
        (1 / 3, 1 / 3 + 1e-12, True),
        (1 / 3, 0.334, False),
        (1e-12, 0.0, True),
        (-0.25, -0.25, True),
    ],
)
def test_the_reward_must_be_the_recorded_one(recorded: float, now: float, holds: bool) -> None:
    text = Recorded("out.jsonl, line 1", None, recorded).expectation
    assert text is not None
    assert Expectation.parse(text, source="test").holds(now) is holds


def test_without_a_recorded_reward_the_usual_one_is_expected() -> None:
    assert Recorded("x", None, None).expectation is None
