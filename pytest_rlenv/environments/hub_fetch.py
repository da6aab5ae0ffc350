"""Bring the selected tasks of a Hub environment here, as real files, each task complete or absent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_rlenv.environments.hub_cache import RepoCache
from pytest_rlenv.environments.hub_client import HubClient
from pytest_rlenv.environments.hub_download import Downloads, download_all
from pytest_rlenv.environments.hub_errors import Asked, explaining
from pytest_rlenv.environments.materialise import materialise, place_file
from pytest_rlenv.environments.model import Environment, TaskRef
from pytest_rlenv.errors import FetchFailed, RlenvError

_ENTRIES_PER_TASK = 12
"""Files and folders of a usual task, to guess how many pages of 1000 the whole tree has."""
_NAMED = 5


def fetch_hub(environment: Environment, tasks: Sequence[TaskRef], *, cache_dir: Path, hub: HubClient) -> None:
    """Fetch the files of these tasks, and nothing else of the repository.

    Tasks that are here cost nothing: no request, no lock. Two processes never fetch the same commit at the
    same time; the second finds what the first brought.

    Raises:
        FetchFailed: if some could not be fetched; all others are here all the same.
        SpecError: if the Hub refuses for a reason that will not pass by itself.
    """
    if not _missing(environment, tasks):
        return
    assert environment.repo_id is not None
    assert environment.revision is not None
    cache = RepoCache(cache_dir, environment.repo_id)
    with cache.locked(environment.revision):
        missing = _missing(environment, tasks)
        if not missing:
            return
        with explaining(hub, Asked(environment.repo_id, environment.revision), fetching=True):
            files = _files_by_task(environment, missing, hub)
            wanted = [path for paths in files.values() for path in paths]
            downloads = download_all(hub, environment.repo_id, environment.revision, wanted)
        scratch = cache.scratch(environment.revision)
        failures = {t.id: _complete(environment, t, files[t.path], downloads, scratch) for t in missing}
    _raise(environment, {task: error for task, error in failures.items() if error is not None})


def fetch_files(repo_id: str, sha: str, paths: Sequence[str], *, cache_dir: Path, hub: HubClient) -> None:
    """Bring single files to their places below the root of a commit; what is there costs nothing.

    Raises:
        FetchFailed: if one could not be fetched.
        SpecError: if the Hub refuses for a reason that will not pass by itself.
    """
    cache = RepoCache(cache_dir, repo_id)
    root = cache.root(sha)
    if all((root / path).is_file() for path in paths):
        return
    with cache.locked(sha):
        missing = [path for path in dict.fromkeys(paths) if not (root / path).is_file()]
        with explaining(hub, Asked(repo_id, sha), fetching=True):
            downloads = download_all(hub, repo_id, sha, missing)
        for path, refusal in downloads.refused.items():
            error = refusal.error(fetching=True)
            raise type(error)(f"{repo_id}: {path} could not be fetched: {error.message}", hint=error.hint)
        for path in missing:
            place_file(downloads.files[path], root, path)


def _missing(environment: Environment, tasks: Sequence[TaskRef]) -> list[TaskRef]:
    unique = {task.path: task for task in tasks if task.problem is None}
    return [task for task in unique.values() if not environment.folder(task).is_dir()]


def _files_by_task(environment: Environment, tasks: list[TaskRef], hub: HubClient) -> dict[str, list[str]]:
    """Return the paths of each task's files, by the task's path."""
    repo_id, sha = str(environment.repo_id), str(environment.revision)
    tree = hub.cached_tree(repo_id, sha)
    if tree is None and hub.offline:
        tree = hub.cached_snapshot(repo_id, sha)
    few = len(tasks) <= environment.found * _ENTRIES_PER_TASK // 1000
    if tree is None and few and all(task.path != "." for task in tasks):
        return {
            task.path: [
                path
                for path, is_folder in hub.entries(repo_id, sha, task.path, recursive=True)
                if not is_folder
            ]
            for task in tasks
        }
    if tree is None:
        tree = hub.whole_tree(repo_id, sha)
    return _grouped(tree, [task.path for task in tasks])


def _grouped(tree: Sequence[str], tasks: list[str]) -> dict[str, list[str]]:
    if "." in tasks:
        return {".": list(tree)}  # the repository is one task
    groups: dict[str, list[str]] = {task: [] for task in tasks}
    for path in tree:
        folder = path.rpartition("/")[0]
        while folder and folder not in groups:
            folder = folder.rpartition("/")[0]
        if folder:
            groups[folder].append(path)
    return groups


def _complete(
    environment: Environment, task: TaskRef, paths: list[str], downloads: Downloads, scratch: Path
) -> RlenvError | None:
    """Make the task's folder if all of its files came; return why not otherwise."""
    refusal = next((downloads.refused[path] for path in paths if path in downloads.refused), None)
    if refusal is not None:
        return refusal.error(fetching=True)
    if not paths:
        return FetchFailed(
            f"no files of {task.path} are cached" if not downloads.files else f"{task.path} holds no files",
            hint=f"check it on the page of {environment.repo_id}",
        )
    prefix = "" if task.path == "." else f"{task.path}/"
    try:
        materialise(
            {path[len(prefix) :]: downloads.files[path] for path in paths}, environment.folder(task), scratch
        )
    except FetchFailed as error:
        return error
    return None


def _raise(environment: Environment, failures: dict[str, RlenvError]) -> None:
    if not failures:
        return
    first = next(iter(failures.values()))
    messages = list(dict.fromkeys(error.message for error in failures.values()))
    named = ", ".join(list(failures)[:_NAMED]) + (
        f" and {len(failures) - _NAMED} more" if len(failures) > _NAMED else ""
    )
    raise type(first)(
        f"{environment.title}: {named} could not be fetched: {first.message}",
        hint=first.hint,
        detail="\n".join(messages) if len(messages) > 1 else "",
    ) from first
