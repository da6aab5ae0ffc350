"""Which recorded episode a rollout replays: a file, or the ``frames.jsonl`` that an earlier rollout left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_rlenv.agents.replay.agent import ReplayAgent
from pytest_rlenv.agents.replay.finding import RESULTS
from pytest_rlenv.errors import AgentFailed
from pytest_rlenv.frameworks.openenv.frame_log import FRAMES
from pytest_rlenv.frameworks.openenv.plans import Plan, read_frames, read_plan
from pytest_rlenv.trajectory import TRAJECTORY
from pytest_rlenv.trajectory.retold import is_retold


def recorded_of(agent: ReplayAgent, task: str) -> Plan | None:
    """Return what ``replay:PATH`` names, if it is of our form; ``None`` if it is another agent's trajectory.

    Raises:
        AgentFailed: it is of our form, and has nothing for this task. TaskInvalid: it cannot be read.
    """
    path = Path(agent.variant).expanduser()
    if path.is_file():
        if path.suffix == ".jsonl":
            return read_frames(path)
        return read_plan(path) if _is_plan(path) else None
    if (path / FRAMES).is_file():
        return None if _has_moves(path) else read_frames(path / FRAMES)
    if not (path / RESULTS).is_file():
        return None
    folders = [path / str(record["logs"]) for record in _records(path / RESULTS, task)]
    with_frames = [folder for folder in folders if (folder / FRAMES).is_file()]
    if not with_frames or any(_has_moves(folder) for folder in with_frames):
        return None
    if len(with_frames) > 1:
        raise AgentFailed(
            f"agent replay: several rollouts of task {task} in {path}",
            hint="name the folder of one rollout",
        )
    return read_frames(with_frames[0] / FRAMES)


def _has_moves(folder: Path) -> bool:
    """Return whether an agent has left its moves: replayed as such, they tell where they differ."""
    path = folder / "agent" / TRAJECTORY
    return path.is_file() and not is_retold(path)


def _is_plan(path: Path) -> bool:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and isinstance(content.get("actions"), list)


def _records(file: Path, task: str) -> Iterator[dict[str, Any]]:
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue  # a line that a killed run left unfinished
        if isinstance(record, dict) and record.get("task") == task and record.get("logs"):
            yield record
