"""A run whose agents call a model: keys, verdicts, budgets, recordings, and what the record says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.project import Project, outcomes
from support.rollouts import write_steps
from support.scripted import ScriptedBox
from support.scripted_model import Failure, Reply, ScriptedModel, use

from pytest_rlenv.errors import SandboxFailed

KEY = "real-key-of-the-provider"
JUDGE = "# scripted: reward-if=/app/answer"
AGENT = """
import http.client, json, os, signal
from urllib.parse import urlsplit
from pytest_rlenv.agents.protocol import Agent, AgentOutcome, AgentStopped, AgentTimedOut
from pytest_rlenv.sandboxes.model import Entry

class Solver(Agent):
    '''Calls the model from here until it has no more to do; the tool is that a file is made.'''
    needs_model = True
    calls_model_from_box = False
    greeting = "hello"
    calls = 5
    tools = [{"type": "function", "function": {"name": "write"}}]

    def run(self, context):
        endpoint = context.model_endpoint
        messages = [{"role": "user", "content": self.greeting + " " + context.instruction}]
        for _ in range(self.calls):
            connection = http.client.HTTPConnection(urlsplit(endpoint.openai_base_url).netloc, timeout=20)
            body = json.dumps({"model": endpoint.model, "messages": messages, "tools": self.tools})
            connection.request(
                "POST", "/v1/chat/completions", body, {"Authorization": "Bearer " + endpoint.key}
            )
            answer = connection.getresponse()
            said = json.loads(answer.read())
            connection.close()
            if answer.status != 200:
                raise RuntimeError(f"HTTP {answer.status}: {said}")
            message = said["choices"][0]["message"]
            messages.append(message)
            for call in message.get("tool_calls") or ():
                context.box.put([Entry("app/answer", b"42")])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": "made"})
            if not message.get("tool_calls"):
                break
        (context.logs / "key.txt").write_text(endpoint.key)
        return AgentOutcome(usage={"turns": 7, "input_tokens": 1})

class Other(Solver):
    greeting = "good day"

class Interrupted(Solver):
    name = "Solver"

    def run(self, context):
        super().run(context)
        raise KeyboardInterrupt

class Broken(Solver):
    def run(self, context):
        super().run(context)
        raise RuntimeError("I broke")

class Late(Solver):
    def run(self, context):
        super().run(context)
        raise AgentTimedOut  # as a command in the box does

class GaveUp(Solver):
    def run(self, context):
        super().run(context)
        raise AgentStopped("enough")

class Killed(Solver):
    def run(self, context):
        super().run(context)
        os.kill(os.getpid(), signal.SIGKILL)

class Idle(Solver):
    calls = 0

class Searching(Solver):
    tools = [{"type": "function", "function": {"name": "write"}}, {"type": "web_search"}]
"""
BOXED = """
from mine import Solver
class Boxed(Solver):
    calls_model_from_box = True
"""
SOLVES = [use("write"), "done"]


@pytest.fixture
def solving(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("TEST_KEY", KEY)
    project.tasks(t0=JUDGE)
    project.pytester.makepyfile(mine=AGENT)
    return project


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(SOLVES, key=KEY) as model:
        yield model


def run(
    project: Project,
    model: ScriptedModel | None,
    *args: str,
    agent: str = "mine:Solver",
    process: bool = False,
) -> pytest.RunResult:
    url = model.url if model is not None else "http://127.0.0.1:9/v1"
    return project.demo(
        f"--agent={agent}",
        "--model=openai/gpt-test",
        f"--rlenv-model-url={url}",
        "--rlenv-model-key-env=TEST_KEY",
        *args,
        process=process,
    )


def record_of(project: Project) -> dict[str, Any]:
    (record,) = project.records()
    return record


def test_an_agent_solves_a_task_by_the_model_and_it_is_counted(
    solving: Project, model: ScriptedModel
) -> None:
    result = run(solving, model, "--rlenv-model-price=1/10")
    assert outcomes(result) == {"passed": 1}
    record = record_of(solving)
    assert record["model"] == "openai/gpt-test"
    assert record["usage"] == {
        "turns": 7,
        "model_calls": 2,
        "input_tokens": 200,
        "output_tokens": 40,
        "cached_tokens": 0,
        "cost_usd": 0.0006,
    }
    folder = solving.run_dir / record["logs"]
    assert len((folder / "model-calls.jsonl").read_text().splitlines()) == 2
    everything = b"".join(path.read_bytes() for path in solving.run_dir.rglob("*") if path.is_file())
    assert KEY.encode() not in everything
    assert KEY not in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--agent=mine:Solver"], "the agent calls a model, and none is named"),
        (["--agent=mine:Solver", "--model=gpt"], "not a model of a known provider"),
        (
            ["--agent=mine:Solver", "--model=openai/x", "--rlenv-model-key-env=NOT_THERE"],
            "no key for model openai/x: NOT_THERE is not set",
        ),
        (
            ["--agent=oracle,mine:Solver", "--model=ollama/x", "--rlenv-replay=none"],
            "--rlenv-replay none: no such folder",
        ),
    ],
)
def test_what_is_missing_ends_the_run_before_a_box_starts(
    solving: Project, args: list[str], words: str
) -> None:
    result = solving.demo(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in result.stderr.str() + result.stdout.str()
    assert not (solving.path / "scripted" / "up").exists()


def test_agents_without_a_model_need_no_key(solving: Project) -> None:
    assert outcomes(solving.demo("--agent=nop", "--model=openai/x")) == {"passed": 1}


@pytest.mark.parametrize(
    ("replies", "error", "kind"),
    [
        ([Failure(404, "no such model", "model_not_found")], "ModelNotFound", "config"),
        ([Failure(401, "wrong key")], "ModelAccessDenied", "config"),
        ([Failure(503, "down")], "ModelUnavailable", "infra"),
        ([use("write"), Failure(429, "slow")], "ModelUnavailable", "infra"),
        ([Failure(400, "unknown field")], "ModelRequestInvalid", "agent"),
    ],
)
def test_an_agent_that_had_no_chance_is_an_error_and_never_a_0(
    solving: Project, replies: list[Any], error: str, kind: str
) -> None:
    with ScriptedModel(replies) as model:
        result = run(solving, model)
    assert outcomes(result) == {"errors": 1}
    record = record_of(solving)
    assert (record["error"]["type"], record["error"]["kind"], record["error"]["stage"]) == (
        error,
        kind,
        "agent",
    )
    assert record["reward"] is None
    assert record["usage"]["model_calls"] == len(replies)


def test_an_agent_that_never_called_its_model_never_ran(solving: Project, model: ScriptedModel) -> None:
    assert outcomes(run(solving, model, agent="mine:Idle")) == {"errors": 1}
    error = record_of(solving)["error"]
    assert error["type"] == "AgentFailed"
    assert "ended without having called its model" in error["message"]


@pytest.mark.parametrize(
    ("replies", "args", "verdict", "code"),
    [
        ([use("write"), "done"], ["--rlenv-max-turns=1"], "passed", "turn-limit"),
        ([use("other", x=1), "done"], ["--rlenv-max-tokens=100"], "passed", "token-budget"),
        ([Failure(400, "too long", "context_length_exceeded")], [], "failed", "context-exceeded"),
        ([Reply("no", stop="refusal")], [], "failed", "refusal"),
    ],
)
def test_an_agent_that_reached_a_limit_is_judged(
    solving: Project, replies: list[Any], args: list[str], verdict: str, code: str
) -> None:
    with ScriptedModel(replies) as model:
        run(solving, model, *args)
    record = record_of(solving)
    assert record["verdict"] == verdict
    assert record["error"] is None
    assert [note["code"] for note in record["notes"]] == [code]


@pytest.mark.parametrize("agent", ["Broken", "Late", "GaveUp", "Killed"])
def test_what_was_paid_counts_whatever_became_of_the_agent(solving: Project, agent: str) -> None:
    solving.task("t1", test=JUDGE)
    how = ["-n1"] if agent == "Killed" else []
    with ScriptedModel(
        lambda seen: Reply("done") if len(seen.body["messages"]) > 1 else use("write")
    ) as model:
        result = run(
            solving,
            model,
            "--rlenv-model-price=1/10",
            "--rlenv-max-cost=0.0005",
            *how,
            agent=f"mine:{agent}",
        )
    records = solving.records()
    ended = [record for record in records if record["verdict"] != "skipped"]
    assert [record["usage"]["cost_usd"] for record in ended] == [0.0006]
    assert [record["usage"]["model_calls"] for record in ended] == [2]
    assert len(records) == 2
    result.stdout.fnmatch_lines(["*the cost budget of 0.0005 USD is used up: 0.00 USD by usage.cost_usd*"])


def test_what_was_paid_counts_though_the_box_cannot_be_removed(
    solving: Project, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def destroy(self: ScriptedBox) -> None:
        raise SandboxFailed("it does not go")

    monkeypatch.setattr(ScriptedBox, "destroy", destroy)
    run(solving, model)
    record = record_of(solving)
    assert record["error"]["message"] == "it does not go"
    assert record["usage"]["model_calls"] == 2


def test_an_endpoint_that_failed_is_worth_another_try(solving: Project) -> None:
    with ScriptedModel([Failure(503, "down"), use("write"), "done"]) as model:
        result = run(solving, model, "--rlenv-retries=1", "--rlenv-record=tapes")
    assert outcomes(result) == {"passed": 1}
    record = record_of(solving)
    assert [each["error"]["type"] for each in record["tries"]] == ["ModelUnavailable"]
    assert record["usage"]["model_calls"] == 2
    (tape,) = (solving.path / "tapes").rglob("*.jsonl")
    assert len(tape.read_text().splitlines()) == 3  # of the last try


def test_workers_have_it_too(solving: Project, model: ScriptedModel) -> None:
    assert outcomes(run(solving, model, "-n1")) == {"passed": 1}
    assert record_of(solving)["usage"]["model_calls"] == 2


def test_the_providers_own_tools_are_for_tasks_with_the_whole_network(solving: Project) -> None:
    solving.task("t0", config='[environment]\nnetwork_mode = "no-network"\n', test=JUDGE)
    solving.task("t1", test=JUDGE)

    def choose(seen: Any) -> Reply:
        return use("write") if len(seen.body["messages"]) == 1 else Reply("done")

    with ScriptedModel(choose) as model:
        run(solving, model, agent="mine:Searching")
        offered = [[tool["type"] for tool in seen.body["tools"]] for seen in model.requests]
    assert sorted(offered) == [["function"]] * 2 + [["function", "web_search"]] * 2
    notes = {record["task"]: [note["code"] for note in record["notes"]] for record in solving.records()}
    assert notes == {"t0": ["model-tools-removed"], "t1": []}


def test_a_recorded_run_is_run_again_without_a_model(solving: Project, model: ScriptedModel) -> None:
    assert outcomes(run(solving, model, "--rlenv-record=tapes", "--rlenv-output=first")) == {"passed": 1}
    (tape,) = (solving.path / "tapes").rglob("*.jsonl")
    assert tape.relative_to(solving.path).as_posix() == "tapes/envs-demo/t0/Solver.1.jsonl"
    assert KEY not in tape.read_text()
    again = run(solving, None, "--rlenv-replay=tapes", "--rlenv-model-price=9/9")
    assert outcomes(again) == {"passed": 1}
    assert "rlenv: model=openai/gpt-test (replayed from tapes)" in again.outlines
    record = record_of(solving)
    assert record["usage"]["model_calls"] == 2
    assert record["usage"]["cost_usd"] == 0.0
    assert record["conditions"]["model_calls"] == "replayed"
    assert model.calls == 2


def test_an_interrupted_rollout_leaves_the_recording_of_before(
    solving: Project, model: ScriptedModel
) -> None:
    run(solving, model, "--rlenv-record=tapes", "--rlenv-output=first")
    (tape,) = (solving.path / "tapes").rglob("*.jsonl")
    before = tape.read_text()
    with ScriptedModel(["something else"], key=KEY) as other:
        run(solving, other, "--rlenv-record=tapes", agent="mine:Interrupted", process=True)
        assert other.calls == 1
    assert [path for path in (solving.path / "tapes").rglob("*") if path.is_file()] == [tape]
    assert tape.read_text() == before


def test_an_agent_that_changed_is_told_where(solving: Project, model: ScriptedModel) -> None:
    run(solving, model, "--rlenv-record=tapes", "--rlenv-output=first")
    tape = solving.path / "tapes/envs-demo/t0/Solver.1.jsonl"
    tape.rename(tape.with_name("Other.1.jsonl"))
    result = run(solving, None, "--rlenv-replay=tapes", agent="mine:Other")
    assert outcomes(result) == {"errors": 1}
    error = record_of(solving)["error"]
    assert error["type"] == "ReplayDiverged"
    assert 'messages[0].content: recorded "hello ' in error["message"]
    assert 'now "good day ' in error["message"]


def test_a_rollout_without_a_recording_is_an_error(solving: Project) -> None:
    (solving.path / "tapes").mkdir()
    assert outcomes(run(solving, None, "--rlenv-replay=tapes")) == {"errors": 1}
    error = record_of(solving)["error"]
    assert (error["type"], error["kind"]) == ("RecordingUnusable", "config")


def test_what_was_recorded_and_not_asked_for_is_told(solving: Project, model: ScriptedModel) -> None:
    run(solving, model, "--rlenv-record=tapes", "--rlenv-output=first")
    tape = solving.path / "tapes/envs-demo/t0/Solver.1.jsonl"
    lines = tape.read_text().splitlines()
    tape.write_text("\n".join([*lines, lines[-1]]) + "\n")
    assert outcomes(run(solving, None, "--rlenv-replay=tapes")) == {"passed": 1}
    notes = {note["code"]: note["text"] for note in record_of(solving)["notes"]}
    assert notes == {"replay-left": "1 of 3 recorded calls of the model were not made"}


def test_each_rollout_has_its_own_server_and_recording(solving: Project) -> None:
    solving.tasks(t1=JUDGE, t2=JUDGE)

    def choose(seen: Any) -> Reply:
        return use("write") if len(seen.body["messages"]) == 1 else Reply("done")

    with ScriptedModel(choose) as model:
        result = run(
            solving,
            model,
            "--rlenv-jobs=3",
            "--rlenv-attempts=2",
            "--rlenv-record=tapes",
            "--rlenv-max-turns=2",
        )
    assert outcomes(result) == {"passed": 6}
    assert len(list((solving.path / "tapes").rglob("*.jsonl"))) == 6
    keys = {path.read_text() for path in solving.run_dir.rglob("key.txt")}
    assert len(keys) == 6
    logs = list(solving.run_dir.rglob("model-calls.jsonl"))
    assert [len(log.read_text().splitlines()) for log in logs] == [2] * 6


def test_steps_count_what_each_took_and_share_the_budget(solving: Project) -> None:
    body = {"tests/test.sh": "# scripted: reward=1"}
    config = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    write_steps(solving.environment / "tasks" / "steps", config, {"one": body, "two": body})
    with ScriptedModel(lambda _: Reply("done")) as model:
        run(solving, model, "--rlenv-task=steps", "--rlenv-max-turns=1")
        assert model.calls == 1
    record = record_of(solving)
    assert [step["usage"]["model_calls"] for step in record["steps"]] == [1, 0]
    assert [step["usage"]["input_tokens"] for step in record["steps"]] == [100, 0]
    assert record["usage"]["model_calls"] == 1
    assert [note["code"] for note in record["notes"]] == ["turn-limit"]


def test_an_agent_whose_box_cannot_reach_us_is_skipped(solving: Project, model: ScriptedModel) -> None:
    solving.pytester.makepyfile(boxed=BOXED)
    result = run(solving, model, "--rlenv-allow-unscored", agent="boxed:Boxed")
    assert outcomes(result) == {"skipped": 1}
    assert "its calls of the model cannot reach us" in record_of(solving)["message"]
