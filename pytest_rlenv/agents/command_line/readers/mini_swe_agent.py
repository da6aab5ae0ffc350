"""The trajectory file of mini-swe-agent, of its first and its second version."""

from __future__ import annotations

import json
import re
from typing import Any

from pytest_rlenv.agents.command_line.readers.json_lines import document
from pytest_rlenv.agents.command_line.transcript import Transcript, amount, count, items, table, words

_ACTION = re.compile(r"```(?:mswea_bash_command|bash)\s*\n(.*?)\n?```", re.DOTALL)


def read(log: bytes, told: Transcript) -> None:
    """Read the file. In the first version what a command printed comes back as a message of the user."""
    found = table(document(log))
    acted = False
    for message in items(found.get("messages")):
        role = message.get("role")
        at = table(message.get("extra")).get("timestamp") or message.get("timestamp")
        if role in ("assistant", None) and (role or message.get("object") == "response"):
            told.turn(at=at)
            _act(message, told)
            acted = True
        elif role in ("tool", "exit") or message.get("type") == "function_call_output":
            told.result(message.get("tool_call_id") or message.get("call_id"), _content(message))
        elif role == "user" and acted:
            told.result(None, _content(message))
        elif role in ("system", "user"):
            told.say("system" if role == "system" else "user", _content(message), at=at)
    _end(table(found.get("info")), told)


def _act(message: dict[str, Any], told: Transcript) -> None:
    told.text(_content(message) if message.get("role") else [_text(each) for each in _output(message)])
    told.reasoning(message.get("reasoning_content"))
    calls = [(call.get("id"), table(call.get("function"))) for call in items(message.get("tool_calls"))]
    calls += [(each.get("call_id"), each) for each in _output(message) if each.get("type") == "function_call"]
    for call_id, function in calls:
        told.call(call_id, function.get("name"), _arguments(function.get("arguments")))
    if not calls:
        for command in _ACTION.findall(_content(message)):
            told.call(None, "bash", {"command": command})
    _metrics(message, told)


def _output(message: dict[str, Any]) -> list[dict[str, Any]]:
    return items(message.get("output")) if message.get("object") == "response" else []


def _text(item: dict[str, Any]) -> str:
    return words(item.get("content")) if item.get("type") == "message" else ""


def _content(message: dict[str, Any]) -> str:
    return words(message.get("content", message.get("output")))


def _arguments(raw: object) -> object:
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw


def _metrics(message: dict[str, Any], told: Transcript) -> None:
    extra = table(message.get("extra"))
    usage = table(table(extra.get("response")).get("usage")) or table(message.get("usage"))
    if usage:
        details = table(usage.get("prompt_tokens_details") or usage.get("input_tokens_details"))
        told.metrics(
            usage.get("prompt_tokens", usage.get("input_tokens")),
            usage.get("completion_tokens", usage.get("output_tokens")),
            details.get("cached_tokens"),
            extra.get("cost"),
        )


def _end(info: dict[str, Any], told: Transcript) -> None:
    stats = table(info.get("model_stats"))
    found = {"cost_usd": amount(stats.get("instance_cost")), "turns": count(stats.get("api_calls"))}
    told.usage.update({key: value for key, value in found.items() if value is not None})
    status = words(info.get("exit_status"))
    if status and status not in ("Submitted", "LimitsExceeded"):
        told.errors.append(status)
