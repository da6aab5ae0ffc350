"""The commands in a trajectory, whichever agent wrote it, and what came of them then."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_rlenv.trajectory.model import Step, ToolCall, Trajectory, text_of_content

SHELLS = frozenset(
    {
        "bash",
        "developer__shell",
        "exec_command",
        "execute_bash",
        "execute_command",
        "local_shell",
        "run_command",
        "run_shell_command",
        "run_terminal_cmd",
        "shell",
        "terminal",
    }
)
"""Tools that run a command, by their names in lower case."""
_COMMAND = ("command", "cmd", "commands", "script")
_FOLDER = ("workdir", "cwd", "directory", "dir_path")
_MILLISECONDS = 1800
"""Some agents give time limits in milliseconds: a number above this is taken for that."""
_EXIT = re.compile(r"(?:<returncode>|exit(?:ed)?(?: with)?(?: code| status)?\s*[:=]?\s*)(-?\d{1,3})\b", re.I)


@dataclass(frozen=True)
class Recorded:
    """A command that was run, and what came of it.

    Attributes:
        step: the number of its step in the trajectory.
        call: how the agent called it.
        command: for the shell.
        timeout: seconds that it was given, if the agent said so.
        cwd: the folder it was run in, if the agent said so.
        output: what the agent was shown; ``None`` if nothing is recorded.
        exit_code: how it ended; ``None`` if that is not recorded.
        timed_out: True if it was killed for taking too long.
    """

    step: int
    call: ToolCall
    command: str
    timeout: float | None = None
    cwd: str | None = None
    output: str | None = None
    exit_code: int | None = None
    timed_out: bool = False


@dataclass
class Script:
    """What there is to replay.

    Attributes:
        commands: in order.
        left_out: how often each other tool was called, which cannot be replayed.
    """

    commands: list[Recorded] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def script_of(trajectory: Trajectory) -> Script:
    """Return the commands of a trajectory; what was copied into it from another one is not its own."""
    script = Script()
    for step in trajectory.steps:
        if step.is_copied_context:
            continue
        for call in step.tool_calls or ():
            command = _command(call)
            if command is None:
                script.left_out[call.function_name] += 1
            else:
                script.commands.append(_recorded(step, call, command))
    return script


def _command(call: ToolCall) -> str | None:
    if call.function_name.lower() not in SHELLS:
        return None
    for name in _COMMAND:
        value = call.arguments.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return shlex.join(value)
    return None


def _recorded(step: Step, call: ToolCall, command: str) -> Recorded:
    folder = next((found for name in _FOLDER if isinstance(found := call.arguments.get(name), str)), None)
    results = step.observation.results if step.observation else []
    own = [each for each in results if each.source_call_id == call.tool_call_id]
    if not own and len(step.tool_calls or ()) == 1:
        own = [each for each in results if each.source_call_id is None]
    output = "\n".join(text_of_content(each.content) for each in own) if own else None
    facts: Mapping[str, Any] = own[0].extra or {} if own else {}
    return Recorded(
        step=step.step_id,
        call=call,
        command=command,
        timeout=_seconds(call.arguments.get("timeout")),
        cwd=folder,
        output=output,
        exit_code=_exit_code(facts, output),
        timed_out=facts.get("timed_out") is True,
    )


def _seconds(timeout: object) -> float | None:
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or timeout <= 0:
        return None
    return timeout / 1000 if timeout > _MILLISECONDS else timeout


def _exit_code(facts: Mapping[str, Any], output: str | None) -> int | None:
    """Return the exit code that the trajectory tells, beside the output or in its last words."""
    for name in ("exit_code", "return_code", "returncode"):
        value = facts.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    if facts or output is None:
        return None
    found = _EXIT.findall(output[:200]) + _EXIT.findall(output[-200:])
    return int(found[-1]) if found and len(set(found)) == 1 else None
