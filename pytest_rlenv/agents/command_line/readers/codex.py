"""The events of ``codex exec --json``."""

from __future__ import annotations

from typing import Any

from pytest_rlenv.agents.command_line.readers.json_lines import events
from pytest_rlenv.agents.command_line.transcript import Transcript, count, table, words

_CALLS = {
    "command_execution": ("shell", ("command",)),
    "file_change": ("apply_patch", ("changes",)),
    "mcp_tool_call": ("mcp", ("server", "tool", "arguments")),
    "web_search": ("web_search", ("query",)),
    "todo_list": ("update_plan", ("items",)),
}
"""Items that are calls of tools: the tool, and which keys are its arguments."""


def read(log: bytes, told: Transcript) -> None:
    """Read the log. An item counts when it is complete; each is a step of its own."""
    for event in events(log):
        kind = event.get("type")
        if kind == "thread.started":
            told.session = words(event.get("thread_id"))
        elif kind == "item.completed":
            _item(table(event.get("item")), told)
        elif kind == "turn.completed":
            _add(table(event.get("usage")), told)
        elif kind == "turn.failed":
            told.errors.append(words(table(event.get("error")).get("message")))
        elif kind == "error":
            told.errors.append(words(event.get("message")))


def _item(item: dict[str, Any], told: Transcript) -> None:
    kind = item.get("type") or item.get("item_type")
    if kind == "agent_message":
        told.turn()
        told.text(item.get("text"))
    elif kind == "reasoning":
        told.turn()
        told.reasoning(item.get("text"))
    elif kind == "error":
        told.errors.append(words(item.get("message")))
    elif kind in _CALLS:
        name, keys = _CALLS[kind]
        told.turn()
        told.call(item.get("id"), name, {key: item.get(key) for key in keys if key in item})
        output = item.get("aggregated_output", item.get("result", item.get("status")))
        code = item.get("exit_code")
        told.result(item.get("id"), output, failed=item.get("status") == "failed" or code not in (None, 0))


def _add(usage: dict[str, Any], told: Transcript) -> None:
    names = {
        "input_tokens": "input_tokens",
        "output_tokens": "output_tokens",
        "cached_tokens": "cached_input_tokens",
    }
    for key, name in names.items():
        if (value := count(usage.get(name))) is not None:
            told.usage[key] = told.usage.get(key, 0) + value
