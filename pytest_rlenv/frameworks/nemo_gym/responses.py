"""A model's answer in the form of OpenAI's Responses API, which verifiers judge: made of single items."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_rlenv.frameworks.nemo_gym.rows import REQUEST

Item = dict[str, Any]
"""One thing that a model, or a tool, put out."""

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


def turns_of(output: Iterable[Item]) -> list[list[Item]]:
    """Return the model's part of an output, one list for each time that it was asked."""
    turns: list[list[Item]] = []
    ended = True
    for item in output:
        its_own = item.get("type", "message") in _OF_A_MODEL and item.get("role") in (None, "assistant")
        if its_own and ended:
            turns.append([])
        if its_own:
            turns[-1].append(item)
        ended = not its_own or item.get("type") == "message"
    return turns
