"""An episode's surroundings, for agents' own parts, and the trajectory that is left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

from pytest_rlenv.agents.episode import EpisodeContext
from pytest_rlenv.trajectory.model import Trajectory
from pytest_rlenv.trajectory.reading import read_trajectory

SCHEMA = json.loads((Path(__file__).parents[1] / "trajectory" / "atif.schema.json").read_text())


def surroundings(tmp: Path, **more: Any) -> EpisodeContext:
    logs = tmp / "logs"
    logs.mkdir(exist_ok=True)
    return EpisodeContext(**{"instruction": "Find the number.", "logs": logs, "task": "t0", **more})


def left(tmp: Path) -> Trajectory:
    """Return the trajectory, once it is seen to be one."""
    path = tmp / "logs" / "trajectory.json"
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(path.read_text()))
    return read_trajectory(path)


def results(trajectory: Trajectory) -> list[str]:
    return [str(r.content) for step in trajectory.steps if step.observation for r in step.observation.results]
