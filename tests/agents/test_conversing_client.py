"""The model client against a real server: patience with what passes, one clear error for what does not."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from support.model_calls import proxied
from support.scripted_model import Failure, Reply, ScriptedModel, context_exceeded

import pytest_rlenv.agents.conversing.client as client_module
from pytest_rlenv.agents.conversing.client import ChatClient
from pytest_rlenv.agents.conversing.limits import Patience
from pytest_rlenv.agents.conversing.troubles import TooLong
from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.agents.protocol import AgentTimedOut
from pytest_rlenv.errors import Kind, ModelAccessDenied, ModelNotFound, ModelRequestInvalid, ModelUnavailable

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Take note of pauses instead of making them."""
    made: list[float] = []
    monkeypatch.setattr(client_module.time, "sleep", made.append)
    return made


def client(
    url: str, *, tries: int = 4, remaining: float | None = None, key: str = "k", longest: float = 60.0
) -> ChatClient:
    return ChatClient(
        ModelEndpoint(url, url, key, "the-model"),
        patience=Patience(tries=tries, longest=longest),
        reply_seconds=20.0,
        remaining=lambda: remaining,
    )


def test_what_is_sent_and_what_comes_back() -> None:
    with ScriptedModel(
        [Reply("hi", input_tokens=5, output_tokens=2, cached_tokens=1, cost=0.5)], key="k"
    ) as model:
        reply = client(model.url).ask(HELLO, [{"type": "function"}])
    assert reply.text == "hi"
    assert vars(reply.usage) == {"input_tokens": 5, "output_tokens": 2, "cached_tokens": 1, "cost_usd": 0.5}
    (seen,) = model.requests
    assert seen.body == {"model": "the-model", "messages": HELLO, "tools": [{"type": "function"}]}


@pytest.mark.parametrize("status", [429, 500, 503, 529, 0])
def test_what_passes_is_waited_for(status: int, pauses: list[float]) -> None:
    with ScriptedModel([Failure(status), Failure(status), "hi"]) as model:
        assert client(model.url).ask(HELLO, []).text == "hi"
    assert len(pauses) == 2
    assert pauses[0] <= 1.0 < pauses[1] <= 2.0, "each pause is longer"


def test_the_server_may_ask_for_more_time_but_not_for_any(pauses: list[float]) -> None:
    replies = [Failure(429, retry_after="7"), Failure(429, retry_after="3600"), "hi"]
    with ScriptedModel(replies) as model:
        client(model.url, longest=30.0).ask(HELLO, [])
    assert pauses == [7.0, 30.0]


def test_patience_ends(pauses: list[float]) -> None:
    with (
        ScriptedModel([Failure(503, "overloaded")] * 9) as model,
        pytest.raises(
            ModelUnavailable, match="did not answer, asked 4 times: HTTP 503: overloaded"
        ) as caught,
    ):
        client(model.url).ask(HELLO, [])
    assert model.calls == 4
    assert caught.value.kind is Kind.INFRA, "worth a retry of the rollout"


def test_no_pause_is_longer_than_the_agents_time(pauses: list[float]) -> None:
    with (
        ScriptedModel([Failure(429, retry_after="30")] * 9) as model,
        pytest.raises(ModelUnavailable, match="asked once"),
    ):
        client(model.url, remaining=10.0).ask(HELLO, [])
    assert pauses == []


@pytest.mark.parametrize(("answered", "tries"), [(0, 4), (1, 8)])
def test_a_provider_that_was_never_there_is_not_waited_for_as_long(
    answered: int, tries: int, pauses: list[float]
) -> None:
    with (
        ScriptedModel([*["hi"] * answered, *[Failure(0)] * 9]) as model,
        proxied(model.url) as (proxy, caller),
    ):
        asking = ChatClient(caller.endpoint, patience=Patience(), reply_seconds=9.0, remaining=lambda: None)
        for _ in range(answered):
            asking.ask(HELLO, [])
        with pytest.raises(ModelUnavailable, match=f"asked {tries} times"):
            asking.ask(HELLO, [])
        asking.close()
        assert len(proxy.take_turn().all) == answered + tries
    assert len(pauses) == tries - 1


def test_nobody_there(pauses: list[float]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    with pytest.raises(ModelUnavailable, match="Connection"):
        client(f"http://127.0.0.1:{port}/v1").ask(HELLO, [])
    assert len(pauses) == 3


@pytest.mark.parametrize(
    ("replies", "options", "error"),
    [
        ((), {"key": "other"}, ModelAccessDenied),
        ((), {"models": ["another"]}, ModelNotFound),
        ([Failure(400, "Invalid value")], {}, ModelRequestInvalid),
        ([context_exceeded()], {}, TooLong),
    ],
)
def test_what_does_not_pass_is_not_asked_again(
    replies: Any, options: dict[str, Any], error: type[Exception], pauses: list[float]
) -> None:
    with ScriptedModel(replies, **options) as model, pytest.raises(error):
        client(model.url).ask(HELLO, [])
    assert pauses == []


def test_the_machines_proxy_and_netrc_are_not_for_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with ScriptedModel(["hi"], key="k") as model:
        assert client(model.url).ask(HELLO, []).text == "hi"


# ---- servers that are not what they should be


class _Odd(BaseHTTPRequestHandler):
    answer: tuple[int, bytes] = (200, b"")
    gate: threading.Event | None = None

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.gate is not None:
            self.gate.wait(20)
        status, body = self.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Quiet(HTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is none of a test's business."""


class Odd:
    def __init__(self, status: int, body: bytes, gate: threading.Event | None = None) -> None:
        handler = type("Handler", (_Odd,), {"answer": (status, body), "gate": gate})
        self.server = _Quiet(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def odd() -> Iterator[Any]:
    made: list[Odd] = []

    def make(*args: Any) -> str:
        made.append(Odd(*args))
        return made[-1].url

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize(
    ("body", "error", "again"),
    [
        (b"<html>welcome</html>", ModelUnavailable, False),
        (b"{}", ModelUnavailable, False),
        (b'{"choices": []}', ModelUnavailable, False),
        (b"\xff\xfe", ModelUnavailable, False),
        (json.dumps({"error": {"code": 404, "message": "no such model"}}).encode(), ModelNotFound, False),
        (json.dumps({"error": {"code": 401, "message": "no"}}).encode(), ModelAccessDenied, False),
        (json.dumps({"error": {"message": "upstream failed"}}).encode(), ModelUnavailable, True),
        (json.dumps({"error": "upstream failed"}).encode(), ModelUnavailable, True),
    ],
)
def test_an_answer_that_is_no_completion(
    body: bytes, error: type[Exception], again: bool, odd: Any, pauses: list[float]
) -> None:
    with pytest.raises(error):
        client(odd(200, body)).ask(HELLO, [])
    assert bool(pauses) == again


def test_a_model_that_thinks_until_the_agents_time_is_up(odd: Any) -> None:
    gate = threading.Event()
    left = iter([0.05, 0.0, 0.0])
    asking = ChatClient(
        ModelEndpoint(odd(200, b"", gate), "", "k", "m"),
        patience=Patience(),
        reply_seconds=20.0,
        remaining=lambda: next(left),
    )
    try:
        with pytest.raises(AgentTimedOut):
            asking.ask(HELLO, [])
    finally:
        gate.set()
