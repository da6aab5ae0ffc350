"""What rollouts are expected to take, so that the longest begin first: one begun last is waited for alone.

The last run's times where there are any, else the tasks' own limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_rlenv.arguments import PREFIX

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_rlenv.environments.model import TaskRef
    from pytest_rlenv.run import Run

SECONDS = "rlenv/seconds"
"""Key in pytest's cache: seconds of each rollout, by node id, for the next run's order."""

MAX_READ = 2000
"""Tasks whose files are read; with more, their order matters less than the time that reading takes."""


def seconds_of_last_run(config: pytest.Config) -> dict[str, float]:
    """Return how long rollouts took when they last ran, by node id."""
    cache = getattr(config, "cache", None)
    found: dict[str, float] = cache.get(SECONDS, {}) if cache else {}
    return found


def costs_of_items(config: pytest.Config, items: Sequence[pytest.Item]) -> dict[str, float]:
    """Return the expected seconds of items' rollouts, by node id."""
    from pytest_rlenv.fixtures import plan_of

    plans = ((item.nodeid, plan.task) for item in items if (plan := plan_of(item)) is not None)
    return _costs(seconds_of_last_run(config), ((nodeid, task.ref, task.folder) for nodeid, task in plans))


def costs_of_run(config: pytest.Config, run: Run) -> dict[str, float]:
    """Return the expected seconds of the rollouts of a run's environments, by node id.

    For who deals them out and collects no items. Tests that are marked are known by their last run only.
    """
    return _costs(seconds_of_last_run(config), _rollouts(run))


def _rollouts(run: Run) -> Iterator[tuple[str, TaskRef, Path]]:
    from pytest_rlenv.rollout_ids import SEPARATOR, rollouts_of_a_task

    rollouts = rollouts_of_a_task(run.settings.agent, run.settings.attempts)
    for environment in run.environments:
        for ref in environment.tasks:
            top, folder = (PREFIX + environment.name, ref.id), environment.folder(ref)
            yield from ((SEPARATOR.join((*top, *each.levels)), ref, folder) for each in rollouts)


def _costs(known: Mapping[str, float], rollouts: Iterable[tuple[str, TaskRef, Path]]) -> dict[str, float]:
    from pytest_rlenv.frameworks.estimate import estimated_seconds

    costs = dict(known)
    unknown: dict[Path, tuple[TaskRef, list[str]]] = {}
    for nodeid, ref, folder in rollouts:
        if nodeid not in known and ref.problem is None:
            unknown.setdefault(folder, (ref, []))[1].append(nodeid)
    if len(unknown) > MAX_READ:
        return costs
    for folder, (ref, nodeids) in unknown.items():
        seconds = estimated_seconds(ref.framework, folder)
        if seconds is not None:
            costs |= dict.fromkeys(nodeids, seconds)
    return costs
