"""Start a program on an instruction in the box, and read afterwards what it says it did."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

from pytest_rlenv.agents.command_line.settings import told_in_words
from pytest_rlenv.agents.command_line.spec import LOGS, WORK, CommandLineSpec, Launch
from pytest_rlenv.agents.command_line.transcript import Transcript
from pytest_rlenv.agents.protocol import AgentBox, AgentContext
from pytest_rlenv.errors import AgentFailed, RlenvError, SpecError, Stage
from pytest_rlenv.sandboxes.model import Completed, Entry
from pytest_rlenv.text import decode, tail
from pytest_rlenv.trajectory.model import AgentInfo, Trajectory

LOG_CAP = 64 * 1024 * 1024
"""Bytes of a program's log that are read; a larger one is kept, but not read."""
_CANNOT_START = (126, 127)
_SHOWN = 300


def instruction_of(spec: CommandLineSpec, context: AgentContext) -> str:
    """Return the instruction, with what the program cannot be told otherwise."""
    parts = [context.instruction]
    if not spec.takes_mcp:
        parts.append(told_in_words(Launch(spec.name, mcp_servers=context.mcp_servers)))
    if spec.skills is None and context.skills_dir:
        parts.append(
            f"Skills that may help are in {context.skills_dir}: read the SKILL.md of each before you begin."
        )
    return "\n\n".join(part for part in parts if part)


def launch_of(spec: CommandLineSpec, context: AgentContext, model: str | None) -> Launch:
    """Return what a program is given in a rollout.

    Args:
        spec: the program.
        context: the rollout.
        model: the model as the user named it.

    Raises:
        AgentFailed: the program needs a model, and there is none.
        SpecError: the model's provider speaks nothing that the program does.
    """
    launch = Launch(
        spec.name,
        model=(model or "").partition("/")[2] or model or "",
        mcp_servers=context.mcp_servers,
        skills_dir=context.skills_dir,
        resume=context.resume and bool(spec.resume),
    )
    endpoint = context.model_endpoint
    if endpoint is None and spec.install is None:
        return launch
    if endpoint is None:
        raise AgentFailed(f"agent {spec.name}: there is no model to call", hint="name one with --model")
    wire = next((each for each in spec.wires if each in endpoint.wires), None)
    if wire is None:
        raise SpecError(
            f"agent {spec.name}: it speaks {' or '.join(spec.wires)} with a model, "
            f"which {endpoint.provider or 'the provider'} does not",
            hint="choose a model of another provider",
            stage=Stage.AGENT,
        )
    return replace(
        launch,
        model=endpoint.model,
        wire=wire,
        openai_base_url=endpoint.openai_base_url,
        anthropic_base_url=endpoint.anthropic_base_url,
        key=endpoint.key,
    )


def entries_of(spec: CommandLineSpec, launch: Launch, instruction: str) -> list[Entry]:
    """Return the files that a program is given, to be put below ``/``.

    The agent's user may write there: programs keep their sessions beside their settings.
    """
    files = {"instruction.md": instruction, **spec.settings(launch)}
    if launch.mcp_servers:
        servers = [
            {"name": each.name, "transport": each.transport, "url": each.url, "command": each.command}
            | {"args": list(each.args), "headers": dict(each.headers)}
            for each in launch.mcp_servers
        ]
        files["mcp.json"] = json.dumps(servers, indent=1) + "\n"
    work = WORK.lstrip("/")
    folders = {work} | {f"{work}/{name.rpartition('/')[0]}" for name in files if "/" in name}
    return [
        *(Entry(folder, mode=0o777) for folder in sorted(folders)),
        *(Entry(f"{work}/{name}", text.encode(), mode=0o666) for name, text in files.items()),
    ]


def start(spec: CommandLineSpec, launch: Launch, context: AgentContext) -> Completed:
    """Run a program to its end.

    Args:
        spec: the program.
        launch: what it is given.
        context: the rollout.

    Raises:
        AgentTimedOut: the agent's time is up.
        AgentFailed: it could not be started, or ended before it did anything.
    """
    context.box.put(entries_of(spec, launch, instruction_of(spec, context)))
    done = context.box.run(["sh", "-c", spec.script()], env=spec.variables(launch))
    _check_it_ran(spec, context.box, done)
    return done


def read_log(spec: CommandLineSpec, logs: Path) -> Transcript:
    """Read a program's log from the logs on this machine; one that is not there tells nothing."""
    told = Transcript()
    path = logs / (spec.log or spec.output)
    try:
        status = path.lstat()
        if spec.reader is not None and stat.S_ISREG(status.st_mode) and status.st_size <= LOG_CAP:
            spec.reader(path.read_bytes(), told)
    except OSError:
        pass
    return told


def trajectory_of(told: Transcript, agent: AgentInfo, instruction: str) -> Trajectory | None:
    """Return what was told as a trajectory, ``None`` if the agent has not done anything."""
    return told.document(agent, instruction) if told.has_agent_steps else None


def notes_of(told: Transcript) -> dict[str, str]:
    """Return what the program itself says went wrong."""
    errors = _first(told.errors)
    return {"agent-errors": f"the agent says: {errors}"} if errors else {}


def _first(errors: list[str]) -> str:
    return "; ".join(line[:_SHOWN] for each in errors[:3] if (line := " ".join(each.split())))


def _check_it_ran(spec: CommandLineSpec, box: AgentBox, done: Completed) -> None:
    """Refuse a run that left nothing to judge: the program did not start, or its model never answered."""
    told = Transcript()
    if spec.reader is not None:
        spec.reader(_fetch(box, f"{LOGS}/{spec.log or spec.output}"), told)
    if told.has_agent_steps or (done.exit_code == 0 and not told.errors):
        return
    if spec.reader is None and done.exit_code not in _CANNOT_START:
        return
    printed = _fetch(box, f"{LOGS}/{spec.output}") + _fetch(box, f"{LOGS}/{spec.name}-stderr.txt")
    said = _first(told.errors)
    if done.exit_code in _CANNOT_START:
        message = f"agent {spec.name}: it could not be started (exit code {done.exit_code})"
    elif done.exit_code:
        message = f"agent {spec.name}: it exited {done.exit_code} before it did anything"
    else:
        message = f"agent {spec.name}: it did nothing"
    raise AgentFailed(
        f"{message}: {said}" if said else message,
        hint=f"see {spec.output} and {spec.name}-stderr.txt in the rollout's agent folder",
        detail=tail(decode(done.output + printed)),
    )


def _fetch(box: AgentBox, path: str) -> bytes:
    try:
        return box.get(path, cap=LOG_CAP)
    except RlenvError:
        return b""
