"""The longest rollouts begin first, by their last time or their own limits, with jobs as with workers."""

from __future__ import annotations

import json

import pytest
from support.meetings import PASSES, begun
from support.project import Project, outcomes


def test_the_longest_of_last_time_begins_first(project: Project) -> None:
    project.tasks(**dict.fromkeys("abcd", PASSES), z=f"# scripted: sleep=0.3\n{PASSES}")
    project.demo("--rlenv-jobs=2", "--rlenv-output=first")
    assert outcomes(project.demo("--rlenv-jobs=2", "--rlenv-output=second")) == {"passed": 5}
    stored = (project.path / "second" / "results.jsonl").read_text().splitlines()
    assert "z" in begun([json.loads(line) for line in stored])[:3]


@pytest.mark.parametrize("how", ["--rlenv-jobs=2", "-n1"])
def test_what_allows_itself_the_longest_begins_first(project: Project, how: str) -> None:
    for name in "abcd":
        project.task(name, test=PASSES, config='schema_version = "1.4"\n[agent]\ntimeout_sec = 10\n')
    project.task("z", test=PASSES, config='schema_version = "1.4"\n[agent]\ntimeout_sec = 900.0\n')
    assert outcomes(project.demo(how)) == {"passed": 5}
    assert "z" in begun(project.records())[: 3 if "jobs" in how else 1]


def test_an_order_of_the_users_is_kept(project: Project) -> None:
    project.tasks(**dict.fromkeys("abcd", PASSES), z=f"# scripted: sleep=0.3\n{PASSES}")
    project.demo("--rlenv-jobs=2", "--rlenv-output=first")
    project.demo("--rlenv-jobs=2", "--rlenv-output=second", "--ff")
    stored = (project.path / "second" / "results.jsonl").read_text().splitlines()
    assert "z" not in begun([json.loads(line) for line in stored])[:3]
