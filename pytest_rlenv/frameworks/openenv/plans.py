"""Recorded episodes: the arguments of a reset and the actions after it.

The form is OpenEnv 0.10's runtime plan, so that one file serves both; what it asks for and we have no need
of (``plan_schema_version``, an ``episode_id``) may be left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_rlenv.errors import TaskInvalid

MOST_BYTES = 64 * 1024
MOST_ACTIONS = 100
DEEPEST = 32
"""OpenEnv's own bounds."""

MOST_STORED_BYTES = 64 * 1024 * 1024
MOST_STORED_ACTIONS = 100_000
"""Bounds of what an earlier run left to be replayed."""


@dataclass(frozen=True)
class Plan:
    """A recorded episode.

    Attributes:
        actions: what to take, in order.
        reset: arguments of reset, without ``episode_id``.
        episode_id: the name that it had.
    """

    actions: tuple[Mapping[str, Any], ...]
    reset: Mapping[str, Any] = field(default_factory=dict)
    episode_id: str | None = None


def read_plan(path: Path) -> Plan:
    """Read a recorded episode.

    Raises:
        TaskInvalid: there is no such file, or it is none.
    """
    return parse_plan(_read(path, MOST_BYTES), path.name)


def parse_plan(text: str, name: str) -> Plan:
    """Read a recorded episode from its text.

    Args:
        text: JSON.
        name: of its file, for messages.

    Raises:
        TaskInvalid: it is none.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TaskInvalid(f"{name} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise TaskInvalid(f"{name} is no object with `reset` and `actions`")
    if _depth(content) > DEEPEST:
        raise TaskInvalid(f"{name} is nested more than {DEEPEST} deep")
    actions = content.get("actions")
    if not isinstance(actions, list) or not all(isinstance(action, dict) for action in actions):
        raise TaskInvalid(f"{name}: actions is no list of objects")
    if len(actions) > MOST_ACTIONS:
        raise TaskInvalid(f"{name} has {len(actions)} actions, more than {MOST_ACTIONS}")
    reset = content.get("reset", {})
    if not isinstance(reset, dict):
        raise TaskInvalid(f"{name}: reset is no object")
    return Plan(tuple(actions), *_arguments(reset, name))


def read_frames(path: Path) -> Plan:
    """Read what was sent in an earlier rollout, from the ``frames.jsonl`` that it left.

    Raises:
        TaskInvalid: it cannot be read.
    """
    actions: list[Mapping[str, Any]] = []
    reset: dict[str, Any] = {}
    for line in _read(path, MOST_STORED_BYTES).splitlines():
        try:
            sent = json.loads(line).get("sent")
        except (ValueError, AttributeError, RecursionError):
            continue  # a line that a killed run left unfinished
        if not isinstance(sent, dict) or not isinstance(sent.get("data"), dict):
            continue
        if sent.get("type") == "reset":
            reset, actions = sent["data"], []
        elif sent.get("type") == "step" and len(actions) < MOST_STORED_ACTIONS:
            actions.append(sent["data"])
    return Plan(tuple(actions), *_arguments(reset, path.name))


def _arguments(reset: dict[str, Any], name: str) -> tuple[dict[str, Any], str | None]:
    """Return a reset's arguments; OpenEnv's plans keep all but the seed in ``options``."""
    options = reset.get("options", {})
    if not isinstance(options, dict):
        raise TaskInvalid(f"{name}: reset.options is no object")
    arguments = {**{key: value for key, value in reset.items() if key != "options"}, **options}
    episode = arguments.pop("episode_id", None)
    return arguments, episode if isinstance(episode, str) else None


def _read(path: Path, most: int) -> str:
    try:
        if path.stat().st_size > most:
            raise TaskInvalid(f"{path.name} is larger than {most} bytes")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TaskInvalid(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TaskInvalid(f"{path.name} is not UTF-8") from None


def _depth(value: Any) -> int:
    """Return how deep a decoded value is nested; what is too deep for this is too deep for anybody."""
    deepest, left = 0, [(value, 1)]
    while left:
        each, depth = left.pop()
        deepest = max(deepest, depth)
        if isinstance(each, dict):
            left.extend((child, depth + 1) for child in each.values())
        elif isinstance(each, list):
            left.extend((child, depth + 1) for child in each)
    return deepest
