"""Agents that are programs, with a stand-in for the program: what it is given, and what its end means."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.moved_box import moved_context

from pytest_rlenv.agents.command_line.agent import CommandLineAgent
from pytest_rlenv.agents.command_line.custom import CommandAgent
from pytest_rlenv.agents.command_line.install import Script
from pytest_rlenv.agents.command_line.readers import opencode
from pytest_rlenv.agents.command_line.running import entries_of
from pytest_rlenv.agents.command_line.spec import CommandLineSpec, Launch
from pytest_rlenv.agents.command_line.table import CODEX
from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.agents.protocol import AgentContext, McpServer
from pytest_rlenv.errors import AgentFailed, SpecError
from pytest_rlenv.trajectory.reading import read_trajectory

ENDPOINT = ModelEndpoint("http://127.0.0.1:1/v1", "http://127.0.0.1:1", "k", "m", "openai", ("chat",))
EVENTS = """\
printf '%s\\n' '{"type": "step_start", "part": {}}' \\
  '{"type": "tool_use", "part": {"tool": "bash", "callID": "c", "state": {"input": {}, "output": "o"}}}' \\
  '{"type": "step_finish", "part": {"cost": 0.5, "tokens": {"input": 5, "output": 2}}}'
"""


def context_for(tmp: Path, **more: Any) -> AgentContext:
    return moved_context(tmp, **{"model": "openai/m", "model_endpoint": ENDPOINT, **more})


def logs_come_here(tmp: Path) -> None:
    """Do as the framework does after a run."""
    for file in (tmp / "box/logs/agent").iterdir():
        os.link(file, tmp / "logs" / file.name)


class Stub(CommandLineAgent):
    spec = CommandLineSpec(
        name="stub",
        install=Script(
            'printf \'#!/bin/sh\\necho stub 1.0\' >"$root/bin/stub"; chmod 755 "$root/bin/stub"\n',
            "1.0",
            "stub",
        ),
        run=f'cat "$RLENV_INSTRUCTION_FILE" >&2\n{EVENTS}',
        reader=opencode.read,
        resume="--continue",
    )


def with_run(text: str, **more: Any) -> CommandLineAgent:
    """Return an agent whose program is this text for ``sh``."""

    class Other(CommandLineAgent):
        spec = replace(Stub.spec, run=text, **more)

    return Other("openai/m")


def test_it_is_installed_once_and_asked_for_its_version(tmp_path: Path) -> None:
    context, agent = context_for(tmp_path), Stub("openai/m")
    agent.prepare(context)
    made = tmp_path / "box/opt/rlenv-agents/stub/bin/stub"
    assert agent.version == "1.0"
    before = made.stat().st_mtime_ns
    agent.prepare(context)
    assert made.stat().st_mtime_ns == before
    agent.variant = "2.0"
    agent.prepare(context)
    assert (agent.version, made.stat().st_mtime_ns == before) == ("2.0", False)


def test_an_installer_that_fails(tmp_path: Path) -> None:
    agent = with_run("true", install=Script("echo no network >&2; exit 3\n", "1", "stub"))
    with pytest.raises(AgentFailed, match="its installer exited 3") as caught:
        agent.prepare(context_for(tmp_path))
    assert "no network" in caught.value.detail


def test_a_program_that_does_not_start(tmp_path: Path) -> None:
    agent = with_run("true")
    agent.variant = "installed"
    with pytest.raises(AgentFailed, match="stub of the image does not start"):
        agent.prepare(context_for(tmp_path))


def test_the_one_that_the_image_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "stub"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho starting\necho stub 7.7")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    context, agent = context_for(tmp_path), with_run("true")
    agent.variant = "installed"
    agent.prepare(context)
    assert agent.version == "stub 7.7"
    assert not (tmp_path / "box/opt").exists()


def test_a_run_and_what_is_told_of_it(tmp_path: Path) -> None:
    context, agent = context_for(tmp_path, instruction="Do it, 'please'."), Stub("openai/m")
    outcome = agent.run(context)
    assert outcome.exit_code == 0
    logs_come_here(tmp_path)
    told = agent.finish(context)
    assert told.usage == {"input_tokens": 5, "output_tokens": 2, "cached_tokens": 0}
    assert (tmp_path / "logs/stub-stderr.txt").read_text() == "Do it, 'please'."
    trajectory = read_trajectory(tmp_path / "logs/trajectory.json")
    assert [(step.source, step.message) for step in trajectory.steps] == [
        ("user", "Do it, 'please'."),
        ("agent", ""),
    ]
    assert (trajectory.agent.name, trajectory.agent.version) == ("stub", "1.0")


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("no-such-program", r"could not be started \(exit code 127\)"),
        ("echo sorry >&2; exit 4", "exited 4 before it did anything"),
        ('echo \'{"type": "error", "error": {"name": "Gone"}}\'', "it did nothing: Gone"),
    ],
)
def test_a_program_that_did_nothing_is_an_error(program: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match=message):
        with_run(program).run(context_for(tmp_path))


def test_one_that_acted_and_then_failed_is_judged(tmp_path: Path) -> None:
    context = context_for(tmp_path)
    agent = with_run(f'{EVENTS}echo \'{{"type": "error", "error": {{"name": "Gone"}}}}\'\nexit 1')
    assert agent.run(context).exit_code == 1
    logs_come_here(tmp_path)
    assert agent.finish(context).notes == {"agent-errors": "the agent says: Gone"}


def test_a_program_without_logs_tells_nothing(tmp_path: Path) -> None:
    told = with_run("true").finish(context_for(tmp_path))
    assert (told.usage, told.notes) == ({}, {})
    assert not (tmp_path / "logs/trajectory.json").exists()


def test_what_the_program_is_not_told_otherwise_is_in_the_instruction(tmp_path: Path) -> None:
    servers = (McpServer("files", "stdio", command="serve", args=("-x",)),)
    context = context_for(tmp_path, mcp_servers=servers, skills_dir="/skills")
    with_run('cat "$RLENV_INSTRUCTION_FILE" >"$RLENV_LOGS/seen"; cat "$RLENV_MCP_FILE" >&2').run(context)
    seen = (tmp_path / "box/logs/agent/seen").read_text()
    assert "- files (stdio): serve -x" in seen
    assert "/skills" in seen
    file = json.loads((tmp_path / "box/logs/agent/stub-stderr.txt").read_text())
    assert file[0] == {
        "name": "files",
        "transport": "stdio",
        "url": None,
        "command": "serve",
        "args": ["-x"],
        "headers": {},
    }


def test_a_session_is_resumed_only_if_the_task_says_so(tmp_path: Path) -> None:
    for resume, expected in ((False, ""), (True, "--continue")):
        folder = tmp_path / str(resume)
        with_run('printf %s "$RLENV_RESUME" >&2').run(context_for(folder, resume=resume))
        assert (folder / "box/logs/agent/stub-stderr.txt").read_text() == expected


def test_a_wire_that_the_provider_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="it speaks messages with a model, which openai does not"):
        with_run("true", wires=("messages",)).run(context_for(tmp_path))


# ---- cmd


def command(text: str, model: str | None = "openai/m") -> CommandAgent:
    agent = CommandAgent(model)
    agent.variant = text
    return agent


def test_a_command_of_the_users(tmp_path: Path) -> None:
    context = context_for(
        tmp_path, instruction="Do it.", mcp_servers=(McpServer("s", "sse", url="http://x"),)
    )
    agent = command(
        'cat "$RLENV_INSTRUCTION_FILE"; echo " $RLENV_MODEL $OPENAI_BASE_URL $OPENAI_API_KEY"; exit 3'
    )
    agent.check()
    assert agent.run(context).exit_code == 3
    logs_come_here(tmp_path)
    assert (tmp_path / "logs/cmd.txt").read_text() == "Do it. m http://127.0.0.1:1/v1 k\n"
    assert agent.finish(context) is None


def test_a_command_needs_no_model(tmp_path: Path) -> None:
    agent = command('echo "${OPENAI_API_KEY-none}"', None)
    assert not agent.needs_model
    agent.run(context_for(tmp_path, model=None, model_endpoint=None))
    known = os.environ.get("OPENAI_API_KEY", "none")
    assert (tmp_path / "box/logs/agent/cmd.txt").read_text() == f"{known}\n"


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match="could not be started"):
        command("no-such-program --x").run(context_for(tmp_path))


@pytest.mark.parametrize("text", ["", "  "])
def test_no_command(text: str) -> None:
    with pytest.raises(SpecError, match="there is no command"):
        command(text).check()


def test_a_commands_own_trajectory(tmp_path: Path) -> None:
    context, agent = context_for(tmp_path), command("true")
    path = tmp_path / "logs/trajectory.json"
    document = {
        "schema_version": "ATIF-v1.4",
        "agent": {"name": "a", "version": "1"},
        "steps": [{"step_id": 1, "source": "user", "message": "x"}],
        "final_metrics": {"total_prompt_tokens": 3, "total_cost_usd": 0.5},
    }
    path.write_text(json.dumps(document))
    told = agent.finish(context)
    assert told is not None
    assert told.usage == {"input_tokens": 3, "cost_usd": 0.5}
    path.write_text('{"steps": []}')
    told = agent.finish(context)
    assert told is not None
    assert "no ATIF document" in told.notes["trajectory-invalid"]


def test_settings_folders_are_the_agents_own() -> None:
    modes = {entry.path: entry.mode for entry in entries_of(CODEX, Launch("codex", "m"), "Do it.")}
    assert modes == {
        "tmp/rlenv-agent": 0o777,
        "tmp/rlenv-agent/codex": 0o777,
        "tmp/rlenv-agent/instruction.md": 0o666,
        "tmp/rlenv-agent/codex/config.toml": 0o666,
    }
