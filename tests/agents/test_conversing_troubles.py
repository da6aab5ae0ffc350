"""What each error of a model's server means, in the words of the providers that people use."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_rlenv.agents.conversing.troubles import BudgetUsedUp, Momentary, Refused, TooLong, trouble_of
from pytest_rlenv.agents.protocol import Stop
from pytest_rlenv.errors import Kind, ModelAccessDenied, ModelNotFound, ModelRequestInvalid


def said(message: str, code: str | None = None, **more: Any) -> str:
    return json.dumps({"error": {"message": message, "code": code, **more}})


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, said("Incorrect API key provided.", "invalid_api_key"), ModelAccessDenied),
        (403, said("Your project has no access to the model."), ModelAccessDenied),
        (402, said("Insufficient credits. Add more at the site."), ModelAccessDenied),
        (429, said("You exceeded your current quota.", "insufficient_quota"), ModelAccessDenied),
        (429, said("Rate limit reached for requests", "rate_limit_exceeded"), Momentary),
        (408, "", Momentary),
        (500, "<html>Internal Server Error</html>", Momentary),
        (503, said("The engine is currently overloaded"), Momentary),
        (529, said("Overloaded", type="overloaded_error"), Momentary),
        (502, said("no route", "rlenv_unreachable"), Momentary),
        (404, said("The model `x` does not exist", "model_not_found"), ModelNotFound),
        (404, "not found", ModelNotFound),
        (400, said("The model `x` does not exist"), ModelNotFound),
        (400, said("Unknown model: x"), ModelNotFound),
        (400, said("Maximum context length is 8192 tokens", "context_length_exceeded"), TooLong),
        (400, said("This model's maximum context length is 8192 tokens. However, ..."), TooLong),
        (400, said("prompt is too long: 210000 tokens > 200000 maximum"), TooLong),
        (400, said("Input length exceeds the maximum allowed token count"), TooLong),
        (400, said("the request exceeds the available context size (4096 tokens)"), TooLong),
        (413, "Request Entity Too Large", TooLong),
        (400, said("The response was filtered", "content_filter"), Refused),
        (400, said("Invalid value: 'foo'"), ModelRequestInvalid),
        (422, json.dumps({"detail": [{"msg": "field required"}]}), ModelRequestInvalid),
        (402, said("all 1000 tokens are used up", "rlenv_budget"), BudgetUsedUp),
        (409, said("not in the recording", "rlenv_replay"), ModelRequestInvalid),
        (401, said("not your key", "rlenv_key"), ModelRequestInvalid),
    ],
)
def test_an_error_means(status: int, body: str, kind: type[Exception]) -> None:
    trouble = trouble_of(status, body, {}, "p/m")
    assert type(trouble) is kind, trouble
    if isinstance(trouble, (ModelAccessDenied, ModelNotFound)):
        assert trouble.kind is Kind.CONFIG, "asking again would be in vain"
        assert trouble.hint
        assert "p/m" in trouble.message


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [("2", 2, 2), ("0.5", 0.5, 0.5), ("-3", 0, 0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0)],
)
def test_the_server_says_when_to_come_back(value: str, low: float, high: float) -> None:
    trouble = trouble_of(429, "", {"Retry-After": value}, "m")
    assert isinstance(trouble, Momentary)
    assert trouble.after is not None
    assert low <= trouble.after <= high


@pytest.mark.parametrize("value", ["", "soon", "99th of May"])
def test_a_time_that_is_none_is_no_time(value: str) -> None:
    trouble = trouble_of(503, "", {"Retry-After": value}, "m")
    assert isinstance(trouble, Momentary)
    assert trouble.after is None


@settings(max_examples=100, deadline=None)
@given(
    st.integers(400, 599),
    st.text(max_size=30) | st.recursive(st.none() | st.text(max_size=3), st.lists).map(json.dumps),
)
def test_any_error_means_something(status: int, body: str) -> None:
    assert isinstance(trouble_of(status, body, {}, "m"), Exception)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("the limit of 3 calls of the model is reached (--rlenv-max-turns)", Stop.TURN_LIMIT),
        ("the budget of 9 tokens is used up: 10 (--rlenv-max-tokens)", Stop.TOKEN_BUDGET),
        ("the budget of 1 USD is used up (--rlenv-max-rollout-cost)", Stop.COST_BUDGET),
    ],
)
def test_a_budget_is_told_by_its_option(message: str, kind: Stop) -> None:
    trouble = trouble_of(402, said(message, "rlenv_budget"), {}, "m")
    assert isinstance(trouble, BudgetUsedUp)
    assert trouble.kind is kind


def test_a_long_body_is_cut() -> None:
    trouble = trouble_of(400, "x" * 100_000, {}, "m")
    assert len(str(trouble)) < 1000
