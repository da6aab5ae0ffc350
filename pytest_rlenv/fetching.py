"""Brings the files of tasks here, for all threads of a process, and gives up where it is of no use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_rlenv.environments.model import Environment, TaskRef
from pytest_rlenv.errors import DiskFull, FetchFailed, RlenvError
from pytest_rlenv.execution import SelectedTask

REFUSALS = 3
"""Fetches in a row that may fail before the rest of a run's tasks are not asked for any more."""


class Fetching:
    """What this process has asked for, and what was refused.

    Args:
        cache_dir: the package's cache.
        notify: told in one line when something makes us wait.
    """

    def __init__(self, cache_dir: Path, *, notify: Callable[[str], None]) -> None:
        self.problem: RlenvError | None = None
        """Why a fetch of many did not bring all."""
        self._cache_dir = cache_dir
        self._notify = notify
        self._refusals = 0
        self._lock = threading.Lock()

    def fetch(self, tasks: Sequence[SelectedTask]) -> None:
        """Bring the files of the given tasks here, all of one environment in one go.

        Raises:
            RlenvError: the Hub refuses or cannot be reached.
        """
        import pytest_rlenv.environments.resolve as front

        chosen: dict[int, tuple[Environment, list[TaskRef]]] = {}
        for task in tasks:
            chosen.setdefault(id(task.environment), (task.environment, []))[1].append(task.ref)
        for environment, refs in chosen.values():
            front.fetch(environment, refs, self._cache_dir, notify=self._notify)

    def ensure(self, task: SelectedTask) -> None:
        """Bring one task's files here, if they are not.

        A task that an earlier fetch of many did not bring is asked for once more by itself, since another
        task may have been the reason; after a few refusals in a row nobody is asked any more.

        Raises:
            FetchFailed: with what :meth:`fetch` said. DiskFull: there is no space left for them.
        """
        if task.folder.is_dir():
            return
        with self._lock:  # one at a time, or all threads would ask before any was refused
            if self.problem is not None and self._refusals >= REFUSALS:
                raise FetchFailed(self.problem.message, hint=self.problem.hint)
            try:
                self.fetch([task])
            except DiskFull:
                raise
            except RlenvError as error:
                self.problem = error
                self._refusals += 1
                raise FetchFailed(error.message, hint=error.hint, detail=error.detail) from error
            self._refusals = 0
