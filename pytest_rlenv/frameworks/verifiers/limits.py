"""How long the stages of a task may take, by its row or by us; and when its interpreter is killed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULTS = {"setup": 600.0, "agent": 1800.0, "finalize": 600.0, "scoring": 600.0}
"""Seconds of each stage for a task that says nothing of it."""

SPARE = 60.0
"""Seconds beyond all limits after which an interpreter that does not keep them is killed."""
SEVERAL = 4
"""An environment of several agents may take so many times the limits of one."""


def stage_limits(row: Mapping[str, Any], multiplier: float) -> dict[str, float]:
    """Return the seconds of each stage of a task.

    Args:
        row: the task's data.
        multiplier: the user's.
    """
    own = row.get("timeout")
    told = own if isinstance(own, dict) else {}
    return {stage: float(told.get(stage) or default) * multiplier for stage, default in DEFAULTS.items()}


def kill_after(limits: Mapping[str, float], *, several: bool = False) -> float:
    """Return the seconds after which an interpreter is killed that has not answered.

    Args:
        limits: of the stages that it goes through.
        several: True if several agents may take part.
    """
    return sum(limits.values()) * (SEVERAL if several else 1) + SPARE
