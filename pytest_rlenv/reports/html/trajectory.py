"""An agent's trajectory (ATIF, and what resembles it) as a plain list of steps to read.

Any agent may write any JSON there. What cannot be made out is shown as it is; nothing here raises for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_rlenv.reports.html.folder import StoredFile
from pytest_rlenv.text import clean

MAX_BYTES = 32 * 1024 * 1024
"""A larger file is named, not read."""
MAX_STEPS = 400
"""Steps that are shown, half of them from the beginning and half from the end."""

_LEAST, _MOST = 240, 8000
"""Characters of one text of a step."""


@dataclass
class Step:
    """One step.

    Attributes:
        number: its place in the trajectory, from 1.
        source: who: ``system``, ``user``, ``agent``, or what else the file says.
        message, reasoning: texts, empty where there is none.
        calls: tools that were called: name and arguments, as text.
        results: what came back, as text.
        facts: time, model and the numbers of its metrics.
    """

    number: int
    source: str
    message: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Trajectory:
    """What is shown of one file.

    Attributes:
        name: the file's name below the rollout's folder.
        total: how many steps it has.
        steps: those that are shown.
        problem: why it cannot be read, or not all of it.
    """

    name: str
    total: int = 0
    steps: list[Step] = field(default_factory=list)
    problem: str = ""


def read_trajectory(file: StoredFile, room: int) -> Trajectory:
    """Read a trajectory and cut it to size.

    Args:
        file: the file.
        room: characters to show.
    """
    if file.size > MAX_BYTES:
        return Trajectory(file.name, problem=f"larger than {MAX_BYTES >> 20} MiB, so it was not read")
    try:
        found = json.loads(file.path.read_bytes())
    except (ValueError, RecursionError) as error:
        return Trajectory(file.name, problem=f"not JSON: {clean(str(error))}")
    raw = _raw_steps(found)
    if raw is None:
        return Trajectory(file.name, problem="it has no list of steps")
    shown = Trajectory(file.name, total=len(raw))
    chosen = list(enumerate(raw, 1))
    if len(chosen) > MAX_STEPS:
        chosen = chosen[: MAX_STEPS // 2] + chosen[-MAX_STEPS // 2 :]
    cutter = _Cutter(room, len(chosen))
    for number, step in chosen:
        if cutter.left <= 0:
            break
        shown.steps.append(_step(number, step, cutter))
    return shown


class _Cutter:
    """Cuts texts so that all of them together stay within the room."""

    def __init__(self, room: int, steps: int) -> None:
        self.left = room
        self._most = min(max(room // (2 * max(steps, 1)), _LEAST), _MOST)

    def __call__(self, value: object) -> str:
        text = clean(_text(value))
        if len(text) > self._most:
            text = f"{text[: self._most]}\n[... {len(text) - self._most:,} more characters]"
        self.left -= len(text)
        return text


def _raw_steps(found: object) -> list[Any] | None:
    if isinstance(found, Mapping):
        found = next((found[key] for key in ("steps", "messages", "trajectory") if key in found), None)
        if isinstance(found, Mapping):
            return _raw_steps(found)
    return found if isinstance(found, list) else None


def _step(number: int, raw: object, cut: _Cutter) -> Step:
    if not isinstance(raw, Mapping):
        return Step(number, "unknown", message=cut(raw))
    source = clean(str(raw.get("source") or raw.get("role") or "unknown"))[:40]
    return Step(
        number,
        source,
        message=cut(raw.get("message", raw.get("content"))),
        reasoning=cut(raw.get("reasoning_content")),
        calls=[(cut(name), cut(arguments)) for name, arguments in _calls(raw.get("tool_calls"))],
        results=[cut(each) for each in _results(raw.get("observation"))],
        facts=[(clean(name)[:40], clean(str(value))[:80]) for name, value in _facts(raw)],
    )


def _text(value: object) -> str:
    """Return a message: a text, parts of one, or anything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(part, Mapping) for part in value):
        return "\n".join(_part(part) for part in value)
    try:
        return json.dumps(value, ensure_ascii=False, indent=2)
    except RecursionError:
        return "[nested too deeply to be shown]"


def _part(part: Mapping[str, Any]) -> str:
    if isinstance(part.get("text"), str):
        return str(part["text"])
    if part.get("type") == "image":
        source = part.get("source")
        where = source.get("path") if isinstance(source, Mapping) else None
        return f"[image{f': {where}' if isinstance(where, str) else ''}]"
    return _text(dict(part))


def _calls(raw: object) -> Iterator[tuple[object, object]]:
    for call in _listed(raw):
        if not isinstance(call, Mapping):
            yield "call", call
            continue
        function = call.get("function")
        inner = function if isinstance(function, Mapping) else call
        name = inner.get("function_name") or inner.get("name") or (function if function else "call")
        yield name, inner.get("arguments", inner.get("input"))


def _results(raw: object) -> Iterator[object]:
    found = raw.get("results", raw) if isinstance(raw, Mapping) else raw
    for result in _listed(found):
        yield result.get("content", dict(result)) if isinstance(result, Mapping) else result


def _listed(raw: object) -> Iterable[object]:
    if raw is None:
        return ()
    return raw if isinstance(raw, list) else (raw,)


def _facts(raw: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name in ("timestamp", "model_name"):
        if isinstance(raw.get(name), str):
            yield name, raw[name]
    metrics = raw.get("metrics")
    if isinstance(metrics, Mapping):
        for name, value in metrics.items():
            if isinstance(value, (int, float, str)) and not isinstance(value, bool):
                yield str(name), value
    yield from _rewards(raw)


def _rewards(raw: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield what a step, or what came of it, earned by its own account: environments pay at each."""
    observation = raw.get("observation")
    results = observation.get("results") if isinstance(observation, Mapping) else None
    for part in (raw, *_listed(results)):
        extra = part.get("extra") if isinstance(part, Mapping) else None
        reward = extra.get("reward") if isinstance(extra, Mapping) else None
        if isinstance(reward, (int, float)):
            yield "reward", reward
