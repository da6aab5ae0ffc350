"""Recorded rollouts, which ``replay`` has judged again: what NeMo Gym's collection wrote, or a run of ours.

A line of recorded rollouts has the response and its reward, but often not all of the row: what is judged is
the row with the recorded response. Which of them belong to a row is told by the row's prompt, and by what
else both have; by index where the inputs are kept beside them (``*_materialized_inputs.jsonl``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pytest_rlenv.agents.nop import NopAgent
from pytest_rlenv.errors import AgentFailed
from pytest_rlenv.frameworks.nemo_gym.rows import REQUEST
from pytest_rlenv.frameworks.rewards import finite_reward
from pytest_rlenv.verdict import number

RESULTS = "results.jsonl"
RECORD = "rlenv.json"
"""A rollout's own record, in its folder."""
RESPONSE = "response.json"
"""What a rollout of ours leaves in its ``agent`` folder."""
TOLERANCE = 1e-9
_INDICES = ("_ng_task_index", "_ng_rollout_index")
_INPUTS = ("_materialized_inputs.jsonl", "materialized_inputs.jsonl")
_UNTOLD = frozenset({REQUEST, "agent_ref", "response", "reward"})


@dataclass(frozen=True)
class Recorded:
    """A recorded rollout.

    Attributes:
        where: the file and line, for messages.
        response: the model's response; ``None`` where it was not kept.
        reward: what it got then; ``None`` if it got none.
    """

    where: str
    response: Mapping[str, Any] | None
    reward: float | None

    @property
    def expectation(self) -> str | None:
        """What the reward must be now, in the words of expectations."""
        if self.reward is None:
            return None
        if self.reward == int(self.reward):
            return f"== {number(self.reward)}"
        return f"{self.reward - TOLERANCE!r} <= reward <= {self.reward + TOLERANCE!r}"


def recorded_rollout(source: Path, row: Mapping[str, Any], task: str, attempt: int) -> Recorded | None:
    """Return the recorded rollout of a row; ``None`` if there is none.

    Args:
        source: a file of rollouts, a folder with some, or the folder of a run of ours.
        row: the row.
        task: the task's id, by which our own runs go.
        attempt: which of several, from 1.

    Raises:
        AgentFailed: the source cannot be read.
    """
    try:
        if is_run(source):
            return _of_our_run(source, task, attempt)
        if is_rollout(source):
            return _of_our_rollout(source, task)
        found = [each for file in _files(source) for each in _of_file(file, row)]
    except OSError as error:
        raise AgentFailed(f"agent replay: {source} cannot be read: {error.strerror}") from error
    if attempt > len(found):
        return None
    which = found[attempt - 1]
    return which if len(found) == 1 else replace(which, where=f"{which.where} ({attempt} of {len(found)})")


def is_run(folder: Path) -> bool:
    """Return whether a folder is that of a run of ours."""
    return (folder / RESULTS).is_file()


def is_rollout(folder: Path) -> bool:
    """Return whether a folder is that of a rollout of ours which was judged by a server."""
    return (folder / "agent" / RESPONSE).is_file()


def _files(source: Path) -> list[Path]:
    if not source.is_dir():
        return [source]
    return sorted(path for path in source.glob("*rollouts*.jsonl") if not path.name.endswith(_INPUTS))


def _of_file(file: Path, row: Mapping[str, Any]) -> list[Recorded]:
    same = [line for line in _lines(file).get(_key(row), ()) if line.content.get("response") is not None]
    alike = [line for line in same if _agree(line.content, row)]
    return [_recorded(file, line) for line in alike or same]


@dataclass(frozen=True)
class _Line:
    number: int
    content: dict[str, Any]


@cache
def _lines(file: Path) -> Mapping[str, Sequence[_Line]]:
    """Return a file's rollouts by their prompts; a line that is none is left out."""
    inputs = {
        indices: content
        for _, content in _objects(_inputs_of(file))
        if (indices := _indices(content)) is not None
    }
    lines: dict[str, list[_Line]] = {}
    for index, content in _objects(file):
        asked = inputs.get(_indices(content) or (), content)
        if isinstance(asked.get(REQUEST), dict):
            lines.setdefault(_key(asked), []).append(_Line(index, {**asked, **content}))
    return lines


def _inputs_of(file: Path) -> Path | None:
    stem = file.stem.removesuffix("_rollouts")
    names = {name for end in _INPUTS for name in (file.stem + end, stem + end)}
    return next((path for name in sorted(names) if (path := file.with_name(name)).is_file()), None)


def _objects(file: Path | None) -> Iterator[tuple[int, dict[str, Any]]]:
    if file is None:
        return
    with file.open("rb") as lines:
        for index, line in enumerate(lines, start=1):
            try:
                content = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(content, dict):
                yield index, content


def _indices(content: Mapping[str, Any]) -> tuple[int, ...] | None:
    found = tuple(content.get(key) for key in _INDICES)
    return found if all(isinstance(each, int) for each in found) else None  # type: ignore[return-value] # now it is


def _key(row: Mapping[str, Any]) -> str:
    """Return a row's prompt such that what a server adds to it makes no difference."""
    return json.dumps(_plain(row[REQUEST].get("input")), sort_keys=True)


def _plain(prompt: Any) -> Any:
    if isinstance(prompt, str):
        return [["user", prompt]]
    if not isinstance(prompt, list):
        return prompt
    return [_plain_item(item) if isinstance(item, dict) else item for item in prompt]


def _plain_item(item: Mapping[str, Any]) -> Any:
    if "role" in item:
        content = item.get("content")
        if isinstance(content, list):
            parts = [part.get("text") or part.get("image_url") for part in content if isinstance(part, dict)]
            content = "".join(map(str, parts))
        return [item["role"], content]
    return {key: value for key, value in item.items() if value is not None and key not in ("id", "status")}


def _agree(content: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    return all(content[key] == value for key, value in row.items() if key in content and key not in _UNTOLD)


def _recorded(file: Path, line: _Line) -> Recorded:
    where = f"{file.name}, line {line.number}"
    reward = line.content.get("reward")
    response = line.content.get("response")
    return Recorded(
        where,
        response if isinstance(response, dict) else None,
        None if reward is None else finite_reward(reward, f"the recorded reward in {where}"),
    )


def _of_our_run(run: Path, task: str, attempt: int) -> Recorded | None:
    own = [
        record
        for _, record in _objects(run / RESULTS)
        if record.get("task") == task
        and record.get("attempt", 1) == attempt
        and isinstance(record.get("logs"), str)
        and is_rollout(run / record["logs"])
    ]
    own = [record for record in own if record.get("agent") != NopAgent.name] or own
    if len(agents := sorted({str(record.get("agent")) for record in own})) > 1:
        raise AgentFailed(
            f"agent replay: several agents have a response to {task} in {run}: {', '.join(agents)}",
            hint="name the folder of one rollout, or a run of one agent",
        )
    return _of_our_record(run / own[-1]["logs"], own[-1]) if own else None


def _of_our_rollout(folder: Path, task: str) -> Recorded | None:
    record = _json(folder / RECORD)
    return _of_our_record(folder, record) if record.get("task") == task else None


def _of_our_record(folder: Path, record: Mapping[str, Any]) -> Recorded:
    reward = record.get("reward")
    return Recorded(
        str(folder),
        _json(folder / "agent" / RESPONSE),
        None if reward is None else finite_reward(reward, f"the recorded reward in {folder}"),
    )


def _json(file: Path) -> dict[str, Any]:
    """Return what a file of ours holds.

    Raises:
        OSError: it cannot be read. AgentFailed: it is no object.
    """
    try:
        content = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise AgentFailed(f"agent replay: {file} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise AgentFailed(f"agent replay: {file} is no object but {type(content).__name__}")
    return content
