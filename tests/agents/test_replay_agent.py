"""Replays: the same commands again, and what is told when the environment answers otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.host_box import context_of, host_box
from support.scripted_model import ScriptedModel, use

from pytest_rlenv.agents.bash.agent import BashAgent
from pytest_rlenv.agents.conversing.session import Shown
from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.agents.protocol import AgentContext, AgentOutcome
from pytest_rlenv.agents.replay.agent import ReplayAgent
from pytest_rlenv.agents.replay.commands import script_of
from pytest_rlenv.agents.replay.comparing import DIFFERS, SAME, UNKNOWN, compare
from pytest_rlenv.agents.replay.finding import find_trajectory
from pytest_rlenv.errors import AgentFailed, SpecError
from pytest_rlenv.trajectory.reading import parse_trajectory, read_trajectory


def trajectory(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a document whose agent made calls; each has a name, arguments, and maybe content and extra."""
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": "do it"}]
    for number, call in enumerate(calls, 2):
        step: dict[str, Any] = {
            "step_id": number,
            "source": "agent",
            "message": "",
            "tool_calls": [
                {"tool_call_id": "c", "function_name": call["name"], "arguments": call["arguments"]}
            ],
            **call.get("step", {}),
        }
        if "content" in call:
            result = {"source_call_id": "c", "content": call["content"]}
            if "extra" in call:
                result["extra"] = call["extra"]
            step["observation"] = {"results": [result]}
        steps.append(step)
    agent = {"name": "other", "version": "1"}
    return {"schema_version": "ATIF-v1.7", "session_id": "s", "agent": agent, "steps": steps, **more}


def shell(command: str, content: str | None = None, **extra: Any) -> dict[str, Any]:
    call: dict[str, Any] = {"name": "bash", "arguments": {"command": command}}
    if content is not None:
        call |= {"content": content, "extra": extra}
    return call


def replay(tmp: Path, variant: Path | str, **more: Any) -> tuple[AgentContext, AgentOutcome]:
    agent = ReplayAgent()
    agent.variant = str(variant)
    agent.check()
    context = context_of(tmp / "replayed", **more)
    agent.prepare(context)
    return context, agent.run(context)


def stored(tmp: Path, document: dict[str, Any]) -> Path:
    path = tmp / "stored.json"
    path.write_text(json.dumps(document))
    return path


def test_what_the_harness_did_is_done_again(tmp_path: Path) -> None:
    script = [
        use("bash", command="mkdir -p sub && echo 1 > sub/a"),
        use("bash", command="cat sub/a; exit 4"),
        use("bash", command="sleep 60", timeout=1),
        "done",
    ]
    with ScriptedModel(script) as model:
        endpoint = ModelEndpoint(model.url, model.root, "k", "m")
        BashAgent("p/m").run(context_of(tmp_path / "first", model_endpoint=endpoint))
    context, outcome = replay(tmp_path, tmp_path / "first" / "logs" / "trajectory.json")
    assert outcome.usage == {"commands": 3, "diverged": 0, "outputs_differing": 0}
    assert outcome.notes == {}
    assert (host_box(context).folder / "sub" / "a").read_text() == "1\n"
    rows = json.loads((context.logs / "replay.json").read_text())
    assert [(row["end"], row["output"]) for row in rows] == [("same", "same")] * 3
    again = read_trajectory(context.logs / "trajectory.json")
    assert [step.extra for step in again.steps[1:]] == [{"replayed_step": n} for n in (3, 4, 5)]
    assert script_of(again).commands[1].exit_code == 4, "a replay can be replayed"


def test_another_environment_is_told_by_its_ends_and_its_outputs(tmp_path: Path) -> None:
    document = trajectory(
        shell("echo same", "same\n[exit code 0]", exit_code=0),
        shell("echo new", "old\n[exit code 0]", exit_code=0),
        shell("cat not-there", "words\n[exit code 0]", exit_code=0),
        shell("sleep 0", "[killed after 1 s]", exit_code=None, timed_out=True),
        {"name": "edit_file", "arguments": {"path": "a"}, "content": "ok"},
        {"name": "edit_file", "arguments": {"path": "b"}, "content": "ok"},
    )
    _, outcome = replay(tmp_path, stored(tmp_path, document))
    assert outcome.usage == {"commands": 4, "diverged": 2, "outputs_differing": 2}
    assert outcome.notes == {
        "replay-diverged": "2 of 4 commands ended differently; the first is step 4, `cat not-there`: exit "
        "code 1, was exit code 0",
        "replay-output": "1 of 4 commands ended alike, but printed something else; the first is step 3, "
        "`echo new`",
        "replay-partial": "not replayed, since they are no commands: edit_file (2)",
    }


@pytest.mark.parametrize(
    ("name", "arguments", "command"),
    [
        ("bash", {"command": "ls -l"}, "ls -l"),
        ("Bash", {"command": "ls", "description": "list"}, "ls"),
        ("shell", {"command": ["bash", "-lc", "ls | wc -l"]}, "bash -lc 'ls | wc -l'"),
        ("exec_command", {"cmd": "ls"}, "ls"),
        ("run_shell_command", {"command": "ls", "directory": "/x"}, "ls"),
        ("developer__shell", {"command": "ls"}, "ls"),
        ("bash", {"keys": "ls"}, None),
        ("bash", {"command": ""}, None),
        ("bash", {"command": [1]}, None),
        ("Write", {"command": "ls"}, None),
    ],
)
def test_commands_of_many_agents_are_known(name: str, arguments: dict[str, Any], command: str | None) -> None:
    script = script_of(parse_trajectory(trajectory({"name": name, "arguments": arguments})))
    assert [each.command for each in script.commands] == ([] if command is None else [command])
    assert script.left_out == ({name: 1} if command is None else {})


@pytest.mark.parametrize(
    ("content", "extra", "code"),
    [
        ("out\n[exit code 3]", {"exit_code": 3}, 3),
        ("<returncode>1</returncode>\n<output>\nx\n</output>", None, 1),
        ("Output: x\nExit Code: 2\nSignal: (none)", None, 2),
        ("Process exited with code 7\nOutput:\nx", None, 7),
        ("exit code 1 ... and later exit code 2", None, None),
        ("no word of it", None, None),
        ("x [exit code 0]", {"timed_out": True}, None),
    ],
)
def test_exit_codes_are_found_where_they_are_told(content: str, extra: Any, code: int | None) -> None:
    call = {**shell("x"), "content": content, **({"extra": extra} if extra else {})}
    assert script_of(parse_trajectory(trajectory(call))).commands[0].exit_code == code


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        (None, "x\n[exit code 0]", UNKNOWN),
        ("x  y\n[exit code 0]", "x\ny\n[exit code 0]", SAME),
        ("xy\n[exit code 0]", "x\n[exit code 0]", DIFFERS),
        ("<output>\nx\n</output>", "x\n[exit code 0]", SAME),
        ("<output>\ny\n</output>", "x\n[exit code 0]", DIFFERS),
        ("<output>\ny\n</output>", "[exit code 0]", UNKNOWN),
        ("[exit code 0]", "[exit code 0]", SAME),
        ("", "[exit code 0]", SAME),
    ],
)
def test_outputs_are_compared_as_far_as_they_are_known(then: str | None, now: str, expected: str) -> None:
    call = {**shell("x"), **({} if then is None else {"content": then})}
    recorded = script_of(parse_trajectory(trajectory(call))).commands[0]
    assert compare(recorded, Shown(now, {"exit_code": 0})).output == expected


def test_milliseconds_are_told_from_seconds() -> None:
    calls = [
        {"name": "bash", "arguments": {"command": "x", "timeout": t}} for t in (30, 120_000, "5", -1, True)
    ]
    commands = script_of(parse_trajectory(trajectory(*calls))).commands
    assert [each.timeout for each in commands] == [30, 120, None, None, None]


def test_what_was_copied_from_an_earlier_step_is_not_run_again() -> None:
    document = trajectory({**shell("old"), "step": {"is_copied_context": True}}, shell("new"))
    assert [each.command for each in script_of(parse_trajectory(document)).commands] == ["new"]


def test_a_folder_that_a_command_was_run_in_is_used(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    call = {"name": "shell", "arguments": {"command": ["pwd"], "workdir": str(tmp_path / "there")}}
    context, _ = replay(tmp_path, stored(tmp_path, trajectory(call)))
    assert f"{tmp_path}/there" in (context.logs / "trajectory.json").read_text().split('"content": ')[1]


# ---- finding it


def run_folder(tmp: Path, *records: dict[str, Any]) -> Path:
    run = tmp / "run"
    lines = [json.dumps(each) for each in records]
    for each in records:
        for path in each["trajectories"]:
            (run / path).parent.mkdir(parents=True)
            (run / path).write_text("{}")
    run.mkdir(exist_ok=True)
    (run / "results.jsonl").write_text("\n".join([*lines, '{"task": "torn']))
    return run


def rollout(task: str, logs: str, *places: str, **more: Any) -> dict[str, Any]:
    return {
        "task": task,
        "logs": logs,
        "agent": "bash",
        "trajectories": [f"{logs}/{p}" for p in places],
        **more,
    }


def test_a_run_has_a_trajectory_for_each_task_and_step(tmp_path: Path) -> None:
    run = run_folder(
        tmp_path,
        rollout("a", "rollouts/a2", "agent/trajectory.json", attempt=2),
        rollout("a", "rollouts/a1", "agent/trajectory.json", attempt=1),
        rollout("b", "rollouts/b", "steps/one/agent/trajectory.json", "steps/two/agent/trajectory.json"),
        rollout("a", "rollouts/o", agent="oracle"),
    )
    assert find_trajectory(run, "a", "") == run / "rollouts/a1/agent/trajectory.json"
    assert find_trajectory(run, "b", "two") == run / "rollouts/b/steps/two/agent/trajectory.json"
    assert find_trajectory(run / "rollouts/a2", "x", "") == run / "rollouts/a2/agent/trajectory.json"
    with pytest.raises(AgentFailed, match="no rollout of task c"):
        find_trajectory(run, "c", "")
    with pytest.raises(AgentFailed, match="no trajectory of step three of task b"):
        find_trajectory(run, "b", "three")


def test_two_agents_of_a_run_are_not_guessed_between(tmp_path: Path) -> None:
    run = run_folder(
        tmp_path,
        rollout("a", "rollouts/a", "agent/trajectory.json"),
        rollout("a", "rollouts/b", "agent/trajectory.json", agent="other"),
    )
    with pytest.raises(AgentFailed, match=r"several agents have a trajectory of task a .*: bash, other"):
        find_trajectory(run, "a", "")


def test_one_file_is_not_for_several_steps(tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match="several steps"):
        find_trajectory(stored(tmp_path, trajectory()), "a", "one")


@pytest.mark.parametrize("variant", ["", "not-there", "."])
def test_nothing_to_replay_is_said_before_anything_starts(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    agent = ReplayAgent()
    agent.variant = variant
    with pytest.raises(SpecError):
        agent.check()


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({}, "is no ATIF document"),
        (trajectory(), "has no commands: no calls"),
        (trajectory({"name": "edit", "arguments": {}}), r"has no commands: edit \(1\)"),
    ],
)
def test_a_trajectory_without_commands_is_an_error(document: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match=said):
        replay(tmp_path, stored(tmp_path, document))
