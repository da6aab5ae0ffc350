"""What this package keeps of a Hub repository: task folders per commit, what was found there, and names.

::

    hub/<org>--<repo>/<sha>/...            the tasks' files, a task at a time, complete or absent
    hub/<org>--<repo>/<sha>.json           the tasks that were found at this commit
    hub/<org>--<repo>/refs/<revision>      the commit that a branch or tag had when it was last asked
    hub/<org>--<repo>/renamed              the present name of a repository that was renamed

A commit never changes, so nothing here goes stale but ``refs``, and that is only read when the Hub is silent.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import quote

from pytest_rlenv.disk import CACHE_CURE, disk_full, is_full
from pytest_rlenv.environments.model import TaskRef
from pytest_rlenv.errors import FetchFailed, RlenvError, Stage

_FORMAT = 3
"""Grows when tasks are found by other rules, or kept in another form."""
_LOCK_TIMEOUT_SEC = 3600.0


@dataclass(frozen=True)
class Found:
    """What is known of a commit without asking again.

    Attributes:
        sha: the commit.
        base: the folder that was looked in, ``""`` for all of it.
        tasks: the tasks in folders that were found there.
        tags: the card's.
        warnings: the card's.
        others: the files outside of these tasks, in which other tasks may be.
    """

    sha: str
    base: str
    tasks: tuple[TaskRef, ...]
    tags: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


class RepoCache:
    """The folder of one repository.

    Args:
        cache_dir: the package's cache.
        repo_id: ``org/repo``.
    """

    def __init__(self, cache_dir: Path, repo_id: str) -> None:
        # Unambiguous: the Hub allows no "--" in names.
        self._folder = cache_dir / "hub" / repo_id.replace("/", "--")

    def root(self, sha: str) -> Path:
        """Return the folder that holds the tasks of a commit."""
        return self._folder / sha

    def scratch(self, sha: str) -> Path:
        """Return the folder, on the same disk, where tasks are put together; use it under the lock only."""
        return self._folder / f".{sha}"

    def found(self, sha: str, base: str) -> Found | None:
        """Return what was found at a commit, in a folder or in all of it, if it was looked for before."""
        for looked_in in dict.fromkeys((base, "")):
            stored = self._read(self._found_file(sha, looked_in))
            if stored is not None:
                return _within(stored, base)
        return None

    def knows(self, sha: str, base: str) -> bool:
        """Whether :meth:`found` has something to return, unless another version wrote it."""
        return any(self._found_file(sha, looked_in).is_file() for looked_in in (base, ""))

    def store(self, found: Found) -> None:
        """Keep what was found at a commit."""
        text = json.dumps({"format": _FORMAT, **asdict(found)})
        _write(self._found_file(found.sha, found.base), text)

    def commit(self, revision: str | None) -> str | None:
        """Return the commit that a revision (``None``: the default branch) had when it was last asked."""
        with suppress(OSError, ValueError):
            return self._ref_file(revision).read_text(encoding="ascii")
        return None

    def remember(self, revision: str | None, sha: str) -> None:
        """Keep which commit a revision has now."""
        _write(self._ref_file(revision), sha)

    def renamed(self) -> str | None:
        """Return the present name of this repository if it is known to have been renamed."""
        with suppress(OSError, ValueError):
            return (self._folder / "renamed").read_text(encoding="ascii")
        return None

    def remember_renamed(self, repo_id: str) -> None:
        """Keep the present name of this repository."""
        _write(self._folder / "renamed", repo_id)

    @contextmanager
    def locked(self, sha: str) -> Iterator[None]:
        """Hold the lock on a commit's task folders, across processes and threads.

        Raises:
            FetchFailed: if another process keeps it for an hour, or the cache cannot be written.
        """
        from filelock import FileLock, Timeout

        path = self._folder / f"{sha}.lock"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path)
            lock.acquire(timeout=_LOCK_TIMEOUT_SEC)
        except Timeout as error:
            raise FetchFailed(
                f"another process has been fetching this environment for {_LOCK_TIMEOUT_SEC:.0f} s",
                hint=f"end it, or remove {path}",
            ) from error
        except OSError as error:
            raise _not_writable(self._folder, error) from error
        try:
            yield
        finally:
            lock.release()

    def _found_file(self, sha: str, base: str) -> Path:
        suffix = f"-{hashlib.sha256(base.encode()).hexdigest()[:10]}" if base else ""
        return self._folder / f"{sha}{suffix}.json"

    def _ref_file(self, revision: str | None) -> Path:
        return self._folder / "refs" / (quote(revision, safe="") if revision else "default")

    @staticmethod
    def _read(path: Path) -> Found | None:
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            if raw.pop("format") != _FORMAT:
                return None
            tasks = tuple(TaskRef(**{**task, "tags": tuple(task["tags"])}) for task in raw.pop("tasks"))
            lists = {name: tuple(raw[name]) for name in ("tags", "warnings", "others")}
            return Found(raw["sha"], raw["base"], tasks, **lists)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None  # absent, or from another version: found again


def _within(found: Found, base: str) -> Found:
    kept = tuple(t for t in found.tasks if not base or t.path == base or t.path.startswith(f"{base}/"))
    others = tuple(path for path in found.others if not base or path.startswith(f"{base}/"))
    return replace(found, base=base, tasks=kept, others=others)


def _write(path: Path, text: str) -> None:
    """Write a note so that another process reads all of it or none.

    Where it cannot be written, the next run asks again; that the cache is unusable is told when a task is
    fetched into it.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)


def _not_writable(folder: Path, error: OSError) -> RlenvError:
    if is_full(error):
        return disk_full("write to the cache", folder, stage=Stage.FETCH, hint=CACHE_CURE)
    return FetchFailed(
        f"the cache {folder} cannot be written: {error.strerror}",
        hint="set RLENV_CACHE to a folder with free space that you may write",
    )
