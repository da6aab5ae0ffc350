"""What passes between a program and a provider on each wire, and what of it is counted."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.boxes import together
from support.model_calls import KEY, NAME, Client, Got, proxied, question
from support.scripted_model import CHAT, GOOGLE, MESSAGES, RESPONSES, Reply, ScriptedModel, ToolCall, use

from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.model_proxy.access import ModelAccess
from pytest_rlenv.model_proxy.ledger import Usage, read_calls
from pytest_rlenv.model_proxy.proxy import ModelProxy
from pytest_rlenv.settings import Settings

WIRES = (CHAT, RESPONSES, MESSAGES, GOOGLE)
TWO = Reply("I look.", (ToolCall("bash", {"command": "ls -la /app"}), ToolCall("bash", {"command": "pwd"})))


def served(
    model: ScriptedModel, wire: str, **settings: Any
) -> AbstractContextManager[tuple[ModelProxy, Client]]:
    """Give a proxy before a model whose provider speaks a wire."""
    if wire == GOOGLE:
        return proxied(model.google_url, model="google/gpt-test", **settings)
    return proxied(model.url, **settings)


def tools_in(wire: str, got: Got, *, stream: bool) -> list[tuple[str, dict[str, Any]]]:
    """Return the tools that an answer uses, put together as a client does."""
    if wire == CHAT and stream:
        calls: dict[int, list[str]] = {}
        for event in got.events:
            for choice in event["choices"]:
                for part in choice["delta"].get("tool_calls", ()):
                    call = calls.setdefault(part["index"], ["", ""])
                    call[0] += part["function"].get("name", "")
                    call[1] += part["function"].get("arguments", "")
        return [(name, json.loads(arguments)) for name, arguments in calls.values()]
    if wire == CHAT:
        found = got.body["choices"][0]["message"].get("tool_calls", ())
        return [(each["function"]["name"], json.loads(each["function"]["arguments"])) for each in found]
    if wire == RESPONSES:
        whole = got.events[-1]["response"] if stream else got.body
        items = [item for item in whole["output"] if item["type"] == "function_call"]
        return [(item["name"], json.loads(item["arguments"])) for item in items]
    if wire == GOOGLE:
        bodies = got.events if stream else [got.body]
        parts = [part for body in bodies for part in body["candidates"][0]["content"]["parts"]]
        found = [part["functionCall"] for part in parts if "functionCall" in part]
        return [(each["name"], each["args"]) for each in found]
    if not stream:
        return [(each["name"], each["input"]) for each in got.body["content"] if each["type"] == "tool_use"]
    blocks: dict[int, list[str]] = {}
    for event in got.events:
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            blocks[event["index"]] = [event["content_block"]["name"], ""]
        if event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            blocks[event["index"]][1] += event["delta"]["partial_json"]
    return [(name, json.loads(arguments)) for name, arguments in blocks.values()]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("wire", WIRES)
def test_tools_pass_and_tokens_are_counted(wire: str, stream: bool) -> None:
    told = Reply(TWO.text, TWO.tools, input_tokens=1000, output_tokens=50, cached_tokens=600)
    with (
        ScriptedModel([told, "done"]) as model,
        served(model, wire, model_price="2/10/0.5") as (proxy, client),
    ):
        got = client.ask(wire, "look around", stream=stream)
        assert got.status == 200
        assert tools_in(wire, got, stream=stream) == [(each.name, each.arguments) for each in TWO.tools]
        assert client.ask(wire, "go on", stream=stream).status == 200
        turn = proxy.take_turn()
    assert turn.usage.as_record() == {
        "model_calls": 2,
        "input_tokens": 1100,
        "output_tokens": 70,
        "cached_tokens": 600,
        "cost_usd": pytest.approx((400 * 2 + 600 * 0.5 + 50 * 10 + 100 * 2 + 20 * 10) / 1e6),
    }
    assert turn.failure("agent") is None
    assert turn.stop() is None
    assert [call.wire for call in turn.all] == [wire, wire]


@pytest.mark.parametrize("wire", WIRES)
def test_the_provider_sees_the_real_key_and_the_runs_model_and_the_program_neither(wire: str) -> None:
    with ScriptedModel(["hi"], key=KEY) as model, served(model, wire) as (proxy, client):
        assert client.ask(wire, anthropic_thing=1).status == 200
        (seen,) = model.requests
        assert client.endpoint.key not in str(seen)
        assert KEY not in repr(client.endpoint) + repr(proxy.endpoint(from_box=False))
        assert seen.body["model"] == "gpt-test"
        assert seen.body["anthropic_thing"] == 1
        assert seen.body["tools"] == question(wire)["tools"]
        (call,) = proxy.take_turn().all
        assert call.asked_for == "what-the-program-thinks"


def test_on_anthropics_wire_the_key_may_come_and_go_in_its_own_header() -> None:
    with ScriptedModel(["hi"], key=KEY) as model:
        given = Settings(model="anthropic/claude-test", model_url=model.url)
        proxy = ModelAccess.of(given, {"ANTHROPIC_API_KEY": KEY}).proxy(NAME)
        try:
            proxy.open_here()
            proxy.begin(hosted_tools=True)
            client = Client(proxy.endpoint(from_box=False))
            body = json.dumps(question(MESSAGES)).encode()
            got = client.request("/v1/messages", body, key="", x_api_key=client.endpoint.key)
            client.connection.close()
        finally:
            proxy.close()
        assert got.status == 200
        assert model.requests[0].headers["x-api-key"] == KEY
        assert "authorization" not in model.requests[0].headers


@pytest.mark.parametrize("asked", [None, {"include_usage": True}, {"include_usage": False}])
def test_usage_in_events_is_counted_whether_or_not_the_program_wants_to_see_it(asked: Any) -> None:
    more = {} if asked is None else {"stream_options": asked}
    with ScriptedModel(["hi"]) as model, proxied(model.url) as (proxy, client):
        got = client.ask(stream=True, **more)
        shown = [event for event in got.events if event.get("usage")]
        assert bool(shown) == bool(asked and asked["include_usage"])
        assert got.data.endswith(b"data: [DONE]\n\n")
        assert proxy.take_turn().usage.input_tokens == 100


def test_events_pass_as_they_come() -> None:
    second = threading.Event()
    with (
        ScriptedModel(["a long answer"], before_event=lambda n: n < 2 or second.wait(20)) as model,
        proxied(model.url) as (_, client),
    ):
        body = json.dumps(question(stream=True))
        headers = {"Authorization": f"Bearer {client.endpoint.key}"}
        client.connection.request("POST", "/v1/chat/completions", body, headers)
        answer = client.connection.getresponse()
        first = answer.readline()
        assert json.loads(first[5:])["choices"][0]["delta"]["role"] == "assistant"
        second.set()
        assert answer.read().endswith(b"[DONE]\n\n")


def test_a_cost_that_the_provider_tells_comes_before_the_users_prices() -> None:
    replies = [Reply("x", cost=0.25), "y"]
    with ScriptedModel(replies) as model, proxied(model.url, model_price="1/1") as (proxy, client):
        client.ask()
        client.ask()
        assert proxy.take_turn().usage.cost_usd == pytest.approx(0.25 + 120 / 1e6)


def test_cost_is_unknown_where_nobody_says_it() -> None:
    with ScriptedModel(["x"]) as model, proxied(model.url) as (proxy, client):
        client.ask()
        assert "cost_usd" not in proxy.take_turn().usage.as_record()


def test_what_is_about_the_model_passes_and_counts_for_nothing() -> None:
    with ScriptedModel([]) as model, proxied(model.url) as (proxy, client):
        listed = client.request("/v1/models", None, method="GET")
        assert [each["id"] for each in listed.body["data"]] == ["gpt-test"]
        counted = client.request("/v1/messages/count_tokens", json.dumps(question(MESSAGES)).encode())
        assert counted.body == {"input_tokens": 42}
        turn = proxy.take_turn()
        assert turn.usage.calls == 0
        assert [call.counts for call in turn.all] == [False]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("POST", "/v1/files", 404, "rlenv_refused"),
        ("GET", "/v1/files/secret", 404, "rlenv_refused"),
        ("POST", "/v1/chat/completions/../../files", 404, "rlenv_refused"),
        ("GET", "/v1/chat/completions", 405, "rlenv_refused"),
        ("DELETE", "/v1/models", 405, "rlenv_refused"),
        ("POST", "/v1beta/files", 404, "rlenv_refused"),
        ("POST", "/v1beta/models/x:embedContent", 404, "rlenv_refused"),
        ("POST", "/v1beta/models/x/../../files:generateContent", 404, "rlenv_refused"),
    ],
)
def test_nothing_else_of_the_provider_is_reached(method: str, path: str, status: int, code: str) -> None:
    with ScriptedModel([]) as model, proxied(model.url) as (proxy, client):
        got = client.request(path, b"{}" if method == "POST" else None, method=method)
        assert (got.status, got.code) == (status, code)
        assert not model.requests
        assert not proxy.take_turn().all


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"nul", b"[" * 100_000])
def test_a_request_that_is_no_object_is_refused_here(body: bytes) -> None:
    with ScriptedModel([]) as model, proxied(model.url) as (_, client):
        assert client.request("/v1/chat/completions", body).status == 400
        assert not model.requests


@pytest.mark.parametrize("key", ["", "sk-rlenv-of-another", KEY])
def test_only_the_rollouts_own_key_is_taken(key: str) -> None:
    with ScriptedModel([]) as model, proxied(model.url) as (_, client):
        got = client.request("/v1/chat/completions", b"{}", key=key)
        assert (got.status, got.code) == (401, "rlenv_key")
        assert not model.requests


def test_nothing_is_answered_before_the_agent_acts_and_after_it() -> None:
    with ScriptedModel(["x", "y"]) as model, proxied(model.url) as (proxy, client):
        assert client.ask().status == 200
        proxy.end()
        client.connection.close()
        got = client.ask()
        assert (got.status, got.code) == (403, "rlenv_closed")
        proxy.begin(hosted_tools=True)
        assert client.ask().status == 200
        assert model.calls == 2


def test_an_end_cuts_what_is_under_way() -> None:
    held = threading.Event()
    with (
        ScriptedModel(["x"], before_event=lambda n: n < 1 or held.wait(20)) as model,
        proxied(model.url) as (proxy, client),
    ):
        body = json.dumps(question(stream=True))
        client.connection.request(
            "POST", "/v1/chat/completions", body, {"Authorization": f"Bearer {client.endpoint.key}"}
        )
        answer = client.connection.getresponse()
        answer.readline()
        proxy.end()
        held.set()
        with pytest.raises((OSError, http.client.HTTPException)):
            answer.read()
        turn = proxy.take_turn()
        assert [call.end for call in turn.all] == ["cut"]
        assert dict(turn.notes())["model-usage-unknown"].startswith("1 of 1 calls did not say")


@pytest.mark.parametrize(
    ("wire", "tool"),
    [
        (RESPONSES, {"type": "web_search"}),
        (RESPONSES, {"type": "web_search_preview"}),
        (RESPONSES, {"type": "mcp", "server_url": "https://x.test"}),
        (RESPONSES, {"type": "code_interpreter", "container": {"type": "auto"}}),
        (MESSAGES, {"type": "web_search_20250305", "name": "web_search"}),
        (MESSAGES, {"type": "web_fetch_20250910", "name": "web_fetch"}),
        (GOOGLE, {"googleSearch": {}}),
        (GOOGLE, {"url_context": {}}),
    ],
)
def test_the_providers_own_tools_are_no_way_around_a_tasks_network(wire: str, tool: dict[str, Any]) -> None:
    own = question(wire)["tools"]
    with ScriptedModel(["x", "y"]) as model:
        with served(model, wire, hosted_tools=False) as (proxy, client):
            client.ask(wire, tools=[*own, tool])
            assert model.requests[0].body["tools"] == own
            ((code, text),) = proxy.take_turn().notes()
            assert code == "model-tools-removed"
            assert str(tool.get("type") or next(iter(tool))) in text
        with served(model, wire) as (_, client):
            client.ask(wire, tools=[*own, tool])
            assert model.requests[1].body["tools"] == [*own, tool]


def test_a_large_request_that_waits_for_leave_gets_it() -> None:
    with ScriptedModel(["x"]) as model, proxied(model.url) as (_, client):
        body = json.dumps(question(say="x" * 2_000_000)).encode()
        host, port = client.connection.host, client.connection.port
        with socket.create_connection((host, port), timeout=20) as raw:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
            head += f"Authorization: Bearer {client.endpoint.key}\r\nExpect: 100-continue\r\n\r\n"
            raw.sendall(head.encode())
            assert raw.recv(100).startswith(b"HTTP/1.1 100")
            raw.sendall(body)
            assert raw.recv(100).startswith(b"HTTP/1.1 200")
        assert len(str(model.requests[0].body)) > 2_000_000


@pytest.mark.parametrize("data", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01"])
def test_what_is_no_http_ends_its_connection_only(data: bytes) -> None:
    with ScriptedModel(["x"]) as model, proxied(model.url) as (_, client):
        with socket.create_connection((client.connection.host, client.connection.port), timeout=20) as raw:
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(4096):
                pass
        assert client.ask().status == 200


def test_many_at_once() -> None:
    said: dict[str, str] = {}

    def ask(endpoint: ModelEndpoint, word: str) -> None:
        client = Client(endpoint)
        said[word] = client.ask(say=word).body["choices"][0]["message"]["content"]
        client.connection.close()

    with (
        ScriptedModel(lambda seen: str(seen.body["messages"][0]["content"])) as model,
        proxied(model.url) as (proxy, client),
    ):
        together(*(partial(ask, client.endpoint, f"word {number}") for number in range(20)))
        assert len(said) == 20
        assert all(word == answer for word, answer in said.items())
        assert proxy.take_turn().usage.answered == 20


def test_each_call_leaves_a_line(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    with ScriptedModel([use("bash", command="ls")]) as model, proxied(model.url, log=log) as (_, client):
        client.ask()
    (line,) = [json.loads(each) for each in log.read_text().splitlines()]
    assert {**line, "seconds": 0} == {
        "call": 1,
        "wire": "chat",
        "end": "good",
        "status": 200,
        "seconds": 0,
        "input_tokens": 100,
        "output_tokens": 20,
        "cached_tokens": 0,
        "asked_for": "what-the-program-thinks",
    }


def test_what_was_called_can_be_read_again_from_a_killed_process(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    assert read_calls(log) == []
    with (
        ScriptedModel(lambda _: use("bash", command="ls")) as model,
        proxied(model.url, log=log, model_price="1/10") as (proxy, client),
    ):
        client.ask()
        client.ask(MESSAGES)
        usage = proxy.take_turn().usage
    with log.open("a") as file:
        file.write('{"call": 3, "wire": "ch')
    assert usage.cost_usd is not None
    assert Usage.of(read_calls(log)) == usage
