"""Programs' own logs, read into ATIF documents."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.trajectories import shape, shown_in_the_report

from pytest_rlenv.agents.command_line.readers import (
    aider,
    claude_events,
    codex,
    gemini,
    goose,
    mini_swe_agent,
    opencode,
    openhands,
)
from pytest_rlenv.agents.command_line.spec import Reader
from pytest_rlenv.agents.command_line.transcript import Transcript, amount, time_of, words
from pytest_rlenv.trajectory.model import AgentInfo, Trajectory
from pytest_rlenv.trajectory.reading import problems_of

SCHEMA = json.loads((Path(__file__).parents[1] / "trajectory" / "atif.schema.json").read_text())
READERS = (aider, claude_events, codex, gemini, goose, mini_swe_agent, opencode, openhands)


def lines(*events: Any) -> bytes:
    """Return events as a log, among other things that a program prints."""
    return b"starting up\n" + b"".join(json.dumps(event).encode() + b"\n" for event in events) + b'{"cut": '


def read(reader: Reader, log: bytes) -> tuple[Trajectory, Transcript]:
    told = Transcript()
    reader(log, told)
    found = told.document(AgentInfo(name="a", version="1", model_name="openai/m"), "Do it.")
    document = found.model_dump(mode="json", exclude_none=True)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert problems_of(document) == []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trajectory.json")
        path.write_text(json.dumps(document))
        assert shown_in_the_report(path) == shape(found)
    return found, told


def test_opencode() -> None:
    tokens = {"input": 90, "output": 15, "reasoning": 5, "cache": {"read": 10, "write": 0}}
    log = lines(
        {"type": "step_start", "timestamp": 1_700_000_000_000, "sessionID": "ses_1", "part": {}},
        {"type": "reasoning", "part": {"text": "I think."}},
        {
            "type": "tool_use",
            "part": {
                "tool": "bash",
                "callID": "c1",
                "state": {"status": "completed", "input": {"command": "ls"}, "output": "a\n"},
            },
        },
        {
            "type": "tool_use",
            "part": {"tool": "read", "callID": "c2", "state": {"input": {"filePath": "x"}, "error": "no"}},
        },
        {"type": "step_finish", "part": {"reason": "tool-calls", "cost": 0.25, "tokens": tokens}},
        {"type": "step_start", "timestamp": 1_700_000_001_000, "part": {}},
        {"type": "text", "part": {"text": "Done."}},
        {"type": "step_finish", "part": {"cost": 0.25, "tokens": {"input": 100, "output": 20}}},
        {"type": "error", "error": {"name": "APIError", "data": {"message": "gone"}}},
    )
    trajectory, told = read(opencode.read, log)
    assert shape(trajectory) == [
        ("user", "Do it.", [], []),
        ("agent", "", ['bash {"command": "ls"}', 'read {"filePath": "x"}'], ["a\n", "no"]),
        ("agent", "Done.", [], []),
    ]
    assert trajectory.session_id == "ses_1"
    assert trajectory.steps[1].reasoning_content == "I think."
    assert trajectory.steps[1].timestamp == "2023-11-14T22:13:20.000+00:00"
    assert told.used() == {"input_tokens": 200, "output_tokens": 40, "cached_tokens": 10, "cost_usd": 0.5}
    assert told.errors == ["gone"]


def test_claude_code() -> None:
    usage = {"input_tokens": 60, "cache_read_input_tokens": 40, "output_tokens": 20}
    first = {"id": "msg_1", "model": "m", "usage": usage}
    log = lines(
        {"type": "system", "subtype": "init", "session_id": "s1"},
        {
            "type": "assistant",
            "message": {**first, "content": [{"type": "text", "text": "I look."}]},
        },
        {
            "type": "assistant",
            "message": {
                **first,
                "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}],
            },
        },
        {
            "type": "user",
            "message": {
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a"}]}
                ]
            },
        },
        {"type": "assistant", "message": {"id": "msg_2", "content": [{"type": "text", "text": "Done."}]}},
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "num_turns": 2,
            "total_cost_usd": 0.125,
            "usage": {"input_tokens": 160, "cache_read_input_tokens": 40, "output_tokens": 40},
        },
    )
    trajectory, told = read(claude_events.read, log)
    assert shape(trajectory) == [
        ("user", "Do it.", [], []),
        ("agent", "I look.", ['Bash {"command": "ls"}'], ["a"]),
        ("agent", "Done.", [], []),
    ]
    assert trajectory.steps[1].model_name == "m"
    assert trajectory.final_metrics is not None
    assert trajectory.final_metrics.total_prompt_tokens == 200
    assert told.used() == {
        "input_tokens": 200,
        "output_tokens": 40,
        "cached_tokens": 40,
        "cost_usd": 0.125,
        "turns": 2,
    }


def test_codex() -> None:
    log = lines(
        {"type": "thread.started", "thread_id": "t"},
        {"type": "item.started", "item": {"id": "i0", "type": "command_execution", "command": "ls"}},
        {"type": "item.completed", "item": {"id": "r", "type": "reasoning", "text": "Hm."}},
        {
            "type": "item.completed",
            "item": {
                "id": "i0",
                "type": "command_execution",
                "command": "ls",
                "aggregated_output": "a\n",
                "exit_code": 1,
                "status": "failed",
            },
        },
        {"type": "item.completed", "item": {"id": "i1", "type": "agent_message", "text": "Done."}},
        {
            "type": "turn.completed",
            "usage": {"input_tokens": 200, "cached_input_tokens": 5, "output_tokens": 9},
        },
        {"type": "turn.failed", "error": {"message": "cut off"}},
    )
    trajectory, told = read(codex.read, log)
    assert shape(trajectory) == [
        ("user", "Do it.", [], []),
        ("agent", "", [], []),
        ("agent", "", ['shell {"command": "ls"}'], ["a\n"]),
        ("agent", "Done.", [], []),
    ]
    results = trajectory.steps[2].observation
    assert results is not None
    assert results.results[0].extra == {"is_error": True}
    assert told.used() == {"input_tokens": 200, "output_tokens": 9, "cached_tokens": 5}
    assert told.errors == ["cut off"]


def test_gemini_cli() -> None:
    log = lines(
        {"type": "init", "session_id": "g", "model": "m"},
        {"type": "message", "role": "user", "content": "Do it."},
        {"type": "message", "role": "assistant", "content": "I ", "delta": True},
        {"type": "message", "role": "assistant", "content": "look.", "delta": True},
        {"type": "tool_use", "tool_name": "run", "tool_id": "t1", "parameters": {"command": "ls"}},
        {"type": "tool_result", "tool_id": "t1", "status": "success", "output": "a"},
        {"type": "message", "role": "assistant", "content": "Done.", "delta": True},
        {
            "type": "result",
            "status": "success",
            "stats": {"input_tokens": 10, "output_tokens": 2, "cached": 1},
        },
    )
    trajectory, told = read(gemini.read, log)
    assert shape(trajectory) == [
        ("user", "Do it.", [], []),
        ("agent", "I look.", [], []),
        ("agent", "", ['run {"command": "ls"}'], ["a"]),
        ("agent", "Done.", [], []),
    ]
    assert told.used() == {"input_tokens": 10, "output_tokens": 2, "cached_tokens": 1}


def test_mini_swe_agent_of_the_first_version() -> None:
    response = {"usage": {"prompt_tokens": 10, "completion_tokens": 4}}
    log = json.dumps(
        {
            "info": {"exit_status": "Submitted", "model_stats": {"instance_cost": 0.5, "api_calls": 2}},
            "messages": [
                {"role": "system", "content": "You act."},
                {"role": "user", "content": "Do it."},
                {
                    "role": "assistant",
                    "content": "I look.\n```bash\nls\n```",
                    "extra": {"response": response},
                },
                {"role": "user", "content": "<output>a</output>"},
            ],
            "trajectory_format": "mini-swe-agent-1",
        }
    )
    trajectory, told = read(mini_swe_agent.read, log.encode())
    assert shape(trajectory) == [
        ("system", "You act.", [], []),
        ("user", "Do it.", [], []),
        ("agent", "I look.\n```bash\nls\n```", ['bash {"command": "ls"}'], ["<output>a</output>"]),
    ]
    assert told.used() == {"input_tokens": 10, "output_tokens": 4, "cost_usd": 0.5, "turns": 2}


def test_mini_swe_agent_of_the_second_version() -> None:
    call = {"id": "c1", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    log = json.dumps(
        {
            "info": {"exit_status": "LimitsExceeded"},
            "messages": [
                {"role": "system", "content": "You act."},
                {"role": "user", "content": "Do it."},
                {"role": "assistant", "content": "I look.", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "a"},
                {"object": "response", "output": [{"type": "message", "content": [{"text": "Done."}]}]},
                {"role": "exit", "content": "", "extra": {"exit_status": "LimitsExceeded"}},
            ],
        }
    )
    trajectory, told = read(mini_swe_agent.read, log.encode())
    assert shape(trajectory)[2:] == [
        ("agent", "I look.", ['bash {"command": "ls"}'], ["a"]),
        ("agent", "Done.", [], [""]),
    ]
    assert told.errors == []


def test_aider() -> None:
    cost = "Tokens: 1.2k sent, 34 received. Cost: $0.01 message, $0.03 session."
    log = f"""\

# aider chat started at 2026-01-01 00:00:00

> Aider v0.86.1
> Model: openai/m

#### Do it.
#### Soon.

I change the file.

answer.txt

> {cost}
> Applied edit to answer.txt
"""
    trajectory, told = read(aider.read, log.encode())
    assert shape(trajectory) == [
        ("user", "Do it.\nSoon.", [], []),
        (
            "agent",
            "I change the file.\n\nanswer.txt",
            [],
            [f"{cost}\nApplied edit to answer.txt"],
        ),
    ]
    assert told.used() == {"input_tokens": 1200, "output_tokens": 34, "cost_usd": 0.03}


def test_goose() -> None:
    call = {"status": "success", "value": {"name": "developer__shell", "arguments": {"command": "ls"}}}
    result = {"status": "success", "value": [{"type": "text", "text": "a"}]}

    def message(role: str, id_: str, *content: Any) -> dict[str, Any]:
        return {
            "type": "message",
            "message": {"id": id_, "role": role, "created": 1_700_000_000, "content": list(content)},
        }

    log = lines(
        message("assistant", "m1", {"type": "text", "text": "I "}),
        message("assistant", "m1", {"type": "text", "text": "look."}),
        message("assistant", "m1", {"type": "toolRequest", "id": "t1", "toolCall": call}),
        message("user", "u1", {"type": "toolResponse", "id": "t1", "toolResult": result}),
        message("assistant", "m2", {"type": "text", "text": "Done."}),
        {"type": "complete", "total_tokens": 99},
    )
    trajectory, told = read(goose.read, log)
    assert shape(trajectory) == [
        ("user", "Do it.", [], []),
        ("agent", "I look.", ['developer__shell {"command": "ls"}'], ["a"]),
        ("agent", "Done.", [], []),
    ]
    assert told.usage == {"total_tokens": 99}


def test_openhands() -> None:
    metrics = {
        "accumulated_cost": 0.5,
        "accumulated_token_usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }
    log = json.dumps(
        [
            {"id": 0, "source": "agent", "action": "system", "args": {"content": "You act."}},
            {"id": 1, "source": "user", "action": "message", "args": {"content": "Do it."}},
            {
                "id": 2,
                "source": "agent",
                "action": "run",
                "message": "Running command: ls",
                "args": {"command": "ls", "thought": "I look."},
                "llm_metrics": metrics,
            },
            {"id": 3, "source": "agent", "observation": "run", "cause": 2, "content": "a"},
            {"id": 4, "source": "agent", "action": "message", "args": {"content": "Done."}},
            {
                "id": 5,
                "source": "agent",
                "action": "finish",
                "message": "All done!",
                "args": {"final_thought": "It is 42.", "outputs": {}},
            },
        ]
    )
    trajectory, told = read(openhands.read, log.encode())
    assert shape(trajectory) == [
        ("system", "You act.", [], []),
        ("user", "Do it.", [], []),
        ("agent", "Running command: ls", ['run {"command": "ls"}'], ["a"]),
        ("agent", "Done.", [], []),
        ("agent", "It is 42.", ['finish {"outputs": {}}'], []),
    ]
    assert told.used() == {"input_tokens": 7, "output_tokens": 3, "cost_usd": 0.5}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
WORDS = (
    "type", "part", "message", "content", "role", "assistant", "user", "text", "item", "usage", "id",
    "state", "tool_use", "step_start", "step_finish", "result", "messages", "tool_calls", "function",
    "timestamp", "error", "tokens", "input", "cache", "action", "args", "item.completed",
    "turn.completed", "command_execution", "toolRequest", "toolCall", "toolResponse", "tool_result",
    "created", "info", "extra", "response",
)  # fmt: skip
NAMES = st.sampled_from(WORDS)
EVENTS = st.recursive(
    NAMES | JSON,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=15,
)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.dictionaries(NAMES, EVENTS, max_size=6), max_size=5), st.binary(max_size=50))
def test_no_log_is_too_odd(events: Sequence[dict[str, Any]], rubbish: bytes) -> None:
    """Whatever a program prints, each reader makes a valid document of it."""
    many = b"\n".join(json.dumps(event).encode() for event in events) + b"\n" + rubbish
    whole = json.dumps({"messages": list(events), "info": events[0] if events else {}}).encode()
    for reader in READERS:
        for log in (many, whole, json.dumps(list(events)).encode(), rubbish):
            read(reader.read, log)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        ("a", "a"),
        (["a", {"text": "b"}, {"content": ["c"]}], "a\nb\nc"),
        ({"output": "x"}, "x"),
        ({"k": 1}, "{'k': 1}"),
        (3, "3"),
    ],
)
def test_words(value: object, expected: str) -> None:
    assert words(value) == expected


@pytest.mark.parametrize("value", [True, "1", -1, float("nan"), float("inf"), None, [1]])
def test_no_amount(value: object) -> None:
    assert amount(value) is None


@pytest.mark.parametrize("value", ["yesterday", 1e300, -5, None, True, {}])
def test_no_time(value: object) -> None:
    assert time_of(value) is None
