"""An environment in a folder of this machine."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from pytest_rlenv.environments.card import read_card
from pytest_rlenv.environments.discovery import MAX_DEPTH, find_tasks, outside_of, task_id
from pytest_rlenv.environments.finders import FOLDERS_ONLY, Finding, Others, Place
from pytest_rlenv.environments.layouts import framework_of
from pytest_rlenv.environments.model import LOCAL, Environment, TaskRef
from pytest_rlenv.environments.nothing_found import nothing_found
from pytest_rlenv.environments.registry import FILE, choose_dataset, dataset_tasks, read_registry
from pytest_rlenv.environments.spec import Spec
from pytest_rlenv.environments.walk import Walk
from pytest_rlenv.errors import SpecError

_FILES_TO_EXPLAIN = 20_000


def resolve_local(
    spec: Spec, *, rootdir: Path, dataset: str | None = None, others: Others = FOLDERS_ONLY
) -> Environment:
    """Find the tasks of a local folder.

    Args:
        spec: a local one.
        rootdir: pytest's; the environment is named by its path from there if it lies below.
        dataset: ``name[@version]`` in the folder's ``registry.json``, whose tasks are folders.
        others: where tasks that are no folders are looked for.

    Raises:
        SpecError: if there is no task, or a file cannot be read.
    """
    assert spec.path is not None
    root = spec.path
    name = _name(root, rootdir)
    walk = Walk(root)
    files = list(walk)
    tasks = find_tasks(files, root_name=root.name or "root")
    tasks = tuple(sorted((*tasks, *_linked_outside(root, walk.outside)), key=lambda task: task.id))
    if dataset is not None:
        registry = read_registry(_read(root / FILE, f"--rlenv-dataset {dataset!r} needs it"), name)
        tasks = dataset_tasks(choose_dataset(registry, dataset, name), tasks, repo_id=None, revision=None)
    readme = root / "README.md"
    card = read_card(_read(readme) if readme.is_file() else None, name, published=False)
    finding = Finding()
    if dataset is None:
        place = Place(str(root), name, root, outside_of(tasks, files), tags=card.tags)
        tasks, finding = others.join(tasks, place)
    if not tasks:
        everything = Walk(root, depth=2 * MAX_DEPTH, hidden=True)
        seen = list(islice(everything, _FILES_TO_EXPLAIN))
        raise nothing_found(str(root), seen, looked_for=others.looked_for, reason=finding.reason)
    return Environment(
        name=name,
        source=LOCAL,
        root=root,
        tags=card.tags,
        tasks=tasks,
        found=len(tasks),
        warnings=(*(f"{name}: {line}" for line in walk.unreadable), *card.warnings, *finding.warnings),
    )


def _name(root: Path, rootdir: Path) -> str:
    """Return the path from rootdir, also where one of the two was reached through a link."""
    for folder, base in ((root, rootdir), (root.resolve(), rootdir.resolve())):
        if folder.is_relative_to(base):
            return folder.relative_to(base).as_posix()
    return root.as_posix()


def _linked_outside(root: Path, links: list[str]) -> list[TaskRef]:
    problem = "its folder is a link that leaves the environment"
    frameworks = {link: framework_of(_names(root / link)) for link in links}
    return [
        TaskRef(task_id(link), link, framework, problem)
        for link, framework in frameworks.items()
        if framework is not None
    ]


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names only, no Path objects
    except OSError:
        return []


def _read(path: Path, why: str = "") -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SpecError(f"cannot read {path}: {error.strerror}", hint=why) from error
