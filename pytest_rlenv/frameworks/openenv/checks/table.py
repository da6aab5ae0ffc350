"""Which check is which; what each is for is told in :data:`pytest_rlenv.agents.check.CHECKS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pytest_rlenv.frameworks.openenv.checks.contract import contract
from pytest_rlenv.frameworks.openenv.checks.findings import Findings
from pytest_rlenv.frameworks.openenv.checks.floor_gap import floor_gap
from pytest_rlenv.frameworks.openenv.checks.repeating import determinism, isolation
from pytest_rlenv.frameworks.openenv.checks.seed_control import seed_control
from pytest_rlenv.frameworks.openenv.checks.task_count import task_count
from pytest_rlenv.frameworks.openenv.host import Host
from pytest_rlenv.frameworks.openenv.listed import inside
from pytest_rlenv.frameworks.openenv.plans import Plan, read_plan
from pytest_rlenv.frameworks.openenv.task import OpenEnvTask

Check = Callable[[Host, Findings], None]
"""Looks at the environment through a server of it."""


def checks_of(name: str, task: OpenEnvTask) -> Check:
    """Return a check of :data:`~pytest_rlenv.agents.check.CHECKS`, before a server is started for it.

    Raises:
        Unsupported: the task does not have what it looks at.
        TaskInvalid, ReferenceInvalid: what the task has of it is wrong.
    """
    return KINDS[name](task)


def _with_episode(check: Callable[[Host, Plan, Findings], None]) -> Callable[[OpenEnvTask], Check]:
    """Return a check that plays the task's recorded episode, or the probe's, or only a reset."""

    def of_task(task: OpenEnvTask) -> Check:
        plan = task.plan or _probe(task)
        return lambda host, found: check(host, plan, found)

    return of_task


def _probe(task: OpenEnvTask) -> Plan:
    """Return the recorded episode that is no reference; without one, no actions."""
    path = task.folder / task.manifest.probe
    return read_plan(path) if inside(task.manifest.probe) and path.is_file() else Plan(())


KINDS: Mapping[str, Callable[[OpenEnvTask], Check]] = {
    "contract": _with_episode(contract),
    "determinism": _with_episode(determinism),
    "isolation": _with_episode(isolation),
    "floor-gap": floor_gap,
    "task-count": lambda task: task_count,
    "seed-control": lambda task: seed_control,
}
