"""The events of ``opencode run --format json``."""

from __future__ import annotations

from pytest_rlenv.agents.command_line.readers.json_lines import events
from pytest_rlenv.agents.command_line.transcript import Transcript, count, table, words


def read(log: bytes, told: Transcript) -> None:
    """Read the log. A turn is what is between ``step_start`` and ``step_finish``."""
    for event in events(log):
        kind, part = event.get("type"), table(event.get("part"))
        told.session = told.session or words(event.get("sessionID"))
        if kind == "step_start":
            told.turn(at=event.get("timestamp"))
        elif kind == "text":
            told.text(part.get("text"))
        elif kind == "reasoning":
            told.reasoning(part.get("text"))
        elif kind == "tool_use":
            state = table(part.get("state"))
            call = part.get("callID") or part.get("id")
            told.call(call, part.get("tool"), state.get("input"))
            failed = state.get("error") is not None
            told.result(call, state["error"] if failed else state.get("output"), failed=failed)
        elif kind == "step_finish":
            tokens = table(part.get("tokens"))
            cached = count(table(tokens.get("cache")).get("read")) or 0
            told.metrics(
                (count(tokens.get("input")) or 0) + cached,
                (count(tokens.get("output")) or 0) + (count(tokens.get("reasoning")) or 0),
                cached,
                part.get("cost"),
            )
        elif kind == "error":
            error = table(event.get("error"))
            told.errors.append(words(table(error.get("data")).get("message") or error.get("name") or error))
