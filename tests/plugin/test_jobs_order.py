"""The longest rollouts begin first, by their last time or their own limits, with jobs as with workers."""

from __future__ import annotations

import json

import pytest
from support.meetings import PASSES, begun
from support.project import Project, outcomes


@pytest.fixture
def timed(project: Project) -> Project:
    """Five tasks, of which the last by name took the longest when they last ran."""
    project.tasks(**dict.fromkeys("abcdz", PASSES))
    stored = project.path / ".pytest_cache" / "v" / "rlenv" / "seconds"
    stored.parent.mkdir(parents=True)
    stored.write_text(
        json.dumps({f"rlenv:envs/demo::{task}": 1.0 for task in "abcd"} | {"rlenv:envs/demo::z": 900.0})
    )
    return project


def test_the_longest_of_last_time_begins_first(timed: Project) -> None:
    assert outcomes(timed.demo("--rlenv-jobs=2")) == {"passed": 5}
    assert "z" in begun(timed.records())[:3]


@pytest.mark.parametrize("how", ["--rlenv-jobs=2", "-n1"])
def test_what_allows_itself_the_longest_begins_first(project: Project, how: str) -> None:
    for name in "abcd":
        project.task(name, test=PASSES, config='schema_version = "1.4"\n[agent]\ntimeout_sec = 10\n')
    project.task("z", test=PASSES, config='schema_version = "1.4"\n[agent]\ntimeout_sec = 900.0\n')
    assert outcomes(project.demo(how)) == {"passed": 5}
    assert "z" in begun(project.records())[: 3 if "jobs" in how else 1]


def test_an_order_of_the_users_is_kept(timed: Project) -> None:
    timed.demo("--rlenv-jobs=2", "--ff")
    assert "z" not in begun(timed.records())[:3]
