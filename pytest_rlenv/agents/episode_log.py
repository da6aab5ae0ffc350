"""The trajectory of an agent that plays an episode without a model."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from pytest_rlenv.agents.episode import EpisodeContext
from pytest_rlenv.trajectory import TRAJECTORY
from pytest_rlenv.trajectory.model import AgentInfo, Observation, Result, ToolCall
from pytest_rlenv.trajectory.writing import GrowingTrajectory


class EpisodeLog:
    """Writes moves down as they are made.

    Args:
        context: of the episode; the file goes to its logs.
        agent: the agent's name.
        version: and version.
        told: what the episode begins with, in words.
        extra: what else is to be said of the agent.
    """

    def __init__(
        self,
        context: EpisodeContext,
        agent: str,
        version: object,
        told: str,
        *,
        extra: dict[str, Any] | None = None,
    ) -> None:
        info = AgentInfo(name=agent, version=str(version or 0), model_name=context.model, extra=extra)
        self._file = GrowingTrajectory(context.logs / TRAJECTORY, info, session_id=uuid.uuid4().hex)
        self._file.add(source="user", message=told)
        self._calls = 0

    def call(self, tool: str, arguments: Mapping[str, Any], *, extra: dict[str, Any] | None = None) -> str:
        """Write down a call that is about to be made, and return its id."""
        self._calls += 1
        call = ToolCall(
            tool_call_id=f"call_{self._calls}", function_name=tool, arguments=dict(arguments), extra=extra
        )
        self._file.add(source="agent", message="", tool_calls=[call], llm_call_count=0)
        return call.tool_call_id

    def came(self, call_id: str, text: str, *, done: bool) -> None:
        """Write down what came of the last call, and whether the episode is over by it."""
        extra = {"done": True} if done else None
        self._file.observe(Observation(results=[Result(source_call_id=call_id, content=text, extra=extra)]))

    def said(self, text: str) -> None:
        """Write down what the agent says."""
        self._file.add(source="agent", message=text, llm_call_count=0)

    def answered(self, text: str) -> None:
        """Write down what the environment answers."""
        self._file.add(source="user", message=text)
