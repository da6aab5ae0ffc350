"""A recorded response made again: what is done, and what is told of where the server now says otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.nemo_gym import FakeGym, row, write_rows
from support.nemo_rollouts import Runner, replaying

from pytest_rlenv.agents.nop import NopAgent
from pytest_rlenv.errors import Unsupported
from pytest_rlenv.frameworks.nemo_gym.responses import function_call, function_output, message, response
from pytest_rlenv.rollout import Rollout

ROW = row("How many?")
MCP = {"mcp": {"server_name": "x", "url_path": "/mcp", "headers": {}}}


def record(tmp_path: Path, *items: dict[str, Any]) -> Path:
    line = {**ROW, "response": response(ROW, items, "m"), "reward": 1.0}
    return write_rows(tmp_path / "out.jsonl", line)


def notes(rollout: Rollout) -> dict[str, str]:
    return {note.code: note.text for note in rollout.notes}


def outputs(runner: Runner) -> list[str]:
    return [each["output"] for each in json.loads((runner.logs / "agent" / "replay.json").read_text())]


@pytest.mark.parametrize(
    ("then", "outcome"),
    [
        ('{"sum": 4, "of": 2}', "same"),
        ('{ "of": 2,\n"sum": 4}', "same"),
        ('{"sum": 5, "of": 2}', "differs"),
        ("4", "differs"),
        (None, "unknown"),
    ],
)
def test_what_a_tool_says_is_compared_with_the_recording(
    runner: Runner, gym: FakeGym, tmp_path: Path, then: str | None, outcome: str
) -> None:
    gym.answers("/add", {"sum": 4, "of": 2})
    told = [] if then is None else [function_output("c", then)]
    source = record(tmp_path, function_call("add", '{"a": 2}', "c"), *told, message("4"))
    rollout = runner.run(replaying(source), ROW, nemo_url=gym.url)
    assert rollout.rewards == {"reward": 1.0}
    assert outputs(runner) == [outcome]
    assert ("replay-output" in notes(rollout)) is (outcome == "differs")
    if outcome == "differs":
        assert notes(rollout)["replay-output"].endswith(
            '1 of 1 calls than was recorded; the first is `add({"a": 2})`'
        )


def test_a_tool_that_is_gone_says_something_else(runner: Runner, gym: FakeGym, tmp_path: Path) -> None:
    source = record(tmp_path, function_call("add", "{}", "c"), function_output("c", "4"), message("4"))
    assert "replay-output" in notes(runner.run(replaying(source), ROW, nemo_url=gym.url))
    assert [path for path, _, _ in gym.asked] == ["/seed_session", "/add", "/verify"]


def test_a_call_that_was_only_noted_is_not_made(runner: Runner, gym: FakeGym, tmp_path: Path) -> None:
    runner.run(replaying(record(tmp_path, function_call("add", "{}"))), ROW, nemo_url=gym.url)
    assert [path for path, _, _ in gym.asked] == ["/seed_session", "/verify"]
    assert not (runner.logs / "agent" / "replay.json").exists()


def test_calls_of_an_mcp_server_cannot_be_made_again(runner: Runner, gym: FakeGym, tmp_path: Path) -> None:
    gym.answers("/seed_session", MCP)
    source = record(tmp_path, function_call("weather", "{}", "c"), function_output("c", "rain"))
    with pytest.raises(Unsupported, match="call of weather went to an MCP server"):
        runner.run(replaying(source), ROW, nemo_url=gym.url)


def step(*answers: dict[str, Any]) -> Any:
    left = list(answers)
    return lambda session, body: (200, {"reward": 0.5, "terminated": False, **left.pop(0)})


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


TOLD = {"info": {"tool_outputs": [{"call_id": "c", "output": "3"}]}, "observation": "You have 17."}
GAME = (
    message("Let me draw."),
    function_call("draw", "{}", "c"),
    function_output("c", "3"),
    user("You have 17."),
    message("stand"),
)


@pytest.mark.parametrize(
    ("answers", "reward", "compared", "codes"),
    [
        ([TOLD, {"terminated": True}], 1.0, ["same", "unknown"], set()),
        ([{"observation": "You have 17."}, {}], 1.0, ["differs", "unknown"], {"replay-output"}),
        ([{**TOLD, "terminated": True}], 0.5, ["differs"], {"replay-output", "replay-diverged"}),
    ],
)
def test_a_recorded_game_is_stepped_reply_by_reply_and_compared(
    runner: Runner,
    tmp_path: Path,
    answers: list[dict[str, Any]],
    reward: float,
    compared: list[str],
    codes: set[str],
) -> None:
    source = record(tmp_path, *GAME)
    with FakeGym(gymnasium=True) as gym:
        gym.routes["/step"] = step(*answers)
        rollout = runner.run(replaying(source), ROW, nemo_url=gym.url)
        kinds = [[item["type"] for item in body["response"]["output"]] for _, _, body in gym.asked[1:]]
    assert rollout.rewards == {"reward": reward}
    assert outputs(runner) == compared
    assert notes(rollout).keys() - {"replayed", "verifier"} == codes
    assert kinds == [["message", "function_call"], ["message"]][: len(compared)]


def test_the_folder_of_one_rollout_can_be_judged_again(runner: Runner, gym: FakeGym, tmp_path: Path) -> None:
    gym.answers("/verify", {"reward": 1.0})
    runner.run(NopAgent(), ROW, nemo_url=gym.url)
    runner.logs.rename(tmp_path / "first")
    own = {"task": "train/row-0", "reward": 1.0}
    (tmp_path / "first" / "rlenv.json").write_text(json.dumps(own))
    agent = replaying(tmp_path / "first")
    agent.check()
    assert runner.run(agent, ROW, nemo_url=gym.url).rewards == {"reward": 1.0}
    assert runner.load(ROW).expected_of(agent, 1) == (
        "== 1.0",
        f"the recorded reward 1.0, {tmp_path / 'first'}",
    )
    (tmp_path / "first" / "rlenv.json").write_text(json.dumps(own | {"task": "train/row-1"}))
    with pytest.raises(Unsupported, match="no recorded rollout of this row"):
        runner.run(agent, ROW, nemo_url=gym.url)
