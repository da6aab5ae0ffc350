"""Agents as they are named on one line: ``oracle,opencode:1.18.33,cmd:"my-agent --fast"``."""

from __future__ import annotations

import re

COMMAND = "cmd"
"""The agent whose variant is a command, with spaces and commas of its own."""

_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s,"'])+|["']""")
_COMMAND = re.compile(rf"""(?:^|[\s,]){COMMAND}:(?!["'])""")


def split_agents(text: str) -> list[str]:
    """Return the agents of a line, separated by commas or white space; quotes keep a command together.

    A command without quotes, since a shell has taken them off, takes the rest of the line.
    """
    rest = ""
    if (command := _COMMAND.search(text)) is not None:
        begin = command.start() + command.group().index(COMMAND)
        text, rest = text[:begin], text[begin:].strip()
    return [*_WORD.findall(text), *([rest] if rest else [])]


def unquoted(variant: str) -> str:
    """Return a variant without the quotes around it."""
    if len(variant) > 1 and variant[0] == variant[-1] and variant[0] in "\"'":
        return variant[1:-1]
    return variant
