"""What can be read from a model's answer on each wire: tokens, whether it refused, whether it broke off."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_rlenv.model_proxy.events import Event
from pytest_rlenv.model_proxy.wires import Wire

_GOOGLE_REFUSALS = ("SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII")


@dataclass(frozen=True)
class Tokens:
    """What one answer took.

    Attributes:
        input: tokens sent, those read from a cache included.
        output: tokens that came back, reasoning included.
        cached: those of the input that the provider read from its cache.
        cost: US dollars, where the provider tells.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    cost: float | None = None


class AnswerReader:
    """Reads one answer, whole or event by event.

    Args:
        wire: whose form it has.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._usage: dict[str, Any] = {}
        self.refused = False
        """True if the model, or its provider's filter, would not answer."""
        self.ended = False
        """True once an answer in events is complete."""
        self.error: tuple[str, str] | None = None
        """Code and message of an error that came in the place of an answer, or in the middle of one."""
        self.error_status = 0
        """The HTTP status that such an error should have had, if it says so."""

    @property
    def tokens(self) -> Tokens | None:
        """What it took; ``None`` if it does not say."""
        return _tokens(self._wire, self._usage) if self._usage else None

    def whole(self, body: Mapping[str, Any]) -> None:
        """Read an answer that came in one piece."""
        self._take_usage(body.get("usage"))
        self._take_error(body)
        if self._wire is Wire.CHAT:
            self._read_choices(body)
        elif self._wire is Wire.RESPONSES:
            self._read_response(body)
        elif self._wire is Wire.GOOGLE:
            self._read_candidates(body)
        else:
            self.refused |= body.get("stop_reason") == "refusal"
        self.ended = True

    def event(self, event: Event) -> None:
        """Read one of the events that an answer comes in."""
        self.ended |= event.done
        data = event.data
        if data is None:
            return
        self._take_error(data)
        if self._wire is Wire.CHAT:
            self._take_usage(data.get("usage"))
            self._read_choices(data)
        elif self._wire is Wire.RESPONSES:
            self._read_response_event(data)
        elif self._wire is Wire.GOOGLE:
            self._read_candidates(data)
        else:
            self._read_message_event(data)

    def _take_error(self, body: Mapping[str, Any]) -> None:
        """Take note of an error that came with a good status, as those of gateways do."""
        if not body.get("error"):
            return
        self.error = error_of(body)
        code = _table(body["error"]).get("code")
        self.error_status = code if type(code) is int and 400 <= code < 600 else 0

    def _take_usage(self, usage: object) -> None:
        if isinstance(usage, Mapping):  # a later one corrects an earlier one
            self._usage |= {key: value for key, value in usage.items() if value is not None}

    def _read_choices(self, body: Mapping[str, Any]) -> None:
        for choice in _list(body.get("choices")):
            message = _table(choice.get("message") or choice.get("delta"))
            if choice.get("finish_reason") == "content_filter" or message.get("refusal"):
                self.refused = True
            # some servers end without [DONE]
            self.ended |= choice.get("finish_reason") is not None

    def _read_candidates(self, body: Mapping[str, Any]) -> None:
        self._take_usage(body.get("usageMetadata"))
        if _table(body.get("promptFeedback")).get("blockReason"):
            self.refused = self.ended = True
        for candidate in _list(body.get("candidates")):
            reason = candidate.get("finishReason")
            self.refused |= reason in _GOOGLE_REFUSALS
            self.ended |= reason is not None

    def _read_response(self, response: Mapping[str, Any]) -> None:
        details = _table(response.get("incomplete_details"))
        self.refused |= details.get("reason") == "content_filter"
        for item in _list(response.get("output")):
            self.refused |= any(part.get("type") == "refusal" for part in _list(item.get("content")))
        if response.get("status") == "failed":
            self.error = error_of(response)

    def _read_response_event(self, data: Mapping[str, Any]) -> None:
        kind = str(data.get("type"))
        if kind == "error":
            self.error = (str(data.get("code") or ""), str(data.get("message") or ""))
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            response = _table(data.get("response"))
            self._take_usage(response.get("usage"))
            self._read_response(response)
            self.ended = True

    def _read_message_event(self, data: Mapping[str, Any]) -> None:
        kind = data.get("type")
        if kind == "message_start":
            self._take_usage(_table(data.get("message")).get("usage"))
        elif kind == "message_delta":
            self._take_usage(data.get("usage"))
            self.refused |= _table(data.get("delta")).get("stop_reason") == "refusal"
        self.ended |= kind == "message_stop"


def is_answer(wire: Wire, body: Mapping[str, Any]) -> bool:
    """Return whether a body has what a model said: some servers send an empty one instead of an error."""
    if wire is Wire.GOOGLE:
        return bool(body.get("candidates") or body.get("promptFeedback"))
    if wire is Wire.CHAT:
        return bool(_list(body.get("choices")))
    return isinstance(body.get("output" if wire is Wire.RESPONSES else "content"), list)


def error_of(body: object) -> tuple[str, str]:
    """Return code and message of an error as providers give it; empty where there is none."""
    if isinstance(body, list) and body:  # as one of Google's
        body = body[0]
    error = body.get("error") if isinstance(body, Mapping) else None
    if isinstance(error, Mapping):
        code = error.get("code")
        code = code if isinstance(code, str) and code else error.get("type") or error.get("status") or ""
        return str(code), str(error.get("message") or "")
    if isinstance(error, str):
        return "", error
    if isinstance(body, Mapping):
        found = body.get("message") or body.get("detail") or ""
        return "", found if isinstance(found, str) else json.dumps(found)
    return "", ""


def _tokens(wire: Wire, usage: Mapping[str, Any]) -> Tokens:
    cost = usage.get("cost")
    known = isinstance(cost, (int, float)) and not isinstance(cost, bool) and 0 <= cost < math.inf
    if wire is Wire.MESSAGES:
        cached = _count(usage, "cache_read_input_tokens")
        fresh = _count(usage, "input_tokens") + _count(usage, "cache_creation_input_tokens")
        return Tokens(fresh + cached, _count(usage, "output_tokens"), cached, cost if known else None)
    if wire is Wire.GOOGLE:
        return Tokens(
            _count(usage, "promptTokenCount") + _count(usage, "toolUsePromptTokenCount"),
            _count(usage, "candidatesTokenCount") + _count(usage, "thoughtsTokenCount"),
            _count(usage, "cachedContentTokenCount"),
        )
    sent, back = ("prompt", "completion") if wire is Wire.CHAT else ("input", "output")
    details = usage.get(f"{sent}_tokens_details")
    cached = _count(details, "cached_tokens") if isinstance(details, Mapping) else 0
    return Tokens(
        _count(usage, f"{sent}_tokens"),
        _count(usage, f"{back}_tokens"),
        cached or _count(usage, "prompt_cache_hit_tokens"),
        cost if known else None,
    )


def _count(table: Mapping[str, Any], key: str) -> int:
    value = table.get(key)
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2**53
    return int(value) if number and value is not None else 0


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
