"""Errors on the way to a model: what the program is told, and what they say of how its agent ended."""

from __future__ import annotations

import http.client
import socket
from pathlib import Path
from typing import Any

import pytest
from support.model_calls import KEY, proxied
from support.scripted_model import (
    CHAT,
    GOOGLE,
    MESSAGES,
    RESPONSES,
    Failure,
    Reply,
    ScriptedModel,
    context_exceeded,
)

from pytest_rlenv.agents.protocol import Stop
from pytest_rlenv.errors import (
    Kind,
    ModelAccessDenied,
    ModelNotFound,
    ModelRequestInvalid,
    ModelUnavailable,
    RlenvError,
    Stage,
)
from pytest_rlenv.model_proxy import exchange
from pytest_rlenv.model_proxy.answers import Tokens
from pytest_rlenv.model_proxy.call_under_way import CallUnderWay
from pytest_rlenv.model_proxy.endings import Turn
from pytest_rlenv.model_proxy.events import Event
from pytest_rlenv.model_proxy.failures import end_of
from pytest_rlenv.model_proxy.ledger import Call, End
from pytest_rlenv.model_proxy.requests import Asked
from pytest_rlenv.model_proxy.wires import Route, Wire


@pytest.mark.parametrize(
    ("status", "code", "message", "end"),
    [
        (401, "invalid_api_key", "Incorrect API key provided.", End.DENIED),
        (403, "", "forbidden", End.DENIED),
        (402, "", "Payment required", End.DENIED),
        (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", End.DENIED),
        (400, "invalid_request_error", "Your credit balance is too low to access the API.", End.DENIED),
        (429, "insufficient_quota", "You exceeded your current quota.", End.DENIED),
        (429, "rate_limit_exceeded", "Rate limit reached for requests", End.BUSY),
        (404, "model_not_found", "The model `x` does not exist", End.NOT_FOUND),
        (404, "", "<html>not found</html>", End.NOT_FOUND),
        (400, "invalid_model", "unknown model: x", End.NOT_FOUND),
        (400, "context_length_exceeded", "maximum context length is 8192 tokens", End.CONTEXT),
        (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", End.CONTEXT),
        (400, "", "The input token count (1100000) exceeds the maximum", End.CONTEXT),
        (413, "request_too_large", "Request exceeds the maximum size", End.CONTEXT),
        (400, "content_filter", "The response was filtered", End.REFUSED),
        (400, "content_policy_violation", "no", End.REFUSED),
        (400, "invalid_request_error", "Output blocked by content filtering policy", End.REFUSED),
        (400, "", "The response was filtered due to the prompt triggering our policy", End.REFUSED),
        (403, "", "Your chosen model requires moderation and your input was flagged", End.REFUSED),
        (403, "content_policy_violation", "no", End.REFUSED),
        (413, "rate_limit_exceeded", "Request too large: tokens per minute (TPM)", End.BUSY),
        (400, "invalid_request_error", "tools.0: unknown field", End.INVALID),
        (422, "", "messages: field required", End.INVALID),
        (500, "", "", End.BROKEN),
        (503, "", "overloaded", End.BROKEN),
        (529, "overloaded_error", "Overloaded", End.BROKEN),
        (408, "", "", End.BROKEN),
        (0, "overloaded_error", "Overloaded", End.BROKEN),
        (0, "context_length_exceeded", "", End.CONTEXT),
    ],
)
def test_what_a_providers_error_means(status: int, code: str, message: str, end: End) -> None:
    assert end_of(status, code, message) is end


@pytest.mark.parametrize("wire", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize("status", [400, 404, 429, 500, 529])
def test_a_providers_error_passes_as_it_is(wire: str, status: int) -> None:
    failure = Failure(status, "no such luck", retry_after="7")
    with ScriptedModel([failure]) as model, proxied(model.url) as (proxy, client):
        got = client.ask(wire, stream=True)
        assert (got.status, got.headers["retry-after"]) == (status, "7")
        assert got.body["error"]["message"] == "no such luck"
        (call,) = proxy.take_turn().all
        assert call.status == status
        assert "no such luck" in call.text


@pytest.mark.parametrize(
    ("replies", "error", "kind", "words"),
    [
        ([Failure(404, "no model x", "model_not_found")], ModelNotFound, Kind.CONFIG, "no such model"),
        ([Failure(429, "slow down")] * 2, ModelUnavailable, Kind.INFRA, "takes no more requests now"),
        (["fine", Failure(503, "down")], ModelUnavailable, Kind.INFRA, "2 calls, 1 of them answered"),
        ([Failure(0)], ModelUnavailable, Kind.INFRA, "the model's endpoint failed"),
        ([Failure(402, "pay first")], ModelAccessDenied, Kind.CONFIG, "refused the key: HTTP 402"),
        ([Failure(400, "unknown field")], ModelRequestInvalid, Kind.AGENT, "unknown field"),
    ],
)
def test_what_the_last_call_says_of_the_agent(
    replies: list[Any], error: type[RlenvError], kind: Kind, words: str
) -> None:
    with ScriptedModel(replies) as model, proxied(model.url) as (proxy, client):
        for _ in replies:
            client.ask()
        found = proxy.take_turn().failure("solver")
    assert type(found) is error
    assert found.kind is kind
    assert found.stage is Stage.AGENT
    assert "agent solver: " in found.message
    assert words in found.message
    assert found.hint


@pytest.mark.parametrize(
    "replies",
    [
        [Failure(503, "down"), "fine"],
        [Failure(429, "slow"), Failure(429, "slow"), "fine"],
        ["fine", Failure(400, "unknown field")],
    ],
)
def test_an_agent_that_got_over_it_is_judged(replies: list[Any]) -> None:
    with ScriptedModel(replies) as model, proxied(model.url) as (proxy, client):
        for _ in replies:
            client.ask()
        turn = proxy.take_turn()
    assert turn.failure("solver") is None
    assert turn.stop() is None


@pytest.mark.parametrize(
    ("reply", "stop"),
    [
        (context_exceeded(), Stop.CONTEXT_EXCEEDED),
        (Reply("I must not", stop="refusal"), Stop.REFUSAL),
        (Failure(400, "filtered", "content_filter"), Stop.REFUSAL),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", [CHAT, RESPONSES, MESSAGES, GOOGLE])
def test_limits_of_the_model_are_the_agents(wire: str, stream: bool, reply: Any, stop: Stop) -> None:
    if wire in (MESSAGES, GOOGLE) and isinstance(reply, Failure) and reply.code == "content_filter":
        reply = Reply("", stop="refusal")  # these wires have no such error
    named = {"model": "google/m"} if wire == GOOGLE else {}
    with (
        ScriptedModel([reply]) as model,
        proxied(model.google_url if named else model.url, **named) as (proxy, client),
    ):
        client.ask(wire, stream=stream)
        turn = proxy.take_turn()
    assert turn.failure("solver") is None
    found = turn.stop()
    assert found is not None
    assert found.stop is stop


def test_a_wrong_key_is_the_users_and_is_never_shown() -> None:
    with ScriptedModel(["x"], key="another") as model, proxied(model.url) as (proxy, client):
        got = client.ask()
        assert got.status == 401
        error = proxy.take_turn().failure("solver")
    assert isinstance(error, ModelAccessDenied)
    assert KEY not in error.message


def test_a_provider_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with proxied(f"http://127.0.0.1:{port}/v1") as (proxy, client):
        got = client.ask()
        assert (got.status, got.code) == (502, "rlenv_unreachable")
        assert "x-should-retry" not in got.headers
        error = proxy.take_turn().failure("solver")
    assert isinstance(error, ModelUnavailable)
    assert f"127.0.0.1:{port}" in error.message


def test_an_answer_that_breaks_off_breaks_off_for_the_program_too() -> None:
    def cut(number: int) -> None:
        if number == 2:
            raise OSError("the server dies")

    with ScriptedModel(["a long answer"], before_event=cut) as model, proxied(model.url) as (proxy, client):
        with pytest.raises((OSError, http.client.HTTPException)):
            client.ask(stream=True)
        client.connection.close()
        (call,) = proxy.take_turn().all
    assert call.end is End.BROKEN
    assert "broke off" in call.text


def test_what_is_no_answer_is_no_good_call() -> None:
    with (
        ScriptedModel(lambda _: Reply("x")) as model,
        proxied(f"{model.root}/v1/models?x=") as (proxy, client),
    ):
        client.ask()
        (call,) = proxy.take_turn().all
    assert call.end is not End.GOOD


@pytest.mark.parametrize(
    ("wire", "body", "end"),
    [
        (CHAT, {"error": {"code": 429, "message": "upstream rate limited"}}, End.BUSY),
        (CHAT, {"error": {"code": 401, "message": "no"}}, End.DENIED),
        (CHAT, {"error": {"message": "upstream failed"}}, End.BROKEN),
        (CHAT, {"error": "upstream failed"}, End.BROKEN),
        (CHAT, {"choices": []}, End.BROKEN),
        (CHAT, {}, End.BROKEN),
        (RESPONSES, {"status": "failed", "error": {"code": "server_error", "message": "x"}}, End.BROKEN),
        (RESPONSES, {"error": None}, End.BROKEN),
        (MESSAGES, {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, End.BROKEN),
        (MESSAGES, {"usage": {"input_tokens": 1}}, End.BROKEN),
        (GOOGLE, {"candidates": []}, End.BROKEN),
        (GOOGLE, {"error": {"code": 503, "status": "UNAVAILABLE", "message": "x"}}, End.BROKEN),
    ],
)
def test_an_error_with_a_good_status_is_one_all_the_same(wire: str, body: dict[str, Any], end: End) -> None:
    call = CallUnderWay("/x", Route(Wire(wire), "POST", True), Asked({}))
    call.status = 200
    call.read_whole(body)
    assert call.end is end
    assert call.text


@pytest.mark.parametrize("whole", [True, False])
def test_an_answer_that_fills_the_context(whole: bool) -> None:
    call = CallUnderWay("/messages", Route(Wire.MESSAGES, "POST", True), Asked({}))
    call.status = 200
    stop = {"stop_reason": "model_context_window_exceeded"}
    if whole:
        call.read_whole({"content": [], **stop})
    else:
        call.reader.event(Event(b"", {"type": "message_delta", "delta": stop}))
        call.take_end()
    assert call.end is End.CONTEXT
    turn = Turn((Call(Wire.MESSAGES, call.end, 200, tokens=Tokens(5, 5), text=call.text),))
    assert turn.usage.answered == 1
    found = turn.stop()
    assert found is not None
    assert found.stop is Stop.CONTEXT_EXCEEDED


def test_a_question_about_the_model_needs_no_answer_of_it() -> None:
    call = CallUnderWay("/messages/count_tokens", Route(Wire.MESSAGES, "POST", False), Asked({}))
    call.read_whole({"input_tokens": 7})
    assert call.end is End.GOOD


def test_a_filter_before_the_model_is_no_answer_whose_tokens_are_missed() -> None:
    with ScriptedModel([Failure(400, "x", "content_filter")]) as model, proxied(model.url) as (proxy, client):
        client.ask()
        turn = proxy.take_turn()
    assert turn.usage.answered == 0
    assert dict(turn.notes()) == {}


def test_a_key_that_a_provider_repeats_does_not_reach_the_agent(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    said = Failure(401, f"Incorrect API key provided: {KEY}", "invalid_api_key")
    with ScriptedModel([said]) as model, proxied(model.url, log=log) as (_, client):
        got = client.ask()
        assert got.code == "invalid_api_key"
        assert KEY.encode() not in got.data
        assert KEY not in log.read_text()  # while the agent acts: a killed process tidies nothing up


def test_an_answer_that_is_too_long_to_be_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(exchange, "MOST_ANSWER", 300)
    with ScriptedModel(lambda _: Reply("x" * 400)) as model:
        with proxied(model.url) as (proxy, client):
            assert (client.ask().status, client.ask(stream=True).status) == (502, 200)
            assert [call.end for call in proxy.take_turn().all] == [End.BROKEN, End.GOOD]
        with proxied(model.url, record=tmp_path) as (proxy, client):
            with pytest.raises((OSError, http.client.HTTPException)):
                client.ask(stream=True)
            client.connection.close()
            (call,) = proxy.take_turn().all
            assert call.text == "an answer is longer than 300 bytes"


@pytest.mark.parametrize(
    ("status", "waited", "failed"),
    [(0, 0.2, False), (0, 2.0, True), (200, 2.0, False), (200, 70.0, True)],
)
def test_an_agent_that_waited_in_vain_had_no_chance(status: int, waited: float, failed: bool) -> None:
    cut = Call(Wire.CHAT, End.CUT, status, waited=waited)
    error = Turn((cut,)).failure("a")
    assert isinstance(error, ModelUnavailable) == failed
    good = Call(Wire.CHAT, End.GOOD, 200, tokens=Tokens())
    assert Turn((good, cut)).failure("a") is None
    unknown = {"model-usage-unknown": "1 of 2 calls did not say what they took: not counted"}
    silent = {"model-silent": "the last call was broken off when nothing had come for 70 s"}
    assert dict(Turn((good, cut)).notes()) == unknown | (silent if waited == 70 else {})
    assert dict(Turn((cut, good)).notes()) == unknown


def test_calls_that_the_agent_itself_broke_off_say_nothing() -> None:
    good, cut = Call(Wire.CHAT, End.GOOD, 200), Call(Wire.CHAT, End.CUT)
    bad = Call(Wire.CHAT, End.BROKEN, text="down")
    assert Turn((good, cut)).failure("a") is None
    assert isinstance(Turn((bad, cut)).failure("a"), ModelUnavailable)
    assert Turn(()).failure("a") is None
    aside = Call(Wire.MESSAGES, End.BROKEN, counts=False)
    assert Turn((good, aside)).failure("a") is None
