"""A project whose environment runs in the scripted sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pydantic  # noqa: F401 - loaded for good: pytester forgets what a run in this process imports
import pytest
from support.fake_hub import FakeHub
from support.project import Project
from support.verifiers import use_fake

import pytest_rlenv.environments.resolve
import pytest_rlenv.frameworks.harbor.framework
import pytest_rlenv.reports.comparison.junit_file
import pytest_rlenv.reports.comparison.text
import pytest_rlenv.reports.ctrf
import pytest_rlenv.reports.markdown
import pytest_rlenv.reports.publishing
import pytest_rlenv.reports.watching
import pytest_rlenv.rlenv_file
import pytest_rlenv.run  # noqa: F401 - likewise

TESTS = Path(__file__).parents[1]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PYTHONPATH", f"{TESTS}:{TESTS.parent}:{pytester.path}")
    monkeypatch.setenv("RLENV_CACHE", str(pytester.path / "cache"))
    monkeypatch.setenv("SCRIPTED_DIR", str(pytester.path / "scripted"))
    for name in ("PYTEST_ADDOPTS", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeini("[pytest]\n")
    pytester.syspathinsert()
    return Project(pytester)


@pytest.fixture
def toys(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose runs find a package that stands in for Verifiers."""
    use_fake(monkeypatch, project)
    return project


@pytest.fixture
def hub(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with FakeHub() as hub:
        for name, value in hub.environ(project.path / "hf-home").items():
            monkeypatch.setenv(name, value)
        yield hub


@pytest.fixture
def six(project: Project) -> Project:
    """Four tasks that pass, one with a low reward, one without a reward."""
    judge = "# scripted: reward-if=/app/answer"
    project.tasks(
        task_00000=judge,
        task_00001=judge,
        task_00002="# scripted: reward=0.25",
        task_00003=judge,
        task_00004=judge,
    )
    project.tasks(task_00005="# scripted: print=judged")
    return project
