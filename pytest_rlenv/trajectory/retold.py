"""Trajectories of agents that leave none: told by whoever kept a record of what happened to them.

They are for readers. What is to be played again is better taken from the record itself, so they say which
that is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pytest_rlenv.trajectory.model import WRITTEN, AgentInfo, Step, Trajectory
from pytest_rlenv.trajectory.writing import totals, write_trajectory

RECORD = "retold_from"
"""What such a document has in its ``extra``: the name of the record."""


def write_retold(path: Path, agent: AgentInfo, steps: Sequence[Step], *, record: str) -> None:
    """Write the document, with its folder.

    Args:
        path: the file.
        agent: who acted.
        steps: at least one.
        record: the name of what they are told from.

    Raises:
        OSError: it cannot be written. ValidationError: the format has no such document.
    """
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
