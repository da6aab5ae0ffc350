"""Which stored trajectory a rollout replays: of a file, a rollout's folder, or a whole run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_rlenv.errors import AgentFailed, SpecError, Stage
from pytest_rlenv.trajectory import TRAJECTORY
from pytest_rlenv.trajectory.retold import is_retold

RESULTS = "results.jsonl"


def check_source(path: Path) -> None:
    """See that there is something to replay.

    Raises:
        SpecError: there is not.
    """
    if not path.exists():
        raise SpecError(
            f"agent replay: {path} does not exist", hint="name a trajectory.json, or the folder of a run"
        )
    known = any((path / name).exists() for name in (RESULTS, TRAJECTORY, "agent", "steps"))
    if path.is_dir() and not known and not any(path.glob("*rollouts*.jsonl")):
        raise SpecError(
            f"agent replay: no {RESULTS}, {TRAJECTORY}, agent/ or steps/ in {path}",
            hint="name a trajectory.json, the folder of a rollout, or the folder of a run",
        )


def find_trajectory(path: Path, task: str, step: str) -> Path:
    """Return the trajectory to replay.

    Args:
        path: the trajectory itself, a rollout's folder, or a run's.
        task: the task's id, by which a run's rollouts are told apart.
        step: the step's name; empty for a task without steps.

    Raises:
        AgentFailed: there is none for this task or step, or the run has several agents' of it.
    """
    if path.is_file():
        if step:
            raise AgentFailed(
                f"agent replay: {path} is one trajectory, and task {task} has several steps",
                hint="name the folder of a rollout or of a run",
            )
        return path
    folder = _rollout_of(path, task) if (path / RESULTS).is_file() else path
    below = folder / "steps" / step if step else folder
    for found in (below / "agent" / TRAJECTORY, below / TRAJECTORY):
        if found.is_file():
            return found
    where = f"step {step} of " if step else ""
    raise AgentFailed(
        f"agent replay: no trajectory of {where}task {task} in {folder}",
        hint="only agents that write a trajectory.json can be replayed; oracle and nop write none",
    )


def _rollout_of(run: Path, task: str) -> Path:
    """Return the folder of the task's rollout: of several attempts the first one."""
    own = [each for each in _records(run / RESULTS) if each.get("task") == task and each.get("logs")]
    if not own:
        raise AgentFailed(f"agent replay: the run in {run} has no rollout of task {task}")
    told = [each for each in own if each.get("trajectories")]
    written = [each for each in told if not is_retold(run / str(each["trajectories"][0]))] or told or own
    if len(agents := sorted({str(each.get("agent")) for each in written})) > 1:
        raise AgentFailed(
            f"agent replay: several agents have a trajectory of task {task} in {run}: {', '.join(agents)}",
            hint="name the folder of one rollout",
        )
    written.sort(key=_attempt)
    return run / str(written[0]["logs"])


def _attempt(record: dict[str, Any]) -> int:
    attempt = record.get("attempt")
    return attempt if isinstance(attempt, int) else 1


def _records(file: Path) -> Iterator[dict[str, Any]]:
    """Yield a run's records; a line that a killed run left unfinished is none."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise AgentFailed(
            f"agent replay: {file} cannot be read: {error.strerror}", stage=Stage.AGENT
        ) from None
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record
