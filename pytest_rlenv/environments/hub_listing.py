"""Learn which folders of a commit hold tasks, in a handful of requests.

Level by level: the Hub is asked which folders have a ``task.toml`` (500 to a request), or the files of an
older layout, and only the others are listed. 1300 tasks with 10,400 files take some 8 requests; the whole
tree would take 16, and 160 for ten times as many. Where many folders would have to be listed one by one, the
whole tree is the cheaper way.
"""

from __future__ import annotations

from pytest_rlenv.environments.discovery import MAX_DEPTH, is_ignored
from pytest_rlenv.environments.hub_client import HubClient
from pytest_rlenv.environments.layouts import COMPANIONS, MANIFEST, OLDER_MANIFEST, framework_of

_MOST_LISTINGS = 16


def list_for_discovery(hub: HubClient, repo_id: str, sha: str, base: str) -> list[str]:
    """Return the files of a commit that discovery needs: all outside of tasks, and what tells a task.

    Args:
        hub: where to ask.
        repo_id: the dataset.
        sha: the commit.
        base: the folder to look in, ``""`` for all.
    """
    tree = hub.cached_tree(repo_id, sha)
    if tree is None:
        tree = _by_levels(hub, repo_id, sha, base)
    return hub.whole_tree(repo_id, sha) if tree is None else tree


def _by_levels(hub: HubClient, repo_id: str, sha: str, base: str) -> list[str] | None:
    """Return the files, or ``None`` when it would take too many requests."""
    files: list[str] = []
    level = [base]
    listings = 0
    for _ in range(MAX_DEPTH + 1):
        telling, others = _tasks_among(hub, repo_id, sha, level)
        files.extend(telling)
        listings += len(others)
        if listings > _MOST_LISTINGS:
            return None
        level = []
        for folder in others:
            for path, is_folder in hub.entries(repo_id, sha, folder):
                if not is_folder:
                    files.append(path)
                elif not is_ignored(path.rpartition("/")[2]):
                    level.append(path)
        if not level or framework_of(files):
            break
    return files


def _tasks_among(hub: HubClient, repo_id: str, sha: str, folders: list[str]) -> tuple[list[str], list[str]]:
    """Return the files that tell which of the folders are tasks, and the folders that are none."""

    def with_file(names: tuple[str, ...], among: list[str]) -> dict[str, set[str]]:
        asked = [f"{folder}/{name}" for folder in among if folder for name in names]  # the root is listed
        found: dict[str, set[str]] = {}
        for path in hub.existing(repo_id, sha, asked) if asked else ():
            found.setdefault(path.rpartition("/")[0], set()).add(path)
        return found

    tasks = with_file((MANIFEST,), folders)
    others = [folder for folder in folders if folder not in tasks]
    older = with_file((OLDER_MANIFEST,), others)
    companions = with_file(COMPANIONS, list(older))
    tasks |= {folder: older[folder] | companions[folder] for folder in companions}
    return [path for paths in tasks.values() for path in sorted(paths)], [f for f in others if f not in tasks]
