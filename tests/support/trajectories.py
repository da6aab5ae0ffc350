"""Trajectories as short rows: as they are, and as the HTML report shows them."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_rlenv.reports.html.evidence import EACH
from pytest_rlenv.reports.html.folder import StoredFile
from pytest_rlenv.reports.html.trajectory import read_trajectory
from pytest_rlenv.trajectory.model import Trajectory

Row = tuple[str, str, list[str], list[str]]


def shape(trajectory: Trajectory) -> list[Row]:
    """Return each step's source, words, calls and results."""
    return [
        (
            step.source,
            str(step.message),
            [f"{call.function_name} {json.dumps(call.arguments)}" for call in step.tool_calls or ()],
            [str(result.content) for result in (step.observation.results if step.observation else ())],
        )
        for step in trajectory.steps
    ]


def shown_in_the_report(path: Path) -> list[Row]:
    """Return the same of each step as the report shows it."""
    page = read_trajectory(StoredFile(path, ("agent", path.name), path.stat().st_size), EACH)
    assert page.problem == ""
    return [
        (
            step.source,
            step.message,
            [f"{name} {json.dumps(json.loads(arguments))}" for name, arguments in step.calls],
            step.results,
        )
        for step in page.steps
    ]
