"""Verifiers for the scripted sandbox that tell whether rollouts run at the same time, and what they leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.project import Project

PASSES = "# scripted: reward=1"


def meets(project: Project, number: int, place: str = "meeting") -> str:
    """Return a verifier that gives a reward only if so many come to one place at the same time."""
    return f"# scripted: meet={project.path / place} {number}\n{PASSES}"


def counts(project: Project, file: str = "ran") -> str:
    """Return a verifier that leaves a line in a file."""
    return f"# scripted: count={project.path / file}\n{PASSES}"


def peaks(project: Project) -> str:
    """Return a verifier that notes in the file ``peak`` how many boxes are up."""
    return f"# scripted: peak={project.path / 'peak'}\n{PASSES}"


def lines(project: Project, name: str) -> list[str]:
    path = project.path / name
    return path.read_text().splitlines() if path.exists() else []


def boxes(project: Project) -> list[Path]:
    """Return a mark for each box that is up."""
    return list((project.path / "scripted" / "up").glob("*"))


def begun(records: list[dict[str, Any]]) -> list[str]:
    """Return the tasks in the order in which they were begun."""
    return [record["task"] for record in sorted(records, key=lambda record: record["started_at"])]
