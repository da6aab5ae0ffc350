"""``solution.yaml``: what Terminal-Bench's oracle types into a terminal, as far as a shell can do it.

There, each command is typed into tmux. A command that is waited for (``block: true``) and that Enter runs is
the same in one shell, as directory and variables are kept from one to the next. A key that is pressed, an
answer that is typed, a command that is not waited for need the terminal.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from importlib import resources

from pydantic import BaseModel, TypeAdapter, ValidationError

from pytest_rlenv.frameworks.harbor.config_findings import invalid_config
from pytest_rlenv.frameworks.harbor.limits import TimeLimit
from pytest_rlenv.frameworks.terminal_bench.yaml_text import parse_yaml

_KEY = re.compile(
    r"(?:[CMS]-)+\S+|\^.|F\d{1,2}|[BD]C|[NP]Page|KP.*|Enter|Escape|Tab|BTab|Space|BSpace|Up|Down|Left|Right"
    r"|Home|End|IC|PageUp|PageDown|PgUp|PgDn"
)


class TypedCommand(BaseModel):
    """One entry of a ``solution.yaml``, with the defaults of Terminal-Bench 0.2."""

    command: str
    min_timeout_sec: float = 0.0
    max_timeout_sec: TimeLimit = 180.0
    block: bool = False
    append_enter: bool = True

    @property
    def needs_terminal(self) -> str:
        """Which field of it needs a terminal; empty if a shell will do."""
        if _KEY.fullmatch(self.command.rstrip("\r\n")):
            return f"command: {self.command} is a key"
        if not self.append_enter and not self.command.endswith(("\r", "\n")):
            return "append_enter: false leaves it unfinished"
        return "" if self.block else "block: false does not wait for it"


_COMMANDS = TypeAdapter(list[TypedCommand])


def parse_commands(text: bytes | str, path: str) -> list[TypedCommand]:
    """Return the commands of a ``solution.yaml``.

    Raises:
        TaskInvalid: not YAML, or not a list of commands; names file, fields and what is expected.
    """
    raw = parse_yaml(text, path)
    try:
        return _COMMANDS.validate_python(raw)
    except ValidationError as error:
        raise invalid_config(error, raw, path) from None


def first_interactive(commands: Sequence[TypedCommand]) -> str:
    """Return where and why a terminal is needed, such as ``[2].block: ...``; empty if it is not."""
    for number, command in enumerate(commands):
        reason = command.needs_terminal
        if reason:
            return f"[{number}].{reason}"
    return ""


def as_script(commands: Sequence[TypedCommand]) -> str:
    """Return a bash script that runs the commands in one shell, each within its time limit."""
    head = (
        resources.files("pytest_rlenv.frameworks.terminal_bench")
        .joinpath("session.sh")
        .read_text(encoding="utf-8")
    )
    lines = [
        f"run_command {number} {_seconds(command.max_timeout_sec)} {shlex.quote(command.command.rstrip())}"
        for number, command in enumerate(commands)
    ]
    return "\n".join([head, *lines, "end_session", ""])


def _seconds(limit: float | None) -> str:
    """Return a time limit as the shell reads it: without an exponent, 0 for none."""
    return "0" if limit is None else f"{max(limit, 0.001):.3f}".rstrip("0").rstrip(".")
