"""The trajectory file of OpenHands: its events as one JSON list."""

from __future__ import annotations

from typing import Any

from pytest_rlenv.agents.command_line.readers.json_lines import document
from pytest_rlenv.agents.command_line.transcript import Transcript, amount, count, items, table

_SAYS = ("message", "system", "think")
_SAID = ("thought", "final_thought")
"""Arguments that are what the agent says, not what it does."""


def read(log: bytes, told: Transcript) -> None:
    """Read the file. An observation names the action that it comes from."""
    found = document(log)
    for event in items(found if isinstance(found, list) else table(found).get("history")):
        action, source, at = event.get("action"), event.get("source"), event.get("timestamp")
        if action == "system" or (action == "message" and source == "user"):
            told.say("system" if action == "system" else "user", _text(event), at=at)
        elif source == "agent" and action is not None:
            told.turn(at=at)
            _act(event, told)
        elif event.get("observation") is not None and told.has_agent_steps:
            failed = event.get("observation") == "error"
            told.result(f"event-{event.get('cause')}", event.get("content"), failed=failed)
        _usage(table(event.get("llm_metrics")), told)


def _text(event: dict[str, Any]) -> object:
    return table(event.get("args")).get("content") or event.get("message")


def _act(event: dict[str, Any], told: Transcript) -> None:
    arguments = table(event.get("args"))
    told.reasoning(arguments.get("thought"))
    if event.get("action") in _SAYS:
        told.text(_text(event))
        return
    told.text(arguments.get("final_thought") or event.get("message"))  # the latter is its own set phrase
    kept = {key: value for key, value in arguments.items() if key not in _SAID and value not in (None, "")}
    told.call(f"event-{event.get('id')}", event.get("action"), kept)


def _usage(metrics: dict[str, Any], told: Transcript) -> None:
    tokens = table(metrics.get("accumulated_token_usage"))
    found = {
        "input_tokens": count(tokens.get("prompt_tokens")),
        "output_tokens": count(tokens.get("completion_tokens")),
        "cached_tokens": count(tokens.get("cache_read_tokens")),
        "cost_usd": amount(metrics.get("accumulated_cost")),
    }
    told.usage.update({key: value for key, value in found.items() if value is not None})
