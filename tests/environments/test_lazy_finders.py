"""Most environments are folders of tasks: nothing else is looked for there, nor loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_rlenv.environments.finders import Others, Place, TaskFinder
from pytest_rlenv.environments.model import TaskRef
from pytest_rlenv.frameworks.finders import OPENED, others
from pytest_rlenv.frameworks.nemo_gym.finding import _SUFFIX
from pytest_rlenv.frameworks.openenv.manifest import NAMES, POINTERS
from pytest_rlenv.settings import Settings

FOLDERS = (TaskRef("b", "tasks/b"), TaskRef("a", "tasks/a"))


def made(*files: str, folders: tuple[TaskRef, ...] = FOLDERS, framework: str | None = None) -> list[str]:
    """Return the names of the tasks that are found, after a word for each time that finders were made."""
    found: list[str] = []

    def make() -> tuple[TaskFinder, ...]:
        found.append("made")
        return ()

    tasks, finding = Others(make, framework, OPENED).join(folders, Place("x", "x", Path("x"), files))
    assert finding.tasks == tasks
    return [*found, *(task.id for task in tasks)]


@pytest.mark.parametrize("files", [(), ("README.md", "x/data.csv", "registry.json", "yaml")])
def test_no_finder_is_made_for_folders_of_tasks(files: tuple[str, ...]) -> None:
    assert made(*files) == ["a", "b"]


@pytest.mark.parametrize("file", [*NAMES, *POINTERS, f"data/rows{_SUFFIX}"])
def test_finders_are_made_for_what_they_open(file: str) -> None:
    assert made("README.md", file) == ["made", "a", "b"]


def test_finders_are_made_where_there_are_no_folders_or_one_is_asked_for() -> None:
    assert made("README.md", folders=()) == ["made"]
    assert made("README.md", framework="harbor") == ["made", "a", "b"]


def test_the_finders_find_nothing_where_they_are_not_made() -> None:
    """Whatever the card's tags and the options are."""
    settings = Settings(taskset="some-taskset", openenv_url="http://localhost:1")
    place = Place(
        "x", "x", Path("x"), ("README.md",), tags=("openenv", "nemo-gym", "verifiers"), has_folder_tasks=True
    )
    for finder in others(settings).finders:
        assert finder.find(place, asked=False).tasks == ()
