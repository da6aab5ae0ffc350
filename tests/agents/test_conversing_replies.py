"""Chat completions of all sorts, as the harness takes them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from pytest_rlenv.agents.conversing.replies import Reply, Unreadable, Usage, parse_reply


def answer(message: Any, end: str = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": end}], **more}


def call(name: str = "bash", arguments: Any = '{"command": "ls"}', id_: Any = "c1") -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("message", "end", "field", "expected"),
    [
        ({"content": "hello"}, "stop", "text", "hello"),
        ({"content": None}, "stop", "text", ""),
        ({}, "stop", "text", ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "stop", "text", "a\nb"),
        ({"content": "x\x1b[31m\0y"}, "stop", "text", "x\ufffdy"),
        ({"content": "", "reasoning_content": "hm"}, "stop", "reasoning", "hm"),
        ({"content": "", "reasoning": "hm"}, "stop", "reasoning", "hm"),
        ({"content": None, "refusal": "I cannot"}, "stop", "refusal", "I cannot"),
        ({"content": "no"}, "content_filter", "refusal", "no"),
        ({"content": ""}, "content_filter", "refusal", "the provider's content filter"),
        ({"content": "", "tool_calls": [call()]}, "content_filter", "refusal", None),
        ({"content": "half"}, "length", "is_cut", True),
        ({"content": "whole"}, "stop", "is_cut", False),
    ],
)
def test_a_message_is_read(message: Any, end: str, field: str, expected: Any) -> None:
    assert getattr(parse_reply(answer(message, end), 1), field) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"command": "ls"}', {"command": "ls"}),
        ({"command": "ls"}, {"command": "ls"}),
        ("", {}),
        ("{", None),
        ("[1]", None),
        ("NaN", None),
        ('{"timeout": NaN}', None),
        ('{"command": "\\ud800"}', {"command": "?"}),
        ('{"command": "a\\r\\u001b[0mb"}', {"command": "a\r\x1b[0mb"}),
        (None, None),
    ],
)
def test_arguments_are_an_object_or_nothing(arguments: Any, expected: Any) -> None:
    reply = parse_reply(answer({"tool_calls": [call(arguments=arguments)]}), 1)
    assert reply.calls[0].arguments == expected
    sent_back = reply.message["tool_calls"][0]["function"]["arguments"]
    assert isinstance(json.loads(sent_back), dict), "a server would refuse anything else"


def test_calls_without_ids_of_their_own_get_some() -> None:
    calls = [call(id_=""), call(id_=None), call(id_="x"), call(id_="x"), "no call", {"function": 3}]
    reply = parse_reply(answer({"tool_calls": calls}), 7)
    assert [each.id for each in reply.calls] == ["call_7_0", "call_7_1", "x", "call_7_3"]
    assert [each["id"] for each in reply.message["tool_calls"]] == ["call_7_0", "call_7_1", "x", "call_7_3"]


def test_what_is_sent_back_is_what_servers_take() -> None:
    message = {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "annotations": [],
        "reasoning_details": [{"data": "x"}],
        "tool_calls": [call()],
    }
    back = parse_reply(answer(message), 1).message
    assert set(back) == {"role", "content", "tool_calls", "reasoning_details"}
    assert back["content"] is None
    assert parse_reply(answer({"content": None}), 1).message == {"role": "assistant", "content": ""}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, Usage()),
        ({"prompt_tokens": 5, "completion_tokens": 7}, Usage(5, 7)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 3}}, Usage(5, None, 3)),
        ({"prompt_tokens": 5, "prompt_tokens_details": None, "cost": 0.5}, Usage(5, cost_usd=0.5)),
        ({"prompt_tokens": "5", "completion_tokens": -1, "cost": True}, Usage()),
        ({"cost": float("nan")}, Usage()),
        ([], Usage()),
    ],
)
def test_usage_is_what_is_known(usage: Any, expected: Usage) -> None:
    assert parse_reply(answer({"content": "x"}, usage=usage), 1).usage == expected


def test_unknown_usage_adds_nothing() -> None:
    total = Usage()
    total.add(Usage(5, None))
    total.add(Usage(None, None, None, 0.5))
    total.add(Usage(5, 1))
    assert total == Usage(10, 1, None, 0.5)
    assert total.tokens == 11


@pytest.mark.parametrize(
    "found", [None, 3, [], {}, {"choices": []}, {"choices": [{}]}, {"choices": [{"message": "x"}]}, "choices"]
)
def test_what_is_no_completion_is_said_so(found: Any) -> None:
    with pytest.raises(Unreadable):
        parse_reply(found, 1)


ANYTHING: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["content", "tool_calls", "function", "name", "arguments", "id", "refusal", "text", "message"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["content", "tool_calls", "refusal", "reasoning"]), ANYTHING), ANYTHING
)
def test_any_message_is_read_as_something(message: dict[str, Any], usage: Any) -> None:
    reply = parse_reply(answer(message, usage=usage), 1)
    assert isinstance(reply, Reply)
    assert len({each.id for each in reply.calls}) == len(reply.calls)
    json.dumps(reply.message, allow_nan=False).encode()
