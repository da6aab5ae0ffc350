"""The record of an episode as a trajectory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_rlenv.frameworks.verifiers.trajectory import leave_trajectory
from pytest_rlenv.trajectory.model import Trajectory


def node(role: str, parent: int | None, **fields: Any) -> dict[str, Any]:
    return {
        "parent": parent,
        "message": {"role": role, **fields},
        "sampled": role == "assistant",
        "timestamp": 1.5,
    }


def an_episode(
    nodes: list[dict[str, Any]], calls: list[dict[str, Any]], seat: str = "agent"
) -> dict[str, Any]:
    trace = {
        "id": "t1",
        "verifiers": {"version": "0.4.0"},
        "agent": {"name": seat},
        "nodes": nodes,
        "calls": calls,
        "stop_condition": "agent_completed",
    }
    return {"traces": [trace]}


USAGE = {"prompt_tokens": 10, "completion_tokens": 3, "cached_input_tokens": 5}
TALK = an_episode(
    [
        node("system", None, content="Be brief."),
        node("user", 0, content=[{"type": "text", "text": "List them."}, {"type": "image_url"}]),
        node("assistant", 1, content="a dead end"),
        node(
            "assistant",
            1,
            content=None,
            reasoning_content="hm",
            tool_calls=[
                {"id": "c1", "name": "bash", "arguments": '{"command": "ls"}'},
                {"id": "c2", "name": "edit", "arguments": "not json"},
            ],
        ),
        node("tool", 3, tool_call_id="c1", content="a b"),
        node("tool", 4, tool_call_id="c2", content="wrong"),
        node("assistant", 5, content="a and b"),
    ],
    [{"node": 3, "model": "toy", "usage": USAGE}, {"node": None}, {"node": 6, "model": "toy", "usage": None}],
)


def test_what_was_said_and_called_is_in_order(tmp_path: Path) -> None:
    (tmp_path / "episode.json").write_text(json.dumps(TALK))

    leave_trajectory(tmp_path, "model", "agent")

    found = Trajectory.model_validate_json((tmp_path / "agent" / "trajectory.json").read_text())
    assert found.agent.model_name == "toy"
    assert [(step.source, step.message) for step in found.steps] == [
        ("system", "Be brief."),
        ("user", "List them.\n[image_url]"),
        ("agent", ""),
        ("agent", "a and b"),
    ]
    acted = found.steps[2]
    assert acted.tool_calls is not None
    assert [call.arguments for call in acted.tool_calls] == [{"command": "ls"}, {"text": "not json"}]
    assert acted.observation is not None
    assert [(each.source_call_id, each.content) for each in acted.observation.results] == [
        ("c1", "a b"),
        ("c2", "wrong"),
    ]
    assert acted.metrics is not None
    assert (acted.metrics.prompt_tokens, acted.metrics.cached_tokens) == (15, 5)


@pytest.mark.parametrize(
    "record",
    [
        "not json",
        json.dumps({"traces": []}),
        json.dumps(an_episode([], [])),
        json.dumps(an_episode([node("user", None, content="hi")], [], seat="judge")),
        json.dumps(an_episode([node("robot", None, content=5)], [])),
        json.dumps(an_episode([node("tool", None, tool_call_id="x", content="?")], [])),
    ],
)
def test_a_record_that_makes_none_leaves_none_or_a_valid_one(tmp_path: Path, record: str) -> None:
    (tmp_path / "episode.json").write_text(record)

    leave_trajectory(tmp_path, "model", "agent")

    file = tmp_path / "agent" / "trajectory.json"
    if file.exists():
        Trajectory.model_validate_json(file.read_text())
