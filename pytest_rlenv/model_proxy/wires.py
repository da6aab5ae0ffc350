"""The wires: which paths are served, in whose form, and how an error looks there."""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Any, NamedTuple


class Wire(str, Enum):
    """A way to speak to a model."""

    CHAT = "chat"
    """OpenAI's chat completions, which nearly every provider speaks."""
    RESPONSES = "responses"
    """OpenAI's responses."""
    MESSAGES = "messages"
    """Anthropic's messages."""
    GOOGLE = "google"
    """Google's ``generateContent``."""


class Route(NamedTuple):
    """What a path is for.

    Attributes:
        wire: whose form its errors have.
        method: the only one that is served.
        counts: True for a request that the model answers; else it is about the model and takes no tokens.
        events: True for one that is answered in events whatever its body says.
    """

    wire: Wire
    method: str
    counts: bool
    events: bool = False


class Found(NamedTuple):
    """A path that is served.

    Attributes:
        path: it, below the base URL; ``{model}`` stands for the model's name, where that is in it.
        route: what it is for.
        model: the name that is in it; empty for none.
    """

    path: str
    route: Route
    model: str = ""


MAY_CALL = "/rlenv/budget"
"""Says whether a call would be passed on: for who can end an agent before one of its calls is refused."""

_ROUTES = {
    "/chat/completions": Route(Wire.CHAT, "POST", True),
    "/responses": Route(Wire.RESPONSES, "POST", True),
    "/messages": Route(Wire.MESSAGES, "POST", True),
    "/messages/count_tokens": Route(Wire.MESSAGES, "POST", False),
    "/models": Route(Wire.CHAT, "GET", False),
    MAY_CALL: Route(Wire.CHAT, "GET", False),
}
_VERSION = "/v1"
_GOOGLE = re.compile(r"/v1(?:beta|alpha)?/models/(?P<model>[^/:]+):(?P<method>\w+)")
_GOOGLE_ROUTES = {
    "generateContent": Route(Wire.GOOGLE, "POST", True),
    "streamGenerateContent": Route(Wire.GOOGLE, "POST", True, events=True),
    "countTokens": Route(Wire.GOOGLE, "POST", False),
}

BUDGET, REPLAY, KEY, UNREACHABLE, CLOSED, REFUSED = (
    "rlenv_budget",
    "rlenv_replay",
    "rlenv_key",
    "rlenv_unreachable",
    "rlenv_closed",
    "rlenv_refused",
)
"""Codes of our own errors, which no provider uses."""


def route_of(path: str) -> Found | None:
    """Return what a request's path is for; ``None`` for one that is not served.

    Nothing else of the provider is reached with its key: no files, no other people's responses.
    """
    plain = path.partition("?")[0].rstrip("/")
    if (match := _GOOGLE.fullmatch(plain)) and match["method"] in _GOOGLE_ROUTES:
        method = match["method"]
        return Found(f"/models/{{model}}:{method}", _GOOGLE_ROUTES[method], match["model"])
    below = plain.removeprefix(_VERSION)
    return Found(below, _ROUTES[below]) if below in _ROUTES else None


def wire_of(path: str) -> Wire:
    """Return the form in which whoever asks for a path expects its errors."""
    if _GOOGLE.match(path):
        return Wire.GOOGLE
    return Wire.MESSAGES if "/messages" in path else Wire.CHAT


def error_body(wire: Wire, status: int, code: str, message: str) -> bytes:
    """Return an error as a provider would say it on this wire."""
    if wire is Wire.GOOGLE:
        return json.dumps({"error": {"code": status, "message": message, "status": code}}).encode()
    error: dict[str, Any] = {"type": code, "message": message}
    if wire is Wire.MESSAGES:
        return json.dumps({"type": "error", "error": error}).encode()
    return json.dumps({"error": {**error, "code": code, "param": None}}).encode()
