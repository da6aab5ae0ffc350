"""A judged response as an ATIF trajectory: what was asked, said and called, of agents that leave none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_rlenv.agents.model_player.opening import words_of
from pytest_rlenv.frameworks.nemo_gym.conversation import Message, messages_of
from pytest_rlenv.frameworks.nemo_gym.recorded import RESPONSE
from pytest_rlenv.frameworks.nemo_gym.rows import REQUEST
from pytest_rlenv.trajectory import TRAJECTORY
from pytest_rlenv.trajectory.model import AgentInfo, Observation, Result, Step, ToolCall
from pytest_rlenv.trajectory.retold import leave_retold

_SOURCES = {"system": "system", "user": "user", "assistant": "agent"}


def leave_trajectory(
    folder: Path, agent: AgentInfo, row: Mapping[str, Any], response: Mapping[str, Any]
) -> None:
    """Write the trajectory of a rollout whose agent has left none; never raises.

    Args:
        folder: of the agent's logs.
        agent: who acted.
        row: the row, with what was asked.
        response: what is judged.
    """
    leave_retold(
        folder / TRAJECTORY, agent, lambda: _steps([*messages_of(row), *_answered(response)]), record=RESPONSE
    )


def _answered(response: Mapping[str, Any]) -> list[Message]:
    return messages_of({REQUEST: {"input": response["output"]}})


def _steps(messages: list[Message]) -> list[Step]:
    steps: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "tool":
            came = Result(source_call_id=message["tool_call_id"], content=words_of(message))
            steps[-1].setdefault("results", []).append(came)
        else:
            calls = [_call(call) for call in message.get("tool_calls") or ()]
            steps.append(
                {
                    "source": _SOURCES[message["role"]],
                    "message": words_of(message),
                    "tool_calls": calls or None,
                }
            )
    return [_step(number, fields) for number, fields in enumerate(steps, 1)]


def _step(number: int, fields: dict[str, Any]) -> Step:
    results = fields.pop("results", None)
    return Step(step_id=number, observation=Observation(results=results) if results else None, **fields)


def _call(call: Mapping[str, Any]) -> ToolCall:
    name, written = call["function"]["name"], call["function"]["arguments"]
    try:
        arguments = json.loads(written)
    except ValueError:
        arguments = None
    if isinstance(arguments, dict):
        return ToolCall(tool_call_id=call["id"], function_name=name, arguments=arguments)
    extra = {"unreadable_arguments": written}
    return ToolCall(tool_call_id=call["id"], function_name=name, arguments={}, extra=extra)
