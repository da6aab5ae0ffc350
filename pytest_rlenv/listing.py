"""What ``--collect-only`` says of tasks whose files are here: what is wrong, before anything is run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pytest_rlenv.state import RUN

if TYPE_CHECKING:
    from pytest_rlenv.execution import SelectedTask

AT_MOST = 200
"""Tasks up to which all are looked at unasked; it takes some milliseconds for each."""


class Listing:
    """Hooks of a run that lists tasks and runs none.

    Args:
        config: pytest's.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._lines: list[tuple[str, bool]] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Read the selected tasks; those of the Hub are not fetched for this."""
        from pytest_rlenv.collection import task_of

        if RUN not in session.config.stash:
            return
        found: dict[int, SelectedTask] = {}
        for item in session.items:
            if (task := task_of(item)) is not None and task.folder.is_dir():
                found[id(task.ref)] = task
        if len(found) > AT_MOST and self._config.option.verbose <= 0:
            self._lines.append((f"the files of {len(found)} tasks were not looked at; -v does", False))
            return
        for task in found.values():
            self._lines += [(f"{task.ref.id}: {text}", wrong) for text, wrong in _findings(task)]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what was found, errors first."""
        for line, wrong in sorted(self._lines, key=lambda each: not each[1]):
            word = "error" if wrong else "warning"
            terminalreporter.write_line(f"rlenv: {word}: {line}", red=wrong, yellow=not wrong)


def _findings(task: SelectedTask) -> Iterator[tuple[str, bool]]:
    """Yield what is wrong with a task, and whether it makes the task an error."""
    from pytest_rlenv.errors import TaskInvalid
    from pytest_rlenv.frameworks.protocol import get_framework

    if task.ref.problem:
        yield task.ref.problem, True
        return
    try:
        loaded = get_framework(task.ref.framework).load(task.folder, task.ref.id, task.ref.data)
    except TaskInvalid as error:
        yield error.message, True
        return
    for warning in loaded.warnings:
        yield warning, False
