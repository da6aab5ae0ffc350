"""The events of ``goose run --output-format stream-json``."""

from __future__ import annotations

from typing import Any

from pytest_rlenv.agents.command_line.readers.json_lines import events
from pytest_rlenv.agents.command_line.transcript import Transcript, count, items, table, words


def read(log: bytes, told: Transcript) -> None:
    """Read the log. A message of the model comes in pieces that share an id."""
    current: object = None
    pieces: list[str] = []
    for event in events(log):
        message = table(event.get("message"))
        same = message.get("role") == "assistant" and message.get("id") in (current, None) and current
        if pieces and not same:
            told.text("".join(pieces))
            pieces = []
        if event.get("type") == "message":
            if message.get("role") == "assistant" and not same:
                told.turn(at=message.get("created"))
            current = message.get("id") or True if message.get("role") == "assistant" else None
            for part in items(message.get("content")):
                _part(part, told, pieces if message.get("role") == "assistant" else [])
        elif event.get("type") == "error":
            told.errors.append(words(event.get("error")))
        elif event.get("type") == "complete":
            _end(event, told)
    if pieces:
        told.text("".join(pieces))


def _part(part: dict[str, Any], told: Transcript, pieces: list[str]) -> None:
    kind = part.get("type")
    if kind == "text":
        pieces.append(words(part.get("text")))
    elif kind == "thinking":
        told.reasoning(part.get("thinking"))
    elif kind == "toolRequest":
        call = table(table(part.get("toolCall")).get("value"))
        told.call(part.get("id"), call.get("name"), call.get("arguments"))
    elif kind == "toolResponse":
        result = table(part.get("toolResult"))
        value = result.get("value")
        content = table(value).get("content", value)
        failed = result.get("status") == "error"
        told.result(part.get("id"), result.get("error") if failed else content, failed=failed)


def _end(event: dict[str, Any], told: Transcript) -> None:
    names = {"input_tokens": "input_tokens", "output_tokens": "output_tokens", "total_tokens": "total_tokens"}
    for key, name in names.items():
        if (value := count(event.get(name))) is not None:
            told.usage[key] = value
