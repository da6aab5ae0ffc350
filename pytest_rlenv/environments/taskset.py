"""An environment that is no files, but the taskset of an installed package."""

from __future__ import annotations

from pathlib import Path

from pytest_rlenv.environments.finders import Others, Place
from pytest_rlenv.environments.layouts import TASKSET_PREFIX
from pytest_rlenv.environments.model import TASKSET, Environment
from pytest_rlenv.environments.spec import Spec
from pytest_rlenv.errors import SpecError


def resolve_taskset(spec: Spec, *, rootdir: Path, others: Others) -> Environment:
    """Find the tasks of a taskset.

    Args:
        spec: one that names a taskset.
        rootdir: pytest's.
        others: who knows tasksets.

    Raises:
        SpecError: there is no such taskset, or it has no tasks.
    """
    name = f"{TASKSET_PREFIX}{spec.taskset}"
    place = Place(name, name, rootdir, (), taskset=spec.taskset)
    tasks, finding = others.join((), place)
    if not tasks:
        raise SpecError(
            f"0 tasks found in {name}",
            hint=finding.reason or "tasksets are of --rlenv-framework verifiers",
        )
    return Environment(
        name=name,
        source=TASKSET,
        root=rootdir,
        tasks=tasks,
        found=len(tasks),
        warnings=finding.warnings,
    )
