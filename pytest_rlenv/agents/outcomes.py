"""What an agent returned, checked and made safe to store: an agent is a stranger's code."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from pytest_rlenv.agents.protocol import AgentOutcome
from pytest_rlenv.errors import AgentFailed, Stage
from pytest_rlenv.sandboxes.model import Completed
from pytest_rlenv.text import clean, text_of

_DEEPEST = 20
"""Levels of nested usage that are kept; a structure that holds itself has no end."""
_MOST_BITS = 1024
"""Bits of a whole number that is kept as a number: Python does not print one of any length."""
_SHOWN = 100


def check_prepared(returned: object, agent: str) -> None:
    """Refuse what ``prepare`` cannot return.

    Raises:
        AgentFailed: it is a coroutine or a generator, so nothing of it has run.
    """
    if _is_suspended(returned):
        raise _suspended(returned, agent, "prepare", Stage.AGENT_SETUP)


def check_outcome(returned: object, agent: str, method: str = "run") -> AgentOutcome | None:
    """Return what ``run``, or another method, returned if it is what it may return.

    Raises:
        AgentFailed: it is something else, or has a field of a wrong type.
    """
    if returned is None:
        return None
    if _is_suspended(returned):
        raise _suspended(returned, agent, method, Stage.AGENT)
    if not isinstance(returned, AgentOutcome):
        raise _wrong(agent, f"{method} returned", returned, "AgentOutcome or None")
    if returned.completed is not None and not isinstance(returned.completed, Completed):
        raise _wrong(agent, "AgentOutcome.completed is", returned.completed, "the Completed of a command")
    code: object = returned.exit_code
    if code is not None and (not isinstance(code, numbers.Integral) or int(code).bit_length() > _MOST_BITS):
        raise _wrong(agent, "AgentOutcome.exit_code is", code, "a whole number or None")
    return returned


def clean_usage(usage: object) -> tuple[dict[str, Any], list[str]]:
    """Return usage as JSON can hold it, and the places of the values that had to become text.

    Numbers of any kind (NumPy's, decimals) become plain ones. What is not a table is kept as one, under the
    key ``usage``.
    """
    changed: list[str] = []
    table = usage if isinstance(usage, Mapping) else {"usage": usage}
    if table is not usage:
        changed.append("usage")
    found = _plain(table, "", changed, 0)
    if not isinstance(found, dict):
        found = {"usage": found}
    return found, list(dict.fromkeys(changed))


def clean_notes(notes: object) -> list[tuple[str, str]]:
    """Return an agent's notes as codes and texts; what is no table of them is one note by itself."""
    if not isinstance(notes, Mapping):
        return [] if notes is None else [("agent", text_of(notes))]
    try:
        found = list(notes.items())
    except Exception:  # its own methods are broken
        return [("agent", text_of(notes))]
    return [(text_of(code), text_of(text)) for code, text in found]


def _plain(value: Any, where: str, changed: list[str], level: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = clean(str(value))
        if text != value:
            changed.append(where)
        return text
    if isinstance(value, (numbers.Real, Decimal)):
        number = _number(value)
        if number is not None:
            return number
    elif isinstance(value, (Mapping, list, tuple)) and level < _DEEPEST:
        try:
            return _nested(value, where, changed, level)
        except Exception:  # its own methods are broken: shown as text below
            pass
    changed.append(where)
    if isinstance(value, int):
        return f"a whole number of {value.bit_length()} bits"
    return "..." if level >= _DEEPEST else text_of(value)


def _nested(value: Mapping[Any, Any] | Iterable[Any], where: str, changed: list[str], level: int) -> Any:
    if not isinstance(value, Mapping):
        return [_plain(item, f"{where}[{i}]", changed, level + 1) for i, item in enumerate(value)]
    found = {}
    for key, item in value.items():
        name = text_of(key)
        place = f"{where}.{name}" if where else name
        if name != key:
            changed.append(place)
        found[name] = _plain(item, place, changed, level + 1)
    return found


def _number(value: Any) -> int | float | None:
    """Return a number as a plain one, ``None`` for one that JSON does not have."""
    try:
        if isinstance(value, numbers.Integral):
            whole = int(value)
            return whole if whole.bit_length() <= _MOST_BITS else None
        real = float(value)
        return real if math.isfinite(real) else None
    except (ArithmeticError, ValueError, TypeError):
        return None


def _is_suspended(value: object) -> bool:
    return inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value)


def _suspended(value: object, agent: str, method: str, stage: Stage) -> AgentFailed:
    """Return the error for a method whose body has not run at all."""
    if inspect.iscoroutine(value):
        value.close()  # Python would warn that nobody awaited it
    if inspect.isgenerator(value):
        return AgentFailed(
            f"agent {agent}: {method} must not be a generator, but it has a `yield`",
            hint="return an AgentOutcome, or None",
            stage=stage,
        )
    return AgentFailed(
        f"agent {agent}: {method} must not be async, but it returned a {type(value).__name__}",
        hint=f"write `def {method}`, with asyncio.run(...) in it",
        stage=stage,
    )


def _wrong(agent: str, what: str, value: object, expected: str) -> AgentFailed:
    shown = text_of(value) if not isinstance(value, int) else type(value).__name__
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    return AgentFailed(f"agent {agent}: {what} {shown!r} ({type(value).__name__}); expected {expected}")
