"""A conversation stays within its budget, and every call keeps its result."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_rlenv.agents.conversing.conversation import FILLED, LEFT_OUT, Conversation
from pytest_rlenv.agents.conversing.replies import Call, Reply, Usage


def replied(number: int, *, tokens: int | None = None) -> Reply:
    call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    return Reply(
        calls=(Call(f"c{number}", "bash", {}),),
        usage=Usage(input_tokens=tokens),
        message={"role": "assistant", "content": None, "tool_calls": [call]},
    )


def talk(*outputs: str) -> Conversation:
    conversation = Conversation(overhead=100)
    conversation.say("system", "s")
    conversation.say("user", "u")
    for number, output in enumerate(outputs):
        conversation.reply(replied(number))
        conversation.result(Call(f"c{number}", "bash", {}), output)
    return conversation


def outputs(conversation: Conversation) -> list[str]:
    return [message["content"] for message in conversation.messages if message["role"] == "tool"]


def test_nothing_is_left_out_while_there_is_room() -> None:
    conversation = talk("a" * 1000, "b" * 1000)
    assert conversation.fit(10_000) == 0
    assert outputs(conversation) == ["a" * 1000, "b" * 1000]


def test_the_oldest_outputs_go_first_and_some_room_is_made() -> None:
    conversation = talk(*(letter * 2000 for letter in "abcdef"))
    budget = conversation.tokens - 1
    left_out = conversation.fit(budget)
    assert 1 < left_out < 5
    assert outputs(conversation)[:left_out] == [LEFT_OUT] * left_out
    assert outputs(conversation)[left_out][0] == "abcdef"[left_out]
    assert conversation.tokens <= budget * FILLED


def test_what_came_back_last_stays() -> None:
    conversation = talk("a" * 2000, "b" * 2000)
    assert conversation.fit(10) == 1
    assert outputs(conversation) == [LEFT_OUT, "b" * 2000]
    assert conversation.fit(10) == 0, "there is nothing more to leave out"


def test_short_outputs_stay_since_leaving_them_out_saves_nothing() -> None:
    conversation = talk("ok", "a" * 2000, "b")
    assert conversation.fit(10) == 1
    assert outputs(conversation) == ["ok", LEFT_OUT, "b"]


@pytest.mark.parametrize(("counted", "low", "high"), [(900, 900, 1000), (1, 400, 600), (None, 550, 750)])
def test_the_servers_count_is_taken_within_reason(counted: int | None, low: int, high: int) -> None:
    conversation = Conversation()
    conversation.say("user", "x" * 2000)
    conversation.reply(replied(0, tokens=counted))
    assert low <= conversation.tokens <= high


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 3000), max_size=12), st.integers(1, 4000))
def test_every_call_keeps_one_result(sizes: list[int], budget: int) -> None:
    conversation = talk(*("x" * size for size in sizes))
    before = conversation.tokens
    left_out = conversation.fit(budget)
    assert outputs(conversation).count(LEFT_OUT) == left_out
    ids = [message["tool_call_id"] for message in conversation.messages if message["role"] == "tool"]
    assert ids == [f"c{number}" for number in range(len(sizes))]
    assert conversation.tokens < before or left_out == 0
