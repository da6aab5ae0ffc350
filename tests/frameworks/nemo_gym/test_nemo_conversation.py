"""A row's request as chat messages and tools."""

from __future__ import annotations

from typing import Any

import pytest
from support.nemo_gym import row

from pytest_rlenv.errors import TaskInvalid, Unsupported
from pytest_rlenv.frameworks.nemo_gym.conversation import messages_of, parameters_of, tools_of
from pytest_rlenv.frameworks.nemo_gym.responses import (
    function_call,
    function_output,
    message,
    reasoning,
    turns_of,
)

SEEN = {"role": "user", "content": "You have 17."}
CALLS = {"role": "assistant", "content": None}


def call(name: str, number: int) -> dict[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": "{}"}}


@pytest.mark.parametrize(
    ("prompt", "messages"),
    [
        ("Hi", [{"role": "user", "content": "Hi"}]),
        ([], []),
        ([{"role": "developer", "content": "Be brief."}], [{"role": "system", "content": "Be brief."}]),
        (
            [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}] * 2}],
            [{"role": "user", "content": "aa"}],
        ),
        (
            [{"role": "user", "content": [{"type": "input_image", "image_url": "data:x"}]}],
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}],
        ),
        (
            [
                message("Let me look."),
                function_call("a", "{}", "c1"),
                function_call("b", "{}", "c2"),
                function_output("c1", "A"),
                function_output("c2", "B"),
                reasoning("hm"),
                function_call("c", "{}", "c3"),
            ],
            [
                {"role": "assistant", "content": "Let me look.", "tool_calls": [call("a", 1), call("b", 2)]},
                {"role": "tool", "tool_call_id": "c1", "content": "A"},
                {"role": "tool", "tool_call_id": "c2", "content": "B"},
                {**CALLS, "tool_calls": [call("c", 3)]},
            ],
        ),
    ],
)
def test_input_becomes_messages(prompt: Any, messages: list[dict[str, Any]]) -> None:
    assert messages_of(row(prompt)) == messages


def test_instructions_come_first() -> None:
    request = {"instructions": "Be brief."}
    assert [m["role"] for m in messages_of(row("Hi", request=request))] == ["system", "user"]


@pytest.mark.parametrize(
    ("prompt", "error", "said"),
    [
        (7, TaskInvalid, "input is int"),
        (["Hi"], TaskInvalid, "holds str"),
        ([{"role": "ghost", "content": "Hi"}], TaskInvalid, "role 'ghost'"),
        ([{"type": "web_search_call"}], Unsupported, "'web_search_call'"),
        ([{"role": "user", "content": [{"type": "input_file"}]}], Unsupported, "'input_file'"),
        ([{"role": "user", "content": 7}], TaskInvalid, "a content of int"),
    ],
)
def test_what_cannot_be_said_in_messages_is_told(prompt: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        messages_of(row(prompt))


@pytest.mark.parametrize(
    ("tools", "error", "said"),
    [
        ([{"type": "web_search"}], Unsupported, "'web_search'.*; oracle and nop"),
        ("look", TaskInvalid, "tools is str, not a list"),
        ([7], TaskInvalid, r"tools\[0\] is int, not an object"),
        ([{"type": "function"}], TaskInvalid, r"tools\[0\]\.name is NoneType, not str"),
        ([{"type": "function", "name": "a", "parameters": "x"}], TaskInvalid, r"\.parameters is str"),
        ([{"type": "function", "name": "a", "description": 7}], TaskInvalid, r"\.description is int"),
    ],
)
def test_tools_that_cannot_be_had_are_told(tools: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        tools_of(row(request={"tools": tools}))


def test_parameters_are_those_that_are_set() -> None:
    request = {"temperature": 0.0, "top_p": None, "max_output_tokens": 10, "store": True}
    assert parameters_of(row(request=request)) == {"temperature": 0.0, "max_output_tokens": 10}


@pytest.mark.parametrize(
    ("output", "turns"),
    [
        (
            [reasoning("hm"), function_call("a", "{}"), function_output("call_0", "A"), message("hit"), SEEN],
            ["reasoning function_call", "message"],
        ),
        ([message("hit"), SEEN, message("stand"), message("stand!")], ["message"] * 3),
        ([message("hit"), reasoning("hm"), message("stand")], ["message", "reasoning message"]),
        (
            [message("Let me look."), function_call("a", "{}"), function_call("b", "{}")],
            ["message function_call function_call"],
        ),
        ([function_call("a", "{}"), message("done")], ["function_call message"]),
        ([SEEN, {"type": "message", "role": "assistant"}], ["", "message"]),
    ],
)
def test_an_output_is_split_into_replies(output: list[dict[str, Any]], turns: list[str]) -> None:
    assert [" ".join(item["type"] for item in turn.items) for turn in turns_of(output)] == turns


def test_what_was_said_to_a_reply_stays_with_it() -> None:
    output = [function_call("a", "{}"), function_output("call_0", "A"), SEEN, message("stand")]
    assert [len(turn.answers) for turn in turns_of(output)] == [2, 0]
