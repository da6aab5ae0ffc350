"""Values of a compose file: what kind they are, in text, and what a command amounts to."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_rlenv.errors import TaskInvalid

COMPOSE_FILE = "docker-compose.yaml"
_SLEEPS = (["sleep", "infinity"], ["tail", "-f", "/dev/null"])
_SHOWN_CHARS = 60


def mapping(value: Any, where: str) -> Mapping[Any, Any]:
    """Return a value that must be a mapping.

    Raises:
        TaskInvalid: it is another; names ``where``.
    """
    if not isinstance(value, Mapping):
        raise TaskInvalid(f"{COMPOSE_FILE}: {where} is {shown(value)}, not a mapping")
    return value


def scalar(value: Any, where: str) -> str:
    """Return a text or number as text.

    Raises:
        TaskInvalid: it is something else; names ``where``.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise TaskInvalid(f"{COMPOSE_FILE}: {where} is {shown(value)}, not a text")
    return str(value)


def variables(value: Any, where: str) -> Iterator[tuple[str, str | None]]:
    """Yield the variables of a list of ``NAME=value`` or of a mapping; ``None`` is the caller's value.

    Raises:
        TaskInvalid: it is neither, or holds what is no variable; names ``where``.
    """
    items = value.items() if isinstance(value, Mapping) else _assignments(value, where)
    for name, content in items:
        if not isinstance(name, str) or not name or "=" in name or isinstance(content, (list, Mapping)):
            raise TaskInvalid(f"{COMPOSE_FILE}: {where}.{shown(name)} is not the text of a variable")
        yield (
            name,
            str(content).lower() if isinstance(content, bool) else None if content is None else str(content),
        )


def sleeps(command: Any) -> bool:
    """True for a command that does nothing for ever: a container of ours is kept up by other means."""
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
        if len(words) == 3 and words[0].rpartition("/")[2] in ("sh", "bash") and words[1] == "-c":
            words = shlex.split(words[2])
    except (AttributeError, TypeError, ValueError):
        return False
    return words in _SLEEPS


def shown(value: Any) -> str:
    """Return a value for a message: short, in one line, all of it printable."""
    if isinstance(value, (list, Mapping)):
        return "a list" if isinstance(value, list) else "a mapping"
    if value is None:
        return "nothing"
    text = str(value)
    text = text if text.strip() and text.isprintable() else ascii(text)
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 3]}..."


def listed(names: Iterable[Any]) -> str:
    """Return names for a message."""
    return ", ".join(shown(name) for name in names) or "none"


def _assignments(value: Any, where: str) -> Iterator[tuple[Any, Any]]:
    if value is None:
        return
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TaskInvalid(f"{COMPOSE_FILE}: {where} is neither a list of NAME=value nor a mapping")
    for item in value:
        name, is_assigned, content = item.partition("=")
        yield name, content if is_assigned else None
