"""Sampling parameters by the names of OpenAI's Responses API, as chat completions have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pytest_rlenv.agents.conversing.replies import Json

_SAME = (
    "temperature",
    "top_p",
    "parallel_tool_calls",
    "seed",
    "stop",
    "presence_penalty",
    "frequency_penalty",
)
_LENGTH = "max_output_tokens"
_OF_TOOLS = ("parallel_tool_calls", "tool_choice")
_CHOICES = ("auto", "none", "required")
_NEWER_LENGTH = frozenset({"openai"})
"""Providers whose newer models take no ``max_tokens`` any more."""


class Parameters(NamedTuple):
    """What goes with each request.

    Attributes:
        sent: as chat completions name it.
        ignored: the names of what has no place there.
    """

    sent: Json
    ignored: tuple[str, ...]


def chat_parameters(asked: Mapping[str, Any], *, provider: str, has_tools: bool) -> Parameters:
    """Return what a task asks for as parameters of chat completions; ``None`` is not asked for.

    Args:
        asked: by the names of the Responses API.
        provider: who has the model.
        has_tools: False leaves out what is about tools, which is refused without them.
    """
    sent: Json = {}
    ignored = []
    for name, value in asked.items():
        if value is None:
            continue
        if name in _OF_TOOLS and not has_tools:
            continue
        if name in _SAME:
            sent[name] = value
        elif name == _LENGTH:
            sent["max_completion_tokens" if provider in _NEWER_LENGTH else "max_tokens"] = value
        elif name == "tool_choice" and (choice := _tool_choice(value)) is not None:
            sent[name] = choice
        elif name == "reasoning" and isinstance(value, Mapping) and isinstance(value.get("effort"), str):
            sent["reasoning_effort"] = value["effort"]
        else:
            ignored.append(name)
    return Parameters(sent, tuple(ignored))


def _tool_choice(value: object) -> object:
    if value in _CHOICES:
        return value
    if isinstance(value, Mapping) and value.get("type") == "function" and isinstance(value.get("name"), str):
        return {"type": "function", "function": {"name": value["name"]}}
    return None
