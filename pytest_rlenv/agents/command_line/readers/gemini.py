"""The events of ``gemini --output-format stream-json``."""

from __future__ import annotations

from typing import Any

from pytest_rlenv.agents.command_line.readers.json_lines import events
from pytest_rlenv.agents.command_line.transcript import Transcript, count, table, words


def read(log: bytes, told: Transcript) -> None:
    """Read the log. What the model says comes in pieces; a piece after anything else begins a step."""
    pieces: list[str] = []
    for event in events(log):
        kind = event.get("type")
        if pieces and not _is_piece(event):
            told.text("".join(pieces))
            pieces = []
        if kind == "init":
            told.session = words(event.get("session_id"))
        elif _is_piece(event):
            if not pieces:
                told.turn(at=event.get("timestamp"))
            pieces.append(words(event.get("content")))
        elif kind == "tool_use":
            told.turn(at=event.get("timestamp"))
            told.call(event.get("tool_id"), event.get("tool_name"), event.get("parameters"))
        elif kind == "tool_result":
            failed = event.get("status") == "error"
            content = event.get("error") if failed else event.get("output")
            told.result(event.get("tool_id"), table(content).get("message", content), failed=failed)
        elif kind == "error":
            told.errors.append(words(event.get("message")))
        elif kind == "result":
            _end(event, told)
    if pieces:
        told.text("".join(pieces))


def _is_piece(event: dict[str, Any]) -> bool:
    return event.get("type") == "message" and event.get("role") == "assistant"


def _end(event: dict[str, Any], told: Transcript) -> None:
    stats = table(event.get("stats"))
    names = {"input_tokens": "input_tokens", "output_tokens": "output_tokens", "cached_tokens": "cached"}
    for key, name in names.items():
        if (value := count(stats.get(name))) is not None:
            told.usage[key] = value
    if event.get("status") == "error":
        told.errors.append(words(table(event.get("error")).get("message")))
