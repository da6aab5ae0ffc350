"""The one tool: a command in the box, with its end and its output cut to size."""

from __future__ import annotations

import math
from typing import Any

from pytest_rlenv.agents.bash.limits import Limits
from pytest_rlenv.agents.conversing.replies import Call, Json, Reply
from pytest_rlenv.agents.conversing.session import NOT_RUN, Shown
from pytest_rlenv.agents.ending import AgentTimedOut
from pytest_rlenv.agents.protocol import AgentBox
from pytest_rlenv.sandboxes.model import Completed
from pytest_rlenv.text import decode

NAME = "bash"
TOOL: Json = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "Run a command in the task's environment. Returns its output and exit code.",
        "parameters": {
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "What to run; may be a whole script."},
                "timeout": {"type": "integer", "description": "Seconds after which it is killed."},
            },
            "required": ["command"],
        },
    },
}

LEFT_OUT = "[this output was left out to save room; run the command again if you need it]"
"""What stands in the place of an output that no longer fits."""

QUIET = {
    "DEBIAN_FRONTEND": "noninteractive",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "PAGER": "cat",
    "TERM": "dumb",
}
"""Variables that keep programs from waiting for somebody at a keyboard."""

LONGEST = 100_000
"""Bytes of a command: the kernel takes no argument of more than 128 KiB."""
_PATIENT = 15.0
"""Seconds beyond a command's own limit before all processes of the box are killed for it."""
_SIGNALLED = (124, 137)

# `timeout` kills the command alone; what an earlier command has started, such as a server, goes on
_LIMITED = """
if command -v timeout >/dev/null 2>&1; then exec timeout -k 5 "$2" "$1" -c "$3"; fi
exec "$1" -c "$3"
"""


class Shell:
    """Runs the model's commands in a box.

    Args:
        box: where.
        limits: of time and output.
        program: ``bash``, or ``sh`` in a box without it.
    """

    def __init__(self, box: AgentBox, limits: Limits, program: str = "bash") -> None:
        self._box = box
        self._limits = limits
        self._program = program

    @property
    def done(self) -> bool:
        """Never: the model says when it is."""
        return False

    def beside(self, reply: Reply) -> None:
        """Hear nothing: a shell has no ears."""

    def answer(self, reply: Reply) -> None:
        """Say nothing to a reply without a command: it ends the session."""

    def late(self, error: AgentTimedOut) -> Shown:
        """Return what a command that was cut short has printed."""
        return shown(error.completed) if error.completed else NOT_RUN

    def call(self, call: Call) -> Shown:
        """Do what a call asks for; what cannot be done is said to the model.

        Raises:
            AgentTimedOut: the agent's time is up.
        """
        if call.name != NAME:
            return Shown(f"There is no tool {call.name!r}; the only one is {NAME!r}.", {})
        if call.arguments is None:
            return Shown("The arguments are not a JSON object. Nothing was run.", {})
        command = call.arguments.get("command")
        if not isinstance(command, str) or not command.strip():
            return Shown("`command` must be a text that is not empty. Nothing was run.", {})
        if "\0" in command:
            return Shown("`command` has a NUL character in it. Nothing was run.", {})
        return self.run(command, call.arguments.get("timeout"))

    def run(self, command: str, timeout: object = None, *, cwd: str | None = None) -> Shown:
        """Run a command.

        Args:
            command: for the shell.
            timeout: seconds that the model asks for; what is no number is as if nothing were asked for.
            cwd: working directory; the task's by default.

        Raises:
            AgentTimedOut: the agent's time is up.
        """
        length = len(command.encode("utf-8", "surrogatepass"))
        if length > LONGEST:
            return Shown(
                f"`command` is {length} bytes long, and the longest that can be run has {LONGEST}: "
                "write a large file by several commands. Nothing was run.",
                {},
            )
        seconds = self._seconds(timeout)
        done = self._box.run(
            [self._program, "-c", _LIMITED, "rlenv", self._program, str(seconds), command],
            env=QUIET,
            cwd=cwd,
            timeout=seconds + _PATIENT,
            cap=self._limits.output_bytes,
        )
        return shown(done, seconds)

    def _seconds(self, asked: object) -> int:
        if isinstance(asked, (int, float)) and not isinstance(asked, bool) and math.isfinite(asked):
            return min(max(1, math.ceil(asked)), self._limits.longest_command)
        return self._limits.command_seconds


def find_shell(box: AgentBox) -> str:
    """Return the shell that a box has: ``bash``, else ``sh``."""
    return "bash" if box.run(["sh", "-c", "command -v bash"], timeout=60).exit_code == 0 else "sh"


def shown(done: Completed, seconds: float | None = None) -> Shown:
    """Return a command's end as the model, and the trajectory, have it.

    Args:
        done: how it ended.
        seconds: its limit; ``None`` where it was cut short for another reason.
    """
    killed = done.timed_out or (
        seconds is not None and done.exit_code in _SIGNALLED and done.seconds >= seconds
    )
    facts: dict[str, Any] = {
        "exit_code": None if killed else done.exit_code,
        "seconds": round(done.seconds, 3),
        "output_bytes": done.output_bytes,
    }
    if killed:
        facts["timed_out"] = True
        end = f"[killed after {seconds:.0f} s]" if seconds is not None else "[killed: the time was up]"
    else:
        end = f"[exit code {done.exit_code}]"
    if done.oom_killed:
        facts["out_of_memory"] = True
        end += " [a process was killed for lack of memory]"
    output = decode(done.output).rstrip("\n")
    return Shown(f"{output}\n{end}" if output else end, facts)
