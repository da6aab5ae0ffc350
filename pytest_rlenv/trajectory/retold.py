"""Trajectories of agents that leave none: told by whoever kept a record of what happened to them.

They are for readers. What is to be played again is better taken from the record itself, so they say which
that is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import ValidationError

from pytest_rlenv.errors import TaskInvalid, Unsupported
from pytest_rlenv.trajectory.model import WRITTEN, AgentInfo, Step, Trajectory
from pytest_rlenv.trajectory.writing import totals, write_trajectory

RECORD = "retold_from"
"""What such a document has in its ``extra``: the name of the record."""

_STRANGE = (
    *(OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError),
    *(OverflowError, ValidationError, TaskInvalid, Unsupported),
)
"""What a stranger's record may raise when it is read."""


def leave_retold(path: Path, agent: AgentInfo, tell: Callable[[], Sequence[Step]], *, record: str) -> None:
    """Write the document, with its folder, where the agent has left none; never raises.

    Args:
        path: the file.
        agent: who acted.
        tell: makes the steps; without any, nothing is written.
        record: the name of what they are told from, which tells all that there is where this cannot.
    """
    if path.exists():
        return
    try:
        if steps := tell():
            _write(path, agent, steps, record)
    except _STRANGE:
        path.unlink(missing_ok=True)


def _write(path: Path, agent: AgentInfo, steps: Sequence[Step], record: str) -> None:
    document = Trajectory(
        schema_version=WRITTEN,
        agent=agent,
        steps=list(steps),
        final_metrics=totals(steps),
        extra={RECORD: record},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_trajectory(path, document)


def is_retold(path: Path) -> bool:
    """Return whether a file is such a document."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    extra = document.get("extra") if isinstance(document, dict) else None
    return isinstance(extra, dict) and RECORD in extra
