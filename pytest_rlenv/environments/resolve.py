"""The way in: what the user named becomes pinned environments with their selected tasks, then files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_rlenv.environments.finders import FOLDERS_ONLY, Others
from pytest_rlenv.environments.local import resolve_local
from pytest_rlenv.environments.model import HUB, LOCAL, TASKSET, Environment, TaskRef
from pytest_rlenv.environments.selection import Selection, pick, select
from pytest_rlenv.environments.spec import Spec, parse_spec
from pytest_rlenv.environments.taskset import resolve_taskset

__all__ = ["Selection", "fetch", "pick", "read_metadata", "resolve"]

Notify = Callable[[str], None]


def resolve(
    specs: Sequence[str],
    *,
    base: Path,
    rootdir: Path,
    cache_dir: Path,
    selection: Selection,
    dataset: str | None = None,
    others: Others = FOLDERS_ONLY,
    notify: Notify | None = None,
) -> list[Environment]:
    """Find the environments that the user named, and the tasks to run.

    Args:
        specs: as given to ``--rlenv``; one that is named twice, or by several of its folders, appears once.
        base: the folder that relative paths start from.
        rootdir: pytest's; local environments are named by their path from there.
        cache_dir: the package's cache.
        selection: which of the tasks.
        dataset: ``name[@version]`` in the environments' ``registry.json``.
        others: where tasks that are no folders are looked for.
        notify: called with one line when something makes us wait.

    Raises:
        SpecError: with the cure, before anything is started.
    """
    parsed = [parse_spec(text, base) for text in specs]  # all, before the first request is made
    found = [_resolve(spec, rootdir, cache_dir, dataset, others, notify) for spec in parsed]
    return select(_named_apart(_merged(found)), selection)


def fetch(
    environment: Environment, tasks: Sequence[TaskRef], cache_dir: Path, *, notify: Notify | None = None
) -> None:
    """Bring the files of these tasks to :meth:`Environment.folder`; what is there costs nothing.

    Raises:
        FetchFailed: if some could not be fetched; all others are here all the same.
        SpecError: if the Hub refuses for a reason that will not pass by itself.
    """
    if environment.source != HUB:
        return
    from pytest_rlenv.environments.hub_client import HubClient
    from pytest_rlenv.environments.hub_fetch import fetch_hub

    fetch_hub(environment, tasks, cache_dir=cache_dir, hub=HubClient(notify))


def read_metadata(environment: Environment, cache_dir: Path, *, notify: Notify | None = None) -> Environment:
    """Return the environment with what its tasks say about themselves, for ``-m``."""
    from pytest_rlenv.environments.hub_client import HubClient
    from pytest_rlenv.environments.metadata import add_metadata

    return add_metadata(environment, lambda: HubClient(notify))


def _resolve(
    spec: Spec, rootdir: Path, cache_dir: Path, dataset: str | None, others: Others, notify: Notify | None
) -> Environment:
    if spec.kind == LOCAL:
        return resolve_local(spec, rootdir=rootdir, dataset=dataset, others=others)
    if spec.kind == TASKSET:
        return resolve_taskset(spec, rootdir=rootdir, others=others)
    from pytest_rlenv.environments.hub import resolve_hub
    from pytest_rlenv.environments.hub_client import HubClient

    return resolve_hub(spec, cache_dir=cache_dir, hub=HubClient(notify), dataset=dataset, others=others)


def _merged(environments: Sequence[Environment]) -> list[Environment]:
    """Join what has the same files: a repository named by two of its folders, a folder named twice."""
    by_place: dict[tuple[Path, str], Environment] = {}
    for environment in environments:
        place = (environment.root.resolve(), environment.name if environment.source == TASKSET else "")
        known = by_place.get(place)
        by_place[place] = environment if known is None else _joined(known, environment)
    return list(by_place.values())


def _joined(one: Environment, other: Environment) -> Environment:
    by_id = {task.id: task for task in (*other.tasks, *one.tasks)}
    return replace(
        one,
        tasks=tuple(by_id[id_] for id_ in sorted(by_id)),
        found=len(by_id),
        folders=(*one.folders, *other.folders) if one.folders and other.folders else (),
        warnings=tuple(dict.fromkeys((*one.warnings, *other.warnings))),
    )


def _named_apart(environments: Sequence[Environment]) -> list[Environment]:
    """Give environments of one name different ones: a revision is added, a local folder is named in full."""
    names = [environment.name for environment in environments]
    return [
        replace(environment, name=_full_name(environment))
        if names.count(environment.name) > 1
        else environment
        for environment in environments
    ]


def _full_name(environment: Environment) -> str:
    if environment.source == LOCAL:
        return environment.root.as_posix()
    revision = environment.requested_revision
    return f"{environment.name}@{revision}" if revision else environment.name
