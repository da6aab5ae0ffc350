"""The events of ``--output-format stream-json`` as Claude Code has them; Qwen Code's are alike."""

from __future__ import annotations

from typing import Any

from pytest_rlenv.agents.command_line.readers.json_lines import events
from pytest_rlenv.agents.command_line.transcript import Transcript, amount, count, items, table, words


def read(log: bytes, told: Transcript) -> None:
    """Read the log. One message of the model may come in several events, one for each of its blocks."""
    current = None
    for event in events(log):
        kind, message = event.get("type"), table(event.get("message"))
        told.session = told.session or words(event.get("session_id"))
        if kind == "assistant":
            if message.get("id") is None or message.get("id") != current:
                told.turn(model=message.get("model"), at=event.get("timestamp"))
            current = message.get("id")
            _blocks(message.get("content"), told)
            _metrics(table(message.get("usage")), told)
        elif kind == "user":
            for block in items(message.get("content")):
                if block.get("type") == "tool_result":
                    failed = bool(block.get("is_error"))
                    told.result(block.get("tool_use_id"), block.get("content"), failed=failed)
        elif kind == "result":
            _end(event, told)


def _blocks(content: object, told: Transcript) -> None:
    if isinstance(content, str):
        told.text(content)
    for block in items(content):
        if block.get("type") == "text":
            told.text(block.get("text"))
        elif block.get("type") == "thinking":
            told.reasoning(block.get("thinking"))
        elif block.get("type") == "tool_use":
            told.call(block.get("id"), block.get("name"), block.get("input"))


def _metrics(usage: dict[str, Any], told: Transcript) -> None:
    if usage:
        told.metrics(_prompt(usage), usage.get("output_tokens"), usage.get("cache_read_input_tokens"))


def _prompt(usage: dict[str, Any]) -> int:
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(count(usage.get(name)) or 0 for name in names)


def _end(event: dict[str, Any], told: Transcript) -> None:
    usage = table(event.get("usage"))
    found = {
        "input_tokens": _prompt(usage) if usage else None,
        "output_tokens": count(usage.get("output_tokens")),
        "cached_tokens": count(usage.get("cache_read_input_tokens")),
        "cost_usd": amount(event.get("total_cost_usd")),
        "turns": count(event.get("num_turns")),
    }
    told.usage.update({key: value for key, value in found.items() if value is not None})
    if event.get("is_error"):
        told.errors.append(words(event.get("result") or event.get("error") or event.get("subtype")))
