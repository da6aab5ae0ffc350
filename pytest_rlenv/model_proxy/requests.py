"""What of a request is changed on its way to the provider, and what is kept from it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_rlenv.model_proxy.wires import Found, Wire

_NOT_PASSED = frozenset(
    {
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "cookie",
        "expect",
        "forwarded",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
        "x-api-key",
        "x-goog-api-key",
    }
)
_HOSTED = ("web_search", "web_fetch", "file_search", "code_interpreter", "code_execution", "mcp")
_HOSTED_OF_GOOGLE = re.compile(r"google_?search|url_?context|code_?execution|computer_?use", re.IGNORECASE)
_HOSTED_KEYS = ("web_search_options", "plugins", "mcp_servers")
_STREAM_OPTIONS, _WITH_USAGE = "stream_options", "include_usage"


class NotJson(Exception):
    """The body of a request is no JSON object."""


@dataclass(frozen=True)
class Asked:
    """A request as it goes to the provider.

    Attributes:
        body: what is sent.
        stream: True if the answer comes in events.
        usage_added: True if the event with the usage was not asked for by the client, so that it gets none.
        model: the model that the client asked for.
        removed: tools of the provider that were taken out.
        query: what of the request's query is passed on, with its question mark.
    """

    body: dict[str, Any]
    stream: bool = False
    usage_added: bool = False
    model: str = ""
    removed: tuple[str, ...] = ()
    query: str = ""


def prepare(found: Found, data: bytes, query: str, *, model: str, hosted_tools: bool) -> Asked:
    """Return what is sent in the place of a client's request.

    Args:
        found: what it is for.
        data: its body.
        query: its query.
        model: the run's model, which answers whatever the client asks for.
        hosted_tools: False takes out tools that the provider itself runs, and that reach the world.

    Raises:
        NotJson: the body is no JSON object.
    """
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise NotJson from None
    if not isinstance(body, dict):
        raise NotJson
    asked_model = found.model or str(body.get("model") or "")
    if not found.model:
        body["model"] = model
    removed = () if hosted_tools else _remove_hosted(body)
    stream = found.route.events or body.get("stream") is True
    usage_added = stream and found.route.wire is Wire.CHAT and _add_usage(body)
    # the one that Anthropic's clients add for what is not in its stable version
    passed = f"?{query}" if query == "beta=true" else "?alt=sse" if found.route.events else ""
    return Asked(body, stream, usage_added, asked_model, removed, passed)


def headers_to_send(headers: Mapping[str, str]) -> dict[str, str]:
    """Return a client's headers less those that are for us, and those with its key."""
    return {name: value for name, value in headers.items() if name not in _NOT_PASSED} | {
        "accept-encoding": "identity"  # what passes is read
    }


def _add_usage(body: dict[str, Any]) -> bool:
    """Ask for the event with the usage, without which tokens cannot be counted; False if it was."""
    options = body.get(_STREAM_OPTIONS)
    options = dict(options) if isinstance(options, dict) else {}
    if options.get(_WITH_USAGE):
        return False
    body[_STREAM_OPTIONS] = {**options, _WITH_USAGE: True}
    return True


def _remove_hosted(body: dict[str, Any]) -> tuple[str, ...]:
    removed = [key for key in _HOSTED_KEYS if body.pop(key, None)]
    tools = body.get("tools")
    if isinstance(tools, list):
        removed += [word for tool in tools for word in _take_out(tool)]
        kept = [tool for tool in tools if tool and not _is_hosted(tool)]
        if kept:
            body["tools"] = kept
        elif tools:
            del body["tools"]
            body.pop("tool_choice", None)
    return tuple(dict.fromkeys(removed))


def _take_out(tool: object) -> list[str]:
    """Return the words for what a tool has of the provider's own; Google's are keys, and taken out of it."""
    if not isinstance(tool, dict):
        return []
    if _is_hosted(tool):
        return [str(tool["type"])]
    keys = [key for key in tool if _HOSTED_OF_GOOGLE.match(key)]
    for key in keys:
        del tool[key]
    return keys


def _is_hosted(tool: object) -> bool:
    return isinstance(tool, dict) and str(tool.get("type") or "").startswith(_HOSTED)
