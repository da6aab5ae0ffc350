"""The finders of tasks that are no folders, one of each framework."""

from __future__ import annotations

from pytest_rlenv.environments.finders import Others, TaskFinder
from pytest_rlenv.settings import Settings


def others(settings: Settings) -> Others:
    """Return where tasks beside those in folders are looked for.

    Args:
        settings: of the run; they may name what a framework needs to find its tasks.
    """
    finders: list[TaskFinder] = []
    return Others(tuple(finders), settings.framework)
