"""``--rlenv-shard``: of the tests of tasks, only those of one part are run; tests of other kinds all are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_rlenv.arguments import is_meant
from pytest_rlenv.sharding.shards import Shard, Task, deal
from pytest_rlenv.state import RUN, get_identity, get_run, get_settings, is_distributed, is_worker

if TYPE_CHECKING:
    from pytest_rlenv.execution import Planned
    from pytest_rlenv.settings import Settings

Rollouts = tuple[str, str, str]
"""An environment's name, a task's id and an agent's name."""


class Sharding:
    """The hooks of a run with ``--rlenv-shard``, in every process of it.

    What a task may take is known from a file that all machines are given (``--rlenv-durations``), else from
    the limits of tasks in local folders, which all machines have. The times that pytest's cache holds and the
    files of tasks on the Hub are not asked: one machine has them and another has not.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._dropped = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """See that the file of times can be read, before anything is started."""
        if is_worker(self.config) or not is_meant(self.config, "shard", "durations"):
            return
        from pytest_rlenv.errors import RlenvError
        from pytest_rlenv.reports.messages import usage_text

        try:
            read_durations(self.config, get_settings(self.config))
        except RlenvError as error:
            raise pytest.UsageError(usage_text(error)) from None

    def pytest_report_header(self) -> list[str]:
        """Say which part this is, and by what the tasks are dealt out."""
        if not is_meant(self.config, "shard"):
            return []
        settings = get_settings(self.config)
        how = f"by the times in {settings.durations}" if settings.durations else "by the tasks' own limits"
        return [f"rlenv: shard {settings.shard}, dealt {how}"]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deselect the tests of tasks of other parts, of those that nothing else has deselected."""
        from pytest_rlenv.fixtures import plan_of

        plans = {item: plan for item in items if (plan := plan_of(item)) is not None}
        if not plans:
            return
        from pytest_rlenv.errors import RlenvError
        from pytest_rlenv.reports.messages import usage_text

        settings = get_settings(self.config)
        shard = Shard.parse(settings.shard or "1/1")
        try:
            costs = _costs(list(plans.values()), read_durations(self.config, settings))
        except RlenvError as error:
            raise pytest.UsageError(usage_text(error)) from None
        parts = deal(costs, shard.of)
        dropped = [item for item, plan in plans.items() if parts[_task(plan)] != shard.number]
        if dropped:
            self._dropped = len(dropped)
            self.config.hook.pytest_deselected(items=dropped)
            gone = set(dropped)
            items[:] = [item for item in items if item not in gone]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Let a part without tasks pass: there may be more machines than tasks."""
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and RUN in self.config.stash:
            # a controller of xdist's is not told what its workers deselect
            named = any(environment.tasks for environment in get_run(self.config).environments)
            if self._dropped or (is_distributed(self.config) and named):
                session.exitstatus = pytest.ExitCode.OK


def read_durations(config: pytest.Config, settings: Settings) -> Mapping[Rollouts, float] | None:
    """Return the mean seconds of rollouts in the file of times; ``None`` if none is given.

    Raises:
        SpecError: it cannot be read.
    """
    if settings.durations is None:
        return None
    from pytest_rlenv.reports.stored import read_run

    seconds: dict[Rollouts, list[float]] = {}
    for record in read_run(get_identity(config).base / settings.durations.expanduser()).records:
        # a rollout that had no reward may have ended at once, and says nothing of how long the next one takes
        if record.get("reward") is not None and record.get("seconds"):
            key = (record["environment"], record["task"], record["agent"])
            seconds.setdefault(key, []).append(record["seconds"])
    return {key: sum(several) / len(several) for key, several in seconds.items()}


def _costs(
    plans: Sequence[Planned], durations: Mapping[Rollouts, float] | None
) -> Mapping[Task, float | None]:
    """Return what the rollouts of each task may take together; ``None`` where that is not known."""
    known = _estimates(plans) if durations is None else durations
    seen: dict[Task, list[float | None]] = {}
    for plan in plans:
        seen.setdefault(_task(plan), []).append(known.get((*_task(plan), plan.agent_name)))
    return {task: _sum(several) for task, several in seen.items()}


def _estimates(plans: Sequence[Planned]) -> Mapping[Rollouts, float]:
    """Return what the tasks of local folders say that they may take, unless they are too many to read."""
    from pytest_rlenv.costs import MAX_READ
    from pytest_rlenv.frameworks.estimate import estimated_seconds

    folders: dict[Path, float | None] = {}
    local = [plan for plan in plans if plan.task.environment.revision is None and not plan.task.ref.problem]
    if len({plan.task.folder for plan in local}) > MAX_READ:
        return {}
    found = {}
    for plan in local:
        folder = plan.task.folder
        if folder not in folders:
            folders[folder] = estimated_seconds(plan.task.ref.framework, folder)
        seconds = folders[folder]
        if seconds is not None:
            key = (plan.task.environment.name, plan.task.id, plan.agent_name)
            found[key] = seconds
    return found


def _task(plan: Planned) -> Task:
    return plan.task.environment.name, plan.task.id


def _sum(several: Sequence[float | None]) -> float | None:
    """Return the sum, with the mean of those that are known for each that is not."""
    known = [each for each in several if each is not None]
    return sum(known) * len(several) / len(known) if known else None
