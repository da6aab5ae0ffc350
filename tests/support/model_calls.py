"""A proxy before a scripted model, and a client that calls it as programs do."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from support.model_wires import CHAT, GOOGLE, MESSAGES, RESPONSES

from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.model_proxy.access import ModelAccess
from pytest_rlenv.model_proxy.proxy import ModelProxy
from pytest_rlenv.model_proxy.recording_places import RolloutName
from pytest_rlenv.settings import Settings

KEY = "real-key-of-the-provider"
NAME = RolloutName("org/repo", "task", "agent", 1)
PATH_OF = {CHAT: "/v1/chat/completions", RESPONSES: "/v1/responses", MESSAGES: "/v1/messages"}
TOOL_OF: dict[str, dict[str, Any]] = {
    CHAT: {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}},
    RESPONSES: {"type": "function", "name": "bash", "parameters": {"type": "object"}},
    MESSAGES: {"name": "bash", "input_schema": {"type": "object"}},
    GOOGLE: {"functionDeclarations": [{"name": "bash", "parameters": {"type": "object"}}]},
}
ASK = r"""
# ask PORT KEY PATH BODY, as a program in a box does that has nothing but bash
exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 7
LC_ALL=C
printf 'POST %s HTTP/1.1\r\nHost: model\r\nAuthorization: Bearer %s\r\nConnection: close\r\n' "$3" "$2" >&3
printf 'Content-Length: %s\r\n\r\n%s' "${#4}" "$4" >&3
cat <&3
"""
LIMIT = 20.0
"""Seconds after which a call that hangs has failed."""


@dataclass(frozen=True)
class Got:
    """An answer as a client gets it."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.data)
        return found

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = [line[5:].strip() for line in self.data.splitlines() if line.startswith(b"data:")]
        return [json.loads(line) for line in lines if line != b"[DONE]"]

    @property
    def code(self) -> str:
        """The code of an error, on any wire."""
        error = self.body["error"]
        return str(error.get("status") or error.get("code") or error["type"])


class Client:
    """Calls an endpoint over one connection, as an agent's program would."""

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self.endpoint = endpoint
        self.connection = http.client.HTTPConnection(
            urlsplit(endpoint.anthropic_base_url).netloc, timeout=LIMIT
        )

    def request(
        self, path: str, body: bytes | None, *, key: str | None = None, method: str = "POST", **headers: str
    ) -> Got:
        shown = self.endpoint.key if key is None else key
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named = {"Authorization": f"Bearer {shown}", "Content-Type": "application/json", **named}
        self.connection.request(method, path, body, named)
        answer = self.connection.getresponse()
        return Got(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())

    def ask(self, wire: str = CHAT, say: str = "hello", **more: Any) -> Got:
        """Say something to the model."""
        path = PATH_OF.get(wire)
        if path is None:
            method = "streamGenerateContent?alt=sse" if more.pop("stream", False) else "generateContent"
            path = f"/v1beta/models/what-the-program-thinks:{method}"
        return self.request(path, json.dumps(question(wire, say, **more)).encode())


def question(wire: str = CHAT, say: str = "hello", **more: Any) -> dict[str, Any]:
    if wire == GOOGLE:
        return {"contents": [{"role": "user", "parts": [{"text": say}]}], "tools": [TOOL_OF[wire]], **more}
    said: dict[str, Any] = {"input": say} if wire == RESPONSES else {}
    if wire != RESPONSES:
        said = {"messages": [{"role": "user", "content": say}]}
    return {"model": "what-the-program-thinks", "tools": [TOOL_OF[wire]], **said, **more}


def access_of(url: str, key: str = KEY, **settings: Any) -> ModelAccess:
    """Return the access of a run whose model is at a URL."""
    given = Settings(
        **{"model": "openai/gpt-test", "model_url": url, "model_key_env": "TEST_KEY", **settings}
    )
    return ModelAccess.of(given, {"TEST_KEY": key})


@contextmanager
def proxied(
    url: str, *, name: RolloutName = NAME, log: Path | None = None, hosted_tools: bool = True, **settings: Any
) -> Iterator[tuple[ModelProxy, Client]]:
    """Give a proxy that answers, and a client of it."""
    proxy = access_of(url, **settings).proxy(name, log)
    try:
        proxy.open_here()
        proxy.begin(hosted_tools=hosted_tools)
        client = Client(proxy.endpoint(from_box=False))
        try:
            yield proxy, client
        finally:
            client.connection.close()
    finally:
        proxy.close()
