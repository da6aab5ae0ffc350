"""What a run was asked for, beside a baseline that has more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.stored_runs import record

from pytest_rlenv.environments.model import Environment, TaskRef
from pytest_rlenv.execution import Planned, SelectedTask
from pytest_rlenv.reports.comparison.selected import Selected
from pytest_rlenv.settings import Settings


def environment(**fields: Any) -> Environment:
    given: dict[str, Any] = {
        "name": "org/repo",
        "source": "hub",
        "root": Path("/root"),
        "tasks": (TaskRef("a", "tasks/a"), TaskRef("b", "tasks/b")),
        "unselected": ("c",),
    }
    return Environment(**given | fields)


def is_missed(task: str, selected: Selected, *, settings: Settings | None = None, **fields: Any) -> bool:
    missed = record(task, **{"environment": "org/repo", "framework": "harbor", **fields})
    ran = record("a", environment="org/repo", agent="solver")
    return selected.asked_for(settings or Settings(), [ran])(missed)


@pytest.fixture
def selected(tmp_path: Path) -> Selected:
    """Of a run whose workers have collected ``a`` and ``b``, and that has had ``a`` only."""
    known = environment()
    plans = [Planned(SelectedTask(known, ref), "solver", "solver", 1) for ref in known.tasks]
    for worker in ("gw0", "gw1"):
        Selected.of([known], plans).store(tmp_path, worker)
    assert [path.name for path in tmp_path.iterdir()] == ["selected.json"]
    found = Selected.load(tmp_path)
    assert found == Selected.of([known], plans)
    return found


@pytest.mark.parametrize(
    ("task", "fields", "missed"),
    [
        ("a", {"agent": "solver", "model": "another"}, False),
        ("b", {"agent": "solver"}, True),  # its test had no turn
        ("b", {"agent": "nop"}, False),
        ("c", {"agent": "solver"}, False),
        ("d", {"agent": "solver"}, True),  # no longer listed
        ("d", {"agent": "nop"}, True),
        ("d", {"environment": "org/other"}, False),
    ],
)
def test_only_what_is_no_longer_listed_or_had_no_turn_is_missed(
    selected: Selected, task: str, fields: dict[str, Any], missed: bool
) -> None:
    assert is_missed(task, selected, **fields) == missed


@pytest.mark.parametrize(
    ("settings", "framework", "missed"),
    [
        ({}, "verifiers", True),
        ({"framework": "harbor"}, "harbor", True),
        ({"framework": "harbor"}, "verifiers", False),
        ({"framework": "harbor"}, None, True),
        ({"limit": 2}, "harbor", True),
        ({"limit": 2}, "verifiers", False),
    ],
)
def test_what_an_option_keeps_from_being_listed_is_not_missed(
    selected: Selected, settings: dict[str, Any], framework: str | None, missed: bool
) -> None:
    assert is_missed("d", selected, settings=Settings(**settings), framework=framework) == missed


@pytest.mark.parametrize(
    ("task", "missed"), [("d", True), ("d/e", True), ("dd", False), ("deep/d", False), ("deep/er/d", True)]
)
def test_outside_of_a_named_folder_nothing_is_missed(task: str, missed: bool) -> None:
    part = Selected.of([environment(folders=("tasks/d", "deep/er"))], [])
    assert is_missed(task, part) == missed


def test_where_no_process_came_so_far_nothing_is_known(tmp_path: Path) -> None:
    assert Selected.load(tmp_path) is None
