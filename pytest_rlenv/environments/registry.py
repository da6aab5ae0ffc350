"""Read ``registry.json``: an environment's datasets, each with a name and a version."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pytest_rlenv.environments.discovery import task_id
from pytest_rlenv.environments.hub_reference import parse_uri_or_url
from pytest_rlenv.environments.layouts import HARBOR
from pytest_rlenv.environments.model import TaskRef
from pytest_rlenv.errors import SpecError

FILE = "registry.json"
_HEAD = ("", "head", "HEAD")


@dataclass(frozen=True)
class RegistryTask:
    """A task as a dataset lists it; ``commit`` and ``git_url`` are empty for "here, as it is"."""

    name: str
    path: str
    git_url: str = ""
    commit: str = ""


@dataclass(frozen=True)
class Dataset:
    """One version of a named dataset."""

    name: str
    version: str
    tasks: tuple[RegistryTask, ...]


def read_registry(text: str, where: str) -> tuple[Dataset, ...]:
    """Parse the file.

    Args:
        text: its content.
        where: the environment as shown to people.

    Raises:
        SpecError: naming the field and the value that are wrong.
    """
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{where}: {FILE} is not valid JSON: {error}") from error
    entries = _list(raw, f"{where}: {FILE}")
    return tuple(_dataset(entry, f"{where}: {FILE}[{i}]") for i, entry in enumerate(entries))


def choose_dataset(datasets: Collection[Dataset], wanted: str, where: str) -> Dataset:
    """Return the dataset ``name[@version]``.

    Without a version it is ``head``, else the highest by PEP 440, else the last in the order of the text.

    Raises:
        SpecError: for a name or version that is not there.
    """
    name, _, version = wanted.partition("@")
    named = [dataset for dataset in datasets if dataset.name == name]
    if not named:
        names = sorted({dataset.name for dataset in datasets})
        near = difflib.get_close_matches(name, names, n=3) or names[:10]
        raise SpecError(
            f"{where}: {FILE} has no dataset {name!r}",
            hint=f"it has {', '.join(near)}" if near else "it lists no datasets",
        )
    if not version:
        return max(named, key=lambda dataset: _rank(dataset.version))
    for dataset in named:
        if dataset.version == version:
            return dataset
    versions = ", ".join(sorted((dataset.version for dataset in named), key=_rank))
    raise SpecError(f"{where}: {FILE} has no version {version!r} of {name!r}", hint=f"it has {versions}")


def commit_of(dataset: Dataset, repo_id: str | None) -> str | None:
    """Return the commit that the dataset pins for this repository: that of most of its tasks, if any does."""
    commits = Counter(
        task.commit for task in dataset.tasks if task.commit and _same_repo(task.git_url, repo_id)
    )
    return commits.most_common(1)[0][0] if commits else None


def dataset_tasks(
    dataset: Dataset, present: Collection[TaskRef], *, repo_id: str | None, revision: str | None
) -> tuple[TaskRef, ...]:
    """Return the tasks of a dataset, under their names there.

    Args:
        dataset: the chosen one.
        present: what discovery found in the environment.
        repo_id: the environment's repository on the Hub, ``None`` for a local folder.
        revision: the commit that the environment was moved to, as the registry writes it, if it was.

    Returns:
        In the order of their ids. A task that is elsewhere, or not there, has a ``problem``.
    """
    by_path = {task.path: task for task in present}
    tasks = [
        TaskRef(
            task_id(task.name),
            task.path,
            by_path[task.path].framework if task.path in by_path else HARBOR,
            _problem(task, by_path, repo_id, revision),
        )
        for task in dataset.tasks
    ]
    return tuple(sorted(tasks, key=lambda task: task.id))


def _problem(
    task: RegistryTask, by_path: dict[str, TaskRef], repo_id: str | None, revision: str | None
) -> str | None:
    elsewhere = task.git_url and not _same_repo(task.git_url, repo_id)
    if elsewhere and (repo_id is not None or task.path not in by_path):
        return f"{FILE} places it in another repository: {task.git_url} (name that one with --rlenv)"
    if task.commit and revision and task.commit != revision and not elsewhere:
        return f"{FILE} places it at commit {task.commit}, most of the dataset at {revision}"
    if task.path not in by_path:
        return f"{FILE} names {task.path!r}, where there is no task"
    return by_path[task.path].problem


def _same_repo(git_url: str, repo_id: str | None) -> bool:
    if not git_url:
        return True
    try:
        return parse_uri_or_url(git_url).repo_id == repo_id
    except SpecError:
        return False


def _rank(version: str) -> tuple[int, Any]:
    if version == "head":
        return 2, ""
    try:
        from packaging.version import InvalidVersion, Version
    except ImportError:
        return 0, version
    try:
        return 1, Version(version)
    except InvalidVersion:
        return 0, version


def _dataset(raw: Any, where: str) -> Dataset:
    fields = _table(raw, where)
    tasks = _list(fields.get("tasks"), f"{where}.tasks")
    return Dataset(
        name=_text(fields, "name", where),
        version=_text(fields, "version", where, default="head"),
        tasks=_unique(tuple(_task(task, f"{where}.tasks[{i}]") for i, task in enumerate(tasks)), where),
    )


def _task(raw: Any, where: str) -> RegistryTask:
    fields = _table(raw, where)
    path = _text(fields, "path", where)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or path.startswith("/"):
        raise SpecError(f"{where}.path is {path!r}, which leaves the environment")
    commit = _text(fields, "git_commit_id", where, default="")
    return RegistryTask(
        name=_text(fields, "name", where, default=parts[-1] if parts else None),
        path="/".join(parts) or ".",
        git_url=_text(fields, "git_url", where, default=""),
        commit="" if commit in _HEAD else commit.lower(),
    )


def _unique(tasks: tuple[RegistryTask, ...], where: str) -> tuple[RegistryTask, ...]:
    name, uses = Counter(task.name for task in tasks).most_common(1)[0] if tasks else ("", 0)
    if uses > 1:
        raise SpecError(f"{where}.tasks has {uses} tasks named {name!r}", hint="names must differ")
    return tasks


def _table(raw: Any, where: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise SpecError(f"{where} is {_shown(raw)}, not an object")
    return raw


def _list(raw: Any, where: str) -> list[Any]:
    if not isinstance(raw, list):
        raise SpecError(f"{where} is {_shown(raw)}, not a list")
    return raw


def _text(fields: dict[str, Any], key: str, where: str, default: str | None = None) -> str:
    value = fields.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or (not value and default is None):
        problem = f"is {_shown(value)}, not a text" if key in fields else "is missing"
        raise SpecError(f"{where}.{key} {problem}")
    return value


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
