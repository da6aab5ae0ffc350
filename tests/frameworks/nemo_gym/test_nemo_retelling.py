"""A judged response as a trajectory, whatever the response is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.nemo_gym import row

from pytest_rlenv.frameworks.nemo_gym.responses import function_call, function_output, message, reasoning
from pytest_rlenv.frameworks.nemo_gym.retelling import leave_trajectory
from pytest_rlenv.trajectory import TRAJECTORY
from pytest_rlenv.trajectory.model import AgentInfo
from pytest_rlenv.trajectory.reading import read_trajectory

WHO = AgentInfo(name="oracle", version="1")


def test_what_was_asked_called_and_said(tmp_path: Path) -> None:
    output = [
        reasoning("Let me see."),
        function_call("add", {"a": 1}, "call_1"),
        function_call("add", "{broken", "call_2"),
        function_output("call_1", "1"),
        function_output("call_2", "no JSON"),
        message("One."),
    ]
    leave_trajectory(tmp_path, WHO, row("How many?", request={"instructions": "Count."}), {"output": output})
    document = read_trajectory(tmp_path / TRAJECTORY)
    assert document.extra == {"retold_from": "response.json"}
    said = [(step.source, step.message) for step in document.steps]
    assert said == [("system", "Count."), ("user", "How many?"), ("agent", ""), ("agent", "One.")]
    calling = document.steps[2]
    calls = [(call.function_name, call.arguments, call.extra) for call in calling.tool_calls or ()]
    assert calls == [("add", {"a": 1}, None), ("add", {}, {"unreadable_arguments": "{broken"})]
    assert calling.observation is not None
    assert [result.content for result in calling.observation.results] == ["1", "no JSON"]


def test_an_agents_own_is_kept(tmp_path: Path) -> None:
    (tmp_path / TRAJECTORY).write_text("mine")
    leave_trajectory(tmp_path, WHO, row(), {"output": [message("One.")]})
    assert (tmp_path / TRAJECTORY).read_text() == "mine"


@pytest.mark.parametrize(
    "response",
    [
        {},
        {"output": 5},
        {"output": [5]},
        {"output": [{"type": "web_search_call"}]},
        {"output": [function_output("call_9", "of no call")]},
        {"output": [function_call("add", {"a": 1}, "call_1"), function_output("call_9", "of another")]},
        {"output": [{"type": "function_call", "name": None, "arguments": None, "call_id": 7}]},
    ],
)
def test_a_strange_response_has_no_trajectory(tmp_path: Path, response: dict[str, Any]) -> None:
    leave_trajectory(tmp_path, WHO, row(), response)
    assert not (tmp_path / TRAJECTORY).exists()
