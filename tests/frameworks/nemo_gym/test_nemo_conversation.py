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
    ],
)
def test_what_cannot_be_said_in_messages_is_told(prompt: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        messages_of(row(prompt))


def test_tools_of_a_provider_are_not_ours() -> None:
    with pytest.raises(Unsupported, match="'web_search'"):
        tools_of(row(request={"tools": [{"type": "web_search"}]}))


def test_parameters_are_those_that_are_set() -> None:
    request = {"temperature": 0.0, "top_p": None, "max_output_tokens": 10, "store": True}
    assert parameters_of(row(request=request)) == {"temperature": 0.0, "max_output_tokens": 10}


def test_an_output_is_split_where_somebody_else_speaks() -> None:
    output = [
        reasoning("hm"),
        function_call("a", "{}"),
        function_output("call_0", "A"),
        message("hit"),
        {"role": "user", "content": "You have 17."},
        message("stand"),
        message("stand!"),
    ]
    assert [[item["type"] for item in turn] for turn in turns_of(output)] == [
        ["reasoning", "function_call"],
        ["message"],
        ["message"],
        ["message"],
    ]
