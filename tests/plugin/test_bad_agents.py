"""Agents that misbehave on this machine: their own rollout errs, no other does, and reports hold it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.project import Project, read_junit

AGENTS = '''
import asyncio
import shutil
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from pytest_rlenv.agents.protocol import Agent, AgentOutcome, AgentStopped, AgentTimedOut
from pytest_rlenv.errors import AgentFailed, Unsupported
from pytest_rlenv.sandboxes.model import Entry


def solve(context):
    context.box.put([Entry("app/answer", b"")])


class OnB(Agent):
    """Misbehaves on task b, and solves the others."""

    def run(self, context):
        solve(context)
        if context.task == "b":
            return self.act(context)


class Exits(OnB):
    def act(self, context):
        sys.exit(3)


class Closes(OnB):
    def act(self, context):
        raise GeneratorExit("closed")


class Fails(OnB):
    def act(self, context):
        pytest.fail("failed on its own")


class Skips(OnB):
    def act(self, context):
        pytest.skip("not today")


class Cancelled(OnB):
    def act(self, context):
        raise asyncio.CancelledError("cancelled")


class ExitsInSetUp(OnB):
    def prepare(self, context):
        if context.task == "b":
            sys.exit("no key")


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class BrokenText(OnB):
    def act(self, context):
        raise Unspeakable


class Surrogates(OnB):
    def act(self, context):
        raise ValueError("bad \\ud800 and \\0 here")


class OwnError(OnB):
    def act(self, context):
        raise AgentFailed("mine \\ud800\\0", hint="\\udfff", detail="\\1")


class Text(OnB):
    def act(self, context):
        return "done \\ud800"


class Number(OnB):
    def act(self, context):
        return 10**5000


class Async(Agent):
    async def run(self, context):
        return None


class AsyncSetUp(OnB):
    async def prepare(self, context):
        pass


class Yields(Agent):
    def run(self, context):
        yield 1


class ExitCode(OnB):
    def act(self, context):
        return AgentOutcome(exit_code="boom")


class Command(OnB):
    def act(self, context):
        return AgentOutcome(completed="all of it")


class StopsOddly(OnB):
    def act(self, context):
        raise AgentStopped("turn \\ud800\\0\\x1b[31m limit")


class StopsMute(OnB):
    class Mute(AgentStopped):
        def __init__(self):
            pass

    def act(self, context):
        raise self.Mute()


class LateOddly(OnB):
    def act(self, context):
        raise AgentTimedOut("late")


class DeletesLogs(OnB):
    def act(self, context):
        shutil.rmtree(context.logs)


class DeletesFolder(OnB):
    def act(self, context):
        shutil.rmtree(context.logs.parent)


class LogsAreAFile(OnB):
    def act(self, context):
        shutil.rmtree(context.logs)
        context.logs.write_text("log")


class Versioned(OnB):
    version = 3

    def __init__(self, model=None):
        self.model = Path("m\\ud800")

    def act(self, context):
        return None


class Lacks(OnB):
    def act(self, context):
        raise Unsupported("no \\ud800 key")


class Usage(OnB):
    def act(self, context):
        loop = []
        loop.append(loop)
        return AgentOutcome(
            usage={
                "nan": float("nan"),
                "inf": -float("inf"),
                "cost": Decimal("0.25"),
                "half": Fraction(1, 2),
                "path": Path("/x"),
                3: "three",
                "text\\ud800": "a\\udfffb\\0",
                "list": [1, (2.5, None)],
                "loop": loop,
                "large": 10**5000,
                "odd": Unspeakable(),
                "ok": {"deep": True},
            }
        )


class UsageList(OnB):
    def act(self, context):
        return AgentOutcome(usage=[1, 2])
'''


@pytest.fixture
def three(project: Project) -> Project:
    project.pytester.makepyfile(badagents=AGENTS)
    for name in "abc":
        project.task(name)
    return project


def run(project: Project, agent: str) -> dict[str, dict[str, Any]]:
    """Run an agent on the three tasks; all have a record, and JUnit's file can be parsed."""
    result = project.demo("--agent", f"badagents:{agent}", "--junitxml=junit.xml")
    assert result.ret in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), result.stdout.str()
    assert set(read_junit(project.path / "junit.xml")) == set("abc")
    (project.run_dir / "results.jsonl").read_bytes().decode("utf-8", errors="strict")
    return {record["task"]: record for record in project.records()}


@pytest.mark.parametrize(
    ("agent", "stage", "message"),
    [
        ("Exits", "agent", "agent Exits raised SystemExit: 3"),
        ("Closes", "agent", "agent Closes raised GeneratorExit: closed"),
        ("Fails", "agent", "agent Fails raised Failed: failed on its own"),
        ("Skips", "agent", "agent Skips raised Skipped: not today"),
        ("Cancelled", "agent", "agent Cancelled raised CancelledError: cancelled"),
        ("ExitsInSetUp", "agent_setup", "agent ExitsInSetUp raised SystemExit: no key"),
        (
            "BrokenText",
            "agent",
            "agent BrokenText raised Unspeakable: <Unspeakable that cannot be shown: RuntimeError>",
        ),
        ("Surrogates", "agent", "agent Surrogates raised ValueError: bad \ufffd and \ufffd here"),
        ("OwnError", "agent", "mine \ufffd\ufffd"),
        ("Text", "agent", "agent Text: run returned 'done \ufffd' (str); expected AgentOutcome or None"),
        ("Number", "agent", "agent Number: run returned 'int' (int); expected AgentOutcome or None"),
        (
            "ExitCode",
            "agent",
            "agent ExitCode: AgentOutcome.exit_code is 'boom' (str); expected a whole number or None",
        ),
        (
            "Command",
            "agent",
            "agent Command: AgentOutcome.completed is 'all of it' (str); expected the Completed of a command",
        ),
    ],
)
def test_what_breaks_an_agent_is_the_error_of_one_rollout(
    three: Project, agent: str, stage: str, message: str
) -> None:
    records = run(three, agent)
    assert {task: record["verdict"] for task, record in records.items()} == {
        "a": "passed",
        "b": "error",
        "c": "passed",
    }
    error = records["b"]["error"]
    assert (error["type"], error["kind"], error["stage"]) == ("AgentFailed", "agent", stage)
    assert error["message"] == message


@pytest.mark.parametrize(
    ("agent", "stage", "message"),
    [
        ("Async", "agent", "agent Async: run must not be async, but it returned a coroutine"),
        (
            "AsyncSetUp",
            "agent_setup",
            "agent AsyncSetUp: prepare must not be async, but it returned a coroutine",
        ),
        ("Yields", "agent", "agent Yields: run must not be a generator, but it has a `yield`"),
    ],
)
def test_a_method_that_never_ran_is_named(three: Project, agent: str, stage: str, message: str) -> None:
    for record in run(three, agent).values():
        error = record["error"]
        assert (error["type"], error["kind"], error["stage"]) == ("AgentFailed", "agent", stage)
        assert error["message"] == message


@pytest.mark.parametrize(
    ("agent", "notes"),
    [
        ("StopsOddly", [["agent-stopped", "the agent stopped: turn \ufffd\ufffd limit"]]),
        ("StopsMute", [["agent-stopped", "the agent stopped: "]]),
        ("LateOddly", [["agent-timeout", None]]),
        ("DeletesLogs", []),
        ("DeletesFolder", []),
        ("LogsAreAFile", []),
        ("Versioned", []),
    ],
)
def test_what_an_agent_does_oddly_is_judged(
    three: Project, agent: str, notes: list[list[str | None]]
) -> None:
    records = run(three, agent)
    assert {record["verdict"] for record in records.values()} == {"passed"}
    found = [[note["code"], note["text"]] for note in records["b"]["notes"]]
    assert [code for code, _ in found] == [code for code, _ in notes]
    for (_, text), (_, wanted) in zip(found, notes, strict=True):
        assert wanted in (None, text)
    if agent == "Versioned":
        assert (records["b"]["agent_version"], records["b"]["model"]) == ("3", "m\ufffd")


def test_a_lack_that_cannot_be_written_is_a_skip(three: Project) -> None:
    records = run(three, "Lacks")
    assert (records["b"]["verdict"], records["b"]["skip_reason"]) == ("skipped", "no \ufffd key")


def test_usage_becomes_plain_json(three: Project) -> None:
    record = run(three, "Usage")["b"]
    usage = json.loads(json.dumps(record["usage"], allow_nan=False))
    loop = usage.pop("loop")
    assert usage == {
        "nan": "nan",
        "inf": "-inf",
        "cost": 0.25,
        "half": 0.5,
        "path": "/x",
        "3": "three",
        "text\ufffd": "a\ufffdb\ufffd",
        "list": [1, [2.5, None]],
        "large": "a whole number of 16610 bits",
        "odd": "<Unspeakable that cannot be shown: RuntimeError>",
        "ok": {"deep": True},
    }
    while isinstance(loop, list):
        (loop,) = loop
    assert loop == "..."
    assert [note["code"] for note in record["notes"]] == ["usage-cleaned"]
    assert record["notes"][0]["text"].endswith("nan, inf, path, 3, text\ufffd and 3 more")


def test_usage_that_is_no_table_is_kept(three: Project) -> None:
    record = run(three, "UsageList")["b"]
    assert record["usage"] == {"usage": [1, 2]}
    assert [note["code"] for note in record["notes"]] == ["usage-cleaned"]


@pytest.mark.parametrize(
    "line", ["import sys; sys.exit(3)", "raise GeneratorExit", "import pytest; pytest.fail('x')"]
)
def test_a_module_that_ends_the_process_is_one_message(project: Project, line: str) -> None:
    project.pytester.makepyfile(ending=line)
    project.task("it")
    result = project.demo("--agent", "ending:Agent")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: rlenv: --rlenv-agent ending:Agent: cannot import 'ending': *"])
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()
