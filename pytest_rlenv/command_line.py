"""From the environments and ids of a command line to the run's resolved environments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_rlenv.arguments import PREFIX
from pytest_rlenv.environments.model import Environment
from pytest_rlenv.rollout_ids import SEPARATOR, check_name, rollouts_of_a_task
from pytest_rlenv.run import Run


def resolve_command_line(
    run: Run, specs: Sequence[str], chosen: Sequence[tuple[str, str]], *, base: Path, read_metadata: bool
) -> None:
    """Resolve what a command line names into ``run.environments`` and ``run.chosen``.

    Args:
        run: the run to fill.
        specs: values of ``--rlenv``.
        chosen: positional arguments ``rlenv:ENV::rest`` as (ENV, rest); a node id printed by an earlier run
            is one. They narrow an environment that is named already, else add it.
        base: what relative values of ``--rlenv`` are meant against.
        read_metadata: read the tasks' own metadata, for ``-m``.

    Raises:
        SpecError: an environment cannot be had, or an id is of none of its tasks.
    """
    environments = run.resolve(specs, read_metadata=read_metadata, base=base) if specs else []
    rests: dict[str, list[str]] = {}
    for spec, rest in chosen:
        environment = next((found for found in environments if found.name == spec), None)
        if environment is None:
            environment = _resolve_named(run, spec, read_metadata)
            same = next((found for found in environments if found.name == environment.name), None)
            environment = same or environment
            if same is None:
                environments.append(environment)
        rests.setdefault(environment.name, []).append(rest)
    run.environments = [
        _narrow(environment, rests.get(environment.name, []), run) for environment in environments
    ]
    run.chosen = {name: given for name, given in rests.items() if "" not in given}


def _resolve_named(run: Run, spec: str, read_metadata: bool) -> Environment:
    """Resolve ENV of a node id: local ids are relative to the rootdir, wherever pytest is called."""
    bases = [run.identity.base, run.identity.rootdir]
    base = next((base for base in bases if (base / spec).exists()), bases[0])
    return run.resolve([spec], read_metadata=read_metadata, base=base)[0]


def _narrow(environment: Environment, rests: Sequence[str], run: Run) -> Environment:
    if not rests or "" in rests:
        return environment
    from pytest_rlenv.environments.selection import narrowed, pick

    ids = []
    rollouts = rollouts_of_a_task(run.settings.agent, run.settings.attempts)
    for rest in rests:
        task, _, name = rest.partition(SEPARATOR)
        check_name(name, rollouts, where=f"{PREFIX}{environment.name}{SEPARATOR}{rest}")
        ids.append(task)
    return narrowed(environment, pick(environment, ids))
