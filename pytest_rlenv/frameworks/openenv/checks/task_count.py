"""Whether a server has as many tasks as its environment declares."""

from __future__ import annotations

from contextlib import closing

from pytest_rlenv.errors import Unsupported
from pytest_rlenv.frameworks.openenv.checks.findings import Findings
from pytest_rlenv.frameworks.openenv.host import Host
from pytest_rlenv.frameworks.openenv.routes import Routes
from pytest_rlenv.frameworks.openenv.task_api import count_tasks


def task_count(host: Host, found: Findings) -> None:
    """Compare the totals of the server's task API with what ``openenv.yaml`` declares, else lists.

    Raises:
        Unsupported: the server counts none, or there is nothing to compare with.
        EnvironmentFailed, SandboxFailed: the server fails over it.
    """
    manifest = host.task.manifest
    if not manifest.task_counts and not manifest.tasks:
        raise Unsupported(
            f"{manifest.file or 'openenv.yaml'} declares no number of tasks (validation.capabilities."
            "declared_task_count), and lists none"
        )
    with closing(Routes(host.server)) as routes:
        counted = count_tasks(routes)
    if counted is None:
        raise Unsupported("the server has no task API that counts its tasks")
    for split, declared in manifest.task_counts.items():
        has = counted.get(split)
        told = (
            "the server has no such split"
            if has is None
            else f"the server has {has}, declared are {declared}"
        )
        found.see(f"split {split}", has == declared, told)
    if not manifest.task_counts:
        total, listed = sum(counted.values()), len(manifest.tasks)
        told = f"the server has {total}, {manifest.file} lists {listed}"
        found.see("tasks", total == listed, told)
