"""The harness as a whole: a scripted model, real commands, and the trajectory that is left."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support.harbor_package import HARBOR_PYTHON, needs_harbor
from support.host_box import TIME_IS_UP, context_of, host_box
from support.scripted_model import Failure, Reply, ScriptedModel, ToolCall, context_exceeded, use

from pytest_rlenv.agents.bash.agent import BashAgent
from pytest_rlenv.agents.bash.handing_over import MCP_FILE
from pytest_rlenv.agents.bash.limits import Limits, Patience
from pytest_rlenv.agents.conversing.session import CUT_OFF, NOTHING_SAID
from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.agents.protocol import (
    AgentContext,
    AgentOutcome,
    AgentStopped,
    AgentTimedOut,
    McpServer,
    Stop,
)
from pytest_rlenv.errors import AgentFailed, ModelUnavailable, TaskInvalid
from pytest_rlenv.reports.html.folder import StoredFile
from pytest_rlenv.reports.html.trajectory import read_trajectory as read_for_page
from pytest_rlenv.trajectory.model import Trajectory
from pytest_rlenv.trajectory.reading import read_trajectory

SCHEMA = json.loads((Path(__file__).parents[1] / "trajectory" / "atif.schema.json").read_text())


class Quick(BashAgent):
    name = "bash"
    patience = Patience(tries=2, first=0.0)


def run(
    model: ScriptedModel, tmp: Path, agent: BashAgent | None = None, **more: Any
) -> tuple[AgentContext, AgentOutcome]:
    context = context_for(model, tmp, **more)
    chosen = agent or Quick("openai/m")
    chosen.prepare(context)
    return context, chosen.run(context)


def context_for(model: ScriptedModel, tmp: Path, **more: Any) -> AgentContext:
    endpoint = ModelEndpoint(model.url, model.root, "k", "m")
    return context_of(tmp, **{"model": "openai/m", "model_endpoint": endpoint, **more})


def left(tmp: Path) -> Trajectory:
    """Return the trajectory, once it is seen to be one."""
    path = tmp / "logs" / "trajectory.json"
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(path.read_text()))
    return read_trajectory(path)


def said_to(model: ScriptedModel, number: int = -1) -> list[tuple[str, str]]:
    """Return the messages of a request."""
    return [(message["role"], message.get("content")) for message in model.requests[number].body["messages"]]


def results(trajectory: Trajectory) -> list[str]:
    return [str(r.content) for step in trajectory.steps if step.observation for r in step.observation.results]


def test_commands_are_run_until_the_model_is_done(tmp_path: Path) -> None:
    script = [
        use("bash", command="echo 42 > answer"),
        use("bash", command="cat answer; exit 3"),
        "It is done.",
    ]
    with ScriptedModel(script, key="k") as model:
        context, outcome = run(model, tmp_path, instruction="Write the answer.")
    assert (host_box(context).folder / "answer").read_text() == "42\n"
    assert said_to(model)[1:] == [
        ("user", "Write the answer."),
        ("assistant", None),
        ("tool", "[exit code 0]"),
        ("assistant", None),
        ("tool", "42\n[exit code 3]"),
    ]
    assert outcome.usage == {"turns": 3, "input_tokens": 300, "output_tokens": 60, "cached_tokens": 0}
    trajectory = left(tmp_path)
    assert [step.source for step in trajectory.steps] == ["system", "user", "agent", "agent", "agent"]
    assert trajectory.steps[-1].message == "It is done."
    assert trajectory.agent.model_name == "openai/m"
    assert trajectory.final_metrics is not None
    assert trajectory.final_metrics.total_prompt_tokens == 300
    assert results(trajectory) == ["[exit code 0]", "42\n[exit code 3]"]


def test_the_page_of_a_run_shows_it(tmp_path: Path) -> None:
    with ScriptedModel([use("bash", command="echo seen"), "done"]) as model:
        run(model, tmp_path)
    path = tmp_path / "logs" / "trajectory.json"
    shown = read_for_page(StoredFile(path, ("trajectory.json",), path.stat().st_size), room=100_000)
    assert not shown.problem
    assert shown.total == 4
    assert shown.steps[2].calls[0][0] == "bash"
    assert "seen" in shown.steps[2].results[0]


@needs_harbor
def test_harbor_takes_it(tmp_path: Path) -> None:
    with ScriptedModel([use("bash", command="echo seen", timeout=5), use("other"), "done"]) as model:
        run(model, tmp_path)
    check = (
        "import sys; from harbor.utils.trajectory_validator import TrajectoryValidator as V; v = V();"
        "ok = v.validate(sys.argv[1]); print(v.errors); sys.exit(not ok)"
    )
    done = subprocess.run(
        [HARBOR_PYTHON, "-c", check, tmp_path / "logs" / "trajectory.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_several_calls_of_one_reply_are_run_in_order(tmp_path: Path) -> None:
    calls = tuple(
        ToolCall("bash", {"command": command}) for command in ("echo a >> f", "echo b >> f", "cat f")
    )
    with ScriptedModel([Reply("first this", tools=calls), "done"]) as model:
        run(model, tmp_path)
    tools = [message for message in model.requests[-1].body["messages"] if message["role"] == "tool"]
    assert [message["content"] for message in tools] == [
        "[exit code 0]",
        "[exit code 0]",
        "a\nb\n[exit code 0]",
    ]
    assert len({message["tool_call_id"] for message in tools}) == 3


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (use("python", code="1"), "There is no tool 'python'; the only one is 'bash'."),
        (use("bash"), "`command` must be a text"),
        (use("bash", command=["ls"]), "`command` must be a text"),
        (use("bash", command="  "), "`command` must be a text"),
        (use("bash", command="a\0b"), "NUL"),
        (use("bash", command="x" * 140_000), "`command` is 140000 bytes long"),
    ],
)
def test_a_call_that_cannot_be_carried_out_is_said_to_the_model(
    call: Reply, said: str, tmp_path: Path
) -> None:
    with ScriptedModel([call, "done"]) as model:
        context, outcome = run(model, tmp_path)
    assert said in said_to(model)[-1][1]
    assert outcome.usage["turns"] == 2
    assert len(host_box(context).ran) == 1, "the search for a shell alone"
    left(tmp_path)


def test_a_command_that_takes_too_long_is_killed_alone(tmp_path: Path) -> None:
    script = [
        use("bash", command="sleep 60 > /dev/null 2>&1 & echo $! > other"),
        use("bash", command="echo begun; sleep 60", timeout=1),
        use("bash", command="kill -0 $(cat other) && echo it lives; kill $(cat other)"),
        "done",
    ]
    with ScriptedModel(script) as model:
        run(model, tmp_path)
    assert results(left(tmp_path))[1:] == ["begun\n[killed after 1 s]", "it lives\n[exit code 0]"]


def test_an_output_is_cut_in_its_middle(tmp_path: Path) -> None:
    class Short(Quick):
        limits = Limits(output_bytes=100)

    with ScriptedModel([use("bash", command="seq 1000"), "done"]) as model:
        run(model, tmp_path, Short("p/m"))
    (shown,) = results(left(tmp_path))
    assert shown.startswith("1\n2\n")
    assert "bytes left out" in shown
    assert shown.endswith("999\n1000\n[exit code 0]")


@pytest.mark.parametrize(
    ("script", "limits", "kind", "reason"),
    [
        ([use("bash", command="true")] * 3, {"turns": 3}, Stop.TURN_LIMIT, "turn limit of 3 reached"),
        ([use("bash", command="true")] * 3, {"tokens": 200}, Stop.TOKEN_BUDGET, "240 tokens used of 200"),
        ([Reply("I will not.", stop="refusal")], {}, Stop.REFUSAL, "the model refused: I will not."),
        ([Failure(400, "bad words", "content_filter")], {}, Stop.REFUSAL, "the provider refused"),
        ([context_exceeded()] * 3, {}, Stop.CONTEXT_EXCEEDED, "no longer fits the model: HTTP 400"),
        (["never"], {"context_tokens": 50}, Stop.CONTEXT_EXCEEDED, "more than 50 tokens"),
        ([Failure(402, "all is used up", "rlenv_budget")], {}, Stop.TOKEN_BUDGET, "all is used up"),
        ([Reply("")] * 3, {}, Stop.GAVE_UP, "said nothing, 3 times"),
    ],
)
def test_what_ends_it_early_is_judged_with_its_reason(
    script: Sequence[Any], limits: dict[str, Any], kind: Stop, reason: str, tmp_path: Path
) -> None:
    limited = type("Limited", (Quick,), {"limits": Limits(**limits)})
    with ScriptedModel(script) as model, pytest.raises(AgentStopped, match=reason) as caught:
        run(model, tmp_path, limited("p/m"))
    assert caught.value.kind is kind
    assert caught.value.outcome is not None
    assert "turns" in caught.value.outcome.usage
    left(tmp_path)


def test_a_server_that_is_down_is_an_error_with_a_trajectory_of_what_was_done(tmp_path: Path) -> None:
    script = [use("bash", command="echo 1"), *[Failure(503, "overloaded")] * 2]
    with ScriptedModel(script) as model, pytest.raises(ModelUnavailable, match="overloaded"):
        run(model, tmp_path)
    assert results(left(tmp_path)) == ["1\n[exit code 0]"]


def test_no_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match="there is no model"):
        Quick().run(context_of(tmp_path))


def test_a_reply_that_was_cut_off_is_no_end(tmp_path: Path) -> None:
    with ScriptedModel([Reply("I was about to", stop="length"), Reply(""), "done"]) as model:
        _, outcome = run(model, tmp_path)
    assert outcome.usage["turns"] == 3
    assert ("user", CUT_OFF) in said_to(model)
    assert ("user", NOTHING_SAID) in said_to(model)
    assert [step.source for step in left(tmp_path).steps][2:] == [
        "agent",
        "system",
        "agent",
        "system",
        "agent",
    ]


def test_what_the_server_finds_too_long_is_shortened(tmp_path: Path) -> None:
    script = [
        use("bash", command="seq 500"),
        use("bash", command="seq 501 1000"),
        context_exceeded(),
        "done",
    ]
    with ScriptedModel(script) as model:
        run(model, tmp_path)
    tools = [content for role, content in said_to(model) if role == "tool"]
    assert tools[0].startswith("[this output was left out")
    assert "1000" in tools[1]
    trajectory = left(tmp_path)
    assert trajectory.steps[-1].extra == {"outputs_left_out": 1}
    assert "499" in results(trajectory)[0], "the trajectory keeps all of it"


def test_time_that_runs_out_in_a_command_leaves_what_it_printed(tmp_path: Path) -> None:
    calls = tuple(ToolCall("bash", {"command": command}) for command in (f"echo begun {TIME_IS_UP}", "ls"))
    with ScriptedModel([Reply(tools=calls)]) as model, pytest.raises(AgentTimedOut):
        run(model, tmp_path)
    begun, not_run = results(left(tmp_path))
    assert begun == "begun\n[killed: the time was up]"
    assert not_run == "[not run: the time was up]"


# ---- what a task has for its agent


def test_servers_and_skills_are_handed_over(tmp_path: Path) -> None:
    skill = tmp_path / "box" / "skills" / "sums" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: sums\ndescription: how to add\n---\nAdd them.\n")
    servers = (
        McpServer("files", "streamable-http", url="http://mcp:8000/", headers={"Authorization": "Bearer t"}),
        McpServer("old", "sse", url="http://old/"),
        McpServer("local", "stdio", command="serve", args=("--x",)),
    )
    with ScriptedModel(["done"]) as model:
        context, _ = run(model, tmp_path, mcp_servers=servers, skills_dir="skills")
    message = said_to(model)[1][1]
    assert "MCP servers for this task: files, old, local." in message
    assert "- skills/sums/SKILL.md: how to add" in message
    assert json.loads((host_box(context).folder / MCP_FILE[1:]).read_text()) == {
        "mcpServers": {
            "files": {"type": "http", "url": "http://mcp:8000/", "headers": {"Authorization": "Bearer t"}},
            "old": {"type": "sse", "url": "http://old/"},
            "local": {"command": "serve", "args": ["--x"]},
        }
    }


EARLIER = {
    "schema_version": "ATIF-v1.4",
    "session_id": "s",
    "agent": {"name": "other", "version": "1"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "not ours"},
        {"step_id": 2, "source": "user", "message": "begin"},
        {
            "step_id": 3,
            "source": "agent",
            "message": "",
            "tool_calls": [
                {"tool_call_id": "a", "function_name": "bash", "arguments": {"command": "ls"}},
                {"tool_call_id": "b", "function_name": "bash", "arguments": {"command": "pwd"}},
            ],
            "observation": {"results": [{"source_call_id": "a", "content": "x"}, {"content": "by the way"}]},
            "metrics": {"prompt_tokens": 1000},
        },
    ],
}


def test_an_earlier_trajectory_is_gone_on_with(tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps(EARLIER))
    with ScriptedModel(["done"]) as model:
        run(model, tmp_path, trajectory=earlier)
    assert said_to(model)[1:] == [
        ("user", "begin"),
        ("assistant", None),
        ("tool", "x"),
        ("tool", "[nothing came back]"),
        ("user", "by the way"),
        ("user", "Do it."),
    ]
    trajectory = left(tmp_path)
    assert [bool(step.is_copied_context) for step in trajectory.steps] == [
        False,
        True,
        True,
        True,
        False,
        False,
    ]
    assert trajectory.final_metrics is not None
    assert trajectory.final_metrics.total_prompt_tokens == 100


def test_an_earlier_trajectory_that_is_none_is_the_tasks_fault(tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.json"
    earlier.write_text("{}")
    with ScriptedModel() as model, pytest.raises(TaskInvalid, match=r"earlier\.json is no ATIF document"):
        run(model, tmp_path, trajectory=earlier)


# ---- several steps


def steps(tmp_path: Path, *, resume: bool, model: ScriptedModel) -> None:
    agent = Quick("openai/m")
    one = context_for(model, tmp_path / "one", instruction="First.")
    agent.prepare(one)
    with contextlib.suppress(AgentTimedOut):
        agent.run(one)
    agent.run(context_for(model, tmp_path / "two", instruction="Then.", resume=resume))


def test_a_session_begins_anew_with_each_step(tmp_path: Path) -> None:
    with ScriptedModel([use("bash", command="echo 1"), "one", "two"]) as model:
        steps(tmp_path, resume=False, model=model)
    assert said_to(model)[1:] == [("user", "Then.")]
    assert [step.is_copied_context for step in left(tmp_path / "two").steps] == [None] * 3


def test_a_session_that_is_kept_goes_on(tmp_path: Path) -> None:
    with ScriptedModel([use("bash", command="echo 1"), "one", "two"]) as model:
        steps(tmp_path, resume=True, model=model)
    assert said_to(model)[1:] == [
        ("user", "First."),
        ("assistant", None),
        ("tool", "1\n[exit code 0]"),
        ("assistant", "one"),
        ("user", "Then."),
    ]
    first, second = left(tmp_path / "one"), left(tmp_path / "two")
    assert first.session_id == second.session_id
    assert [bool(step.is_copied_context) for step in second.steps] == [True] * 4 + [False] * 2


def test_a_session_that_ran_out_of_time_can_be_gone_on_with(tmp_path: Path) -> None:
    calls = tuple(ToolCall("bash", {"command": command}) for command in (f"echo begun {TIME_IS_UP}", "ls"))
    with ScriptedModel([Reply(tools=calls), "two"]) as model:
        steps(tmp_path, resume=True, model=model)
    messages = model.requests[-1].body["messages"]
    called = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert called == answered != []
