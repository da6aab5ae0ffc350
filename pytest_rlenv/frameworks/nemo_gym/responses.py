"""A model's answer in the form of OpenAI's Responses API, which verifiers judge: made of single items."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_rlenv.frameworks.nemo_gym.rows import REQUEST

Item = dict[str, Any]
"""One thing that a model, or a tool, put out."""


@dataclass
class Turn:
    """One reply of a model.

    Attributes:
        items: what it put out.
        answers: what tools and the environment said to that.
    """

    items: list[Item] = field(default_factory=list)
    answers: list[Item] = field(default_factory=list)


_OF_A_MODEL = frozenset({"message", "function_call", "reasoning"})


def message(text: str, number: int = 0) -> Item:
    """Return what the assistant says."""
    return {
        "type": "message",
        "id": f"msg_{number}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def reasoning(text: str, number: int = 0) -> Item:
    """Return what the assistant thought."""
    return {"type": "reasoning", "id": f"rs_{number}", "summary": [{"type": "summary_text", "text": text}]}


def function_call(name: str, arguments: Mapping[str, Any] | str, call_id: str = "call_0") -> Item:
    """Return a call of a tool; arguments that are text stay as they are."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": text}


def function_output(call_id: str, output: str) -> Item:
    """Return what a tool said to a call."""
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def response(row: Mapping[str, Any], output: Sequence[Item], model: str) -> dict[str, Any]:
    """Return a whole answer to a row's request."""
    request = row[REQUEST]
    parallel, choice = request.get("parallel_tool_calls"), request.get("tool_choice")
    return {
        "id": "resp_0",
        "object": "response",
        "created_at": 0,
        "model": model,
        "output": list(output),
        "parallel_tool_calls": True if parallel is None else parallel,
        "tool_choice": choice or "auto",
        "tools": request.get("tools") or [],
    }


def turns_of(output: Iterable[Item]) -> list[Turn]:
    """Return an output reply by reply: what the model put out each time, and what it was told then.

    A recording does not say where a reply ends. It does where somebody else speaks; and a message ends one
    unless calls follow, as models say a word before they call.
    """
    turns: list[Turn] = []
    said = False
    for item in output:
        kind = item.get("type", "message")
        if kind not in _OF_A_MODEL or item.get("role") not in (None, "assistant"):
            turns = turns or [Turn()]
            turns[-1].answers.append(item)
            continue
        if not turns or turns[-1].answers or (said and kind != "function_call"):
            turns.append(Turn())
        turns[-1].items.append(item)
        said = kind == "message"
    return turns
