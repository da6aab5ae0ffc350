"""What an agent can do in an episode, as tools: those that it has, or one that takes an action.

So a model, and a trajectory, know one kind of move whatever the environment is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_rlenv.agents.episode import Call, Episode, Tool

ACT = "act"
"""The tool that takes an action."""
_WRAPPED = "action"
"""Its one argument, where the schema is one of alternatives: a tool's must be an object's."""
_DEFINITIONS = ("$defs", "definitions")

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 64

Json = dict[str, Any]


class Moves:
    """The moves of one episode.

    Args:
        episode: which one.
    """

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._schema = episode.action_schema
        self.tools: tuple[Tool, ...] = (
            tuple(episode.tools) if self._schema is None else (_act_tool(self._schema),)
        )
        """What can be called."""
        self._by_name = dict(zip(function_names(self.tools), (tool.name for tool in self.tools), strict=True))
        self._by_name |= {tool.name: tool.name for tool in self.tools}

    def has(self, tool: str) -> bool:
        """Return whether there is a tool of this name, as itself or as models know it."""
        return tool in self._by_name

    @property
    def acts(self) -> bool:
        """True if the episode is stepped with actions."""
        return self._schema is not None

    def announce(self, calls: Sequence[Call]) -> None:
        """Say which calls a model makes in one reply, before :meth:`make` makes them."""
        if self._schema is None:
            named = [replace(call, tool=self._by_name.get(call.tool, call.tool)) for call in calls]
            self._episode.announce(named)

    def make(self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "") -> str:
        """Call a tool, or take an action by the name of :data:`ACT`, and return what came of it, as text.

        A tool may be named as models know it, see :func:`function_names`.

        A mistake of the agent's is answered with a text that says so.

        Raises:
            AgentTimedOut: the agent's time is up. RlenvError: the environment broke.
        """
        if self._schema is None:
            return self._episode.call(self._by_name.get(tool, tool), arguments, call_id=call_id)
        if tool != ACT:
            return f"There is no tool {tool!r}; the only one is {ACT!r}. No action was taken."
        if isinstance(arguments, str):
            return "The arguments are not a JSON object. No action was taken."
        action = arguments if _is_object(self._schema) else arguments.get(_WRAPPED)
        if not isinstance(action, Mapping):
            return f"The argument {_WRAPPED!r} must be a JSON object. No action was taken."
        return shown(self._episode.act(action))

    def arguments_of(self, action: Mapping[str, Any]) -> Json:
        """Return the arguments of :data:`ACT` that stand for an action."""
        wrapped = self._schema is not None and not _is_object(self._schema)
        return {_WRAPPED: dict(action)} if wrapped else dict(action)


def shown(observation: object) -> str:
    """Return an observation as text: JSON, unless it is text already."""
    if isinstance(observation, str):
        return observation
    return json.dumps(observation, ensure_ascii=False, default=str)


def function_names(tools: Sequence[Tool]) -> list[str]:
    """Return the names by which models know tools: of letters, digits, ``_`` and ``-``, and no two alike."""
    names: list[str] = []
    taken = {tool.name for tool in tools}
    for tool in tools:
        name = plain = _NO_NAME.sub("_", tool.name)[:_LONGEST] or "tool"
        number = 1
        while name != tool.name and name in taken:
            number += 1
            name = f"{plain[: _LONGEST - 4]}_{number}"
        taken.add(name)
        names.append(name)
    return names


def as_functions(tools: Sequence[Tool]) -> list[Json]:
    """Return tools in the form of OpenAI's chat completions."""
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": tool.description,
                "parameters": {"type": "object", "properties": {}, **tool.parameters},
            },
        }
        for name, tool in zip(function_names(tools), tools, strict=True)
    ]


def _act_tool(schema: Mapping[str, Any]) -> Tool:
    parameters = dict(schema)
    if not _is_object(schema):
        inner = {key: value for key, value in schema.items() if key not in _DEFINITIONS}
        parameters = {"type": "object", "properties": {_WRAPPED: inner}, "required": [_WRAPPED]}
        parameters |= {
            key: schema[key] for key in _DEFINITIONS if key in schema
        }  # references are to the root
    said = str(schema.get("description") or "").strip()
    description = "Take one action in the environment; what it shows next is returned."
    return Tool(ACT, f"{description} {said}".strip(), parameters)


def _is_object(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object"
