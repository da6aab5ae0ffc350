"""What a rollout may take of its model."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.model_calls import proxied
from support.scripted_model import CHAT, MESSAGES, RESPONSES, Failure, Reply, ScriptedModel

from pytest_rlenv.agents.protocol import Stop
from pytest_rlenv.rollout import Rollout
from pytest_rlenv.rollout_model import close_model


@pytest.mark.parametrize(
    ("limits", "calls", "stop", "words"),
    [
        ({"max_turns": 3}, 3, Stop.TURN_LIMIT, "limit of 3 calls .*--rlenv-max-turns"),
        (
            {"max_tokens": 240},
            2,
            Stop.TOKEN_BUDGET,
            "budget of 240 tokens is used up: 240 .*--rlenv-max-tokens",
        ),
        ({"max_tokens": 241}, 3, Stop.TOKEN_BUDGET, "360"),
        (
            {"max_rollout_cost": 0.001, "model_price": "2/10"},
            3,
            Stop.COST_BUDGET,
            r"0\.001 USD is used up: 0\.0012 USD .*--rlenv-max-rollout-cost",
        ),
    ],
)
@pytest.mark.parametrize("wire", [CHAT, RESPONSES, MESSAGES])
def test_a_budget_ends_an_agent_and_it_is_judged(
    wire: str, limits: dict[str, Any], calls: int, stop: Stop, words: str
) -> None:
    with ScriptedModel(lambda _: Reply("x")) as model, proxied(model.url, **limits) as (proxy, client):
        answers = [client.ask(wire, stream=True) for _ in range(calls + 2)]
        turn = proxy.take_turn()
    assert [each.status for each in answers] == [200] * calls + [402] * 2
    assert answers[-1].code == "rlenv_budget"
    assert answers[-1].headers["x-should-retry"] == "false"
    assert model.calls == calls
    assert turn.failure("solver") is None
    found = turn.stop()
    assert found is not None
    assert found.stop is stop
    assert re.search(words, found.text)
    assert turn.usage.answered == calls


def test_whoever_asks_first_whether_a_call_would_be_passed_on_need_not_make_it() -> None:
    path = "/v1/rlenv/budget"
    with ScriptedModel(lambda _: Reply("x")) as model, proxied(model.url, max_turns=1) as (proxy, client):
        before = client.request(path, None, method="GET")
        client.ask()
        after = client.request(path, None, method="GET")
        stranger = client.request(path, None, method="GET", key="sk-other")
        turn = proxy.take_turn()
        proxy.end()
    assert (before.status, after.status, stranger.status) == (200, 402, 401)
    assert after.code == "rlenv_budget"
    assert model.calls == 1
    assert turn.failure("solver") is None
    assert (found := turn.stop()) is not None
    assert found.stop is Stop.TURN_LIMIT
    assert turn.usage.calls == 1


def test_what_was_not_answered_is_no_turn() -> None:
    replies = [Failure(429, "slow"), "x", Failure(500, "no"), "y", "z"]
    with ScriptedModel(replies) as model, proxied(model.url, max_turns=2) as (_, client):
        assert [client.ask().status for _ in range(5)] == [429, 200, 500, 200, 402]


def test_a_budget_is_a_rollouts_own() -> None:
    with ScriptedModel(lambda _: Reply("x")) as model:
        for _ in range(2):
            with proxied(model.url, max_turns=1) as (_, client):
                assert [client.ask().status for _ in range(2)] == [200, 402]


def test_a_budget_holds_over_all_turns_of_a_rollout() -> None:
    with ScriptedModel(lambda _: Reply("x")) as model, proxied(model.url, max_turns=2) as (proxy, client):
        assert client.ask().status == 200
        assert proxy.take_turn().usage.calls == 1
        assert [client.ask().status for _ in range(2)] == [200, 402]
        second = proxy.take_turn()
        assert second.usage.answered == 1
        assert second.stop() is not None


def test_a_call_that_ends_after_its_agent_is_paid_for_all_the_same() -> None:
    rollout = Rollout(environment="e", framework="harbor", task="t", agent="a")
    rollout.usage = {"turns": 1, "input_tokens": 5}
    with ScriptedModel(["x"]) as model, proxied(model.url, model_price="1/10") as (proxy, client):
        client.ask()
        close_model(proxy, rollout)
    assert rollout.usage["input_tokens"] == 105
    assert rollout.usage["cost_usd"] == pytest.approx(0.0003)
    assert rollout.usage["turns"] == 1
