"""An episode of OpenEnv's for an agent that plays: with the environment's tools, or with actions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_rlenv.agents.episode import Episode, Tool
from pytest_rlenv.errors import Unsupported
from pytest_rlenv.frameworks.openenv.frames import EXECUTION_ERROR, ErrorFrame, Frame
from pytest_rlenv.frameworks.openenv.playground import Playground

_LIST, _CALL = {"type": "list_tools"}, "call_tool"


class OpenEnvEpisode(Episode):
    """One episode, from the agent's side.

    Args:
        ground: where it is played; the reset is done.
        instruction: the task in words; empty where there are none.
        action_schema: JSON Schema of an action.
        max_steps: steps that the agent has, mistakes included.
        forgiving: True if an error of the environment's own code is an answer for the agent.
    """

    def __init__(
        self,
        ground: Playground,
        *,
        instruction: str,
        action_schema: Mapping[str, Any],
        max_steps: int,
        forgiving: bool = False,
    ) -> None:
        self._ground = ground
        self._instruction = instruction
        self._schema = action_schema
        self._max_steps = max_steps
        self._forgiving = forgiving
        self._steps = 0
        self._shown = ground.begin.observation
        self._has_tools = _takes_tools(action_schema)
        self._tools = self._list_tools() if self._has_tools else []

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """The task, and what the environment shows first."""
        seen = _text(self._ground.begin.observation)
        parts = [self._instruction, f"The environment shows:\n{seen}" if self._instruction else seen]
        return [{"role": "user", "content": "\n\n".join(part for part in parts if part)}]

    @property
    def tools(self) -> Sequence[Tool]:
        """The environment's tools; none where it is stepped with actions."""
        return self._tools

    @property
    def done(self) -> bool:
        """True once the environment has ended the episode, or all steps are used up."""
        return self._ground.score.done or self.used_up

    @property
    def used_up(self) -> bool:
        """True once the agent has no step left."""
        return self._steps >= self._max_steps

    @property
    def steps(self) -> int:
        """Steps that the agent has made, mistakes included."""
        return self._steps

    @property
    def action_schema(self) -> Mapping[str, Any] | None:
        """What an action looks like, without the ``metadata`` that any may have; ``None`` for tools."""
        if self._has_tools:
            return None
        properties = self._schema.get("properties")
        if not isinstance(properties, Mapping):
            return {"type": "object"}
        kept = {key: value for key, value in properties.items() if key != "metadata"}
        return {**self._schema, "properties": kept}

    @property
    def observation(self) -> Mapping[str, Any] | None:
        """What the environment showed last."""
        return self._shown

    def call(self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "") -> str:
        """Call a tool and return what the environment shows."""
        if self.done:
            return "the episode is over"
        try:
            given = json.loads(arguments) if isinstance(arguments, str) else dict(arguments)
        except (ValueError, RecursionError) as error:
            return self._mistake(f"the arguments are not JSON: {error}")
        if not isinstance(given, dict):
            return self._mistake("the arguments are no JSON object")
        if not self._has_tools:
            return self._mistake("the environment takes actions, and has no tools")
        shown = self._take({"type": _CALL, "tool_name": tool, "arguments": given})
        return shown if isinstance(shown, str) else _text(_result(shown))

    def say(self, text: str, *, reasoning: str = "") -> str | None:
        """End the conversation: there is nobody to talk to."""
        return None

    def act(self, action: Mapping[str, Any]) -> Mapping[str, Any]:
        """Take an action and return what the environment shows; a mistake is shown as ``error``."""
        if self.done:
            return {"error": "the episode is over"}
        shown = self._take(dict(action))
        return {"error": shown} if isinstance(shown, str) else shown

    def _take(self, action: dict[str, Any]) -> Mapping[str, Any] | str:
        """Take an action; what the environment does not take is told as text, and costs a step too."""
        self._steps += 1
        try:
            frame = self._ground.step(action)
        except ErrorFrame as error:
            if error.of_the_request:
                return f"this action is not taken: {error.problems or error.message}"
            if self._forgiving and error.code == EXECUTION_ERROR:
                return f"the environment failed: {error.message}"
            raise self._ground.failed(error, "a step") from None
        self._shown = frame.observation
        return frame.observation

    def _mistake(self, text: str) -> str:
        self._steps += 1
        return text

    def _list_tools(self) -> list[Tool]:
        try:
            frame: Frame = self._ground.ask(_LIST)
        except ErrorFrame as error:
            raise self._ground.failed(error, "list_tools") from None
        tools = frame.observation.get("tools")
        if not isinstance(tools, list):
            raise Unsupported("the environment takes calls of tools, and lists none")
        return [
            Tool(str(each.get("name")), str(each.get("description") or ""), _parameters(each))
            for each in tools
            if isinstance(each, Mapping) and each.get("name")
        ]


def _takes_tools(schema: Mapping[str, Any]) -> bool:
    """Return whether actions are calls of tools, by their schema."""
    return '"tool_name":' in json.dumps(schema)


def _parameters(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = tool.get("input_schema") or tool.get("inputSchema") or tool.get("parameters")
    return schema if isinstance(schema, Mapping) else {"type": "object"}


def _result(observation: Mapping[str, Any]) -> Any:
    """Return what a tool said, without what is around it; the observation itself for anything else."""
    error, result = observation.get("error"), observation.get("result")
    if isinstance(error, Mapping):
        return {"error": error}
    if isinstance(result, Mapping):
        content = result.get("content")
        texts = [each.get("text") for each in content or () if isinstance(each, Mapping)]
        if texts and all(isinstance(text, str) for text in texts):
            return "\n".join(str(text) for text in texts)
        return result.get("data", result)
    return observation


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and not value.get("metadata"):
        value = {key: each for key, each in value.items() if key != "metadata"}
    return json.dumps(value, ensure_ascii=False)
