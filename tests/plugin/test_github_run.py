"""A run on GitHub Actions: annotations, a job's summary, and a comment; switched and bounded."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.project import Project


@pytest.fixture
def summary(six: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = six.path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(six.path))
    return path


@pytest.mark.parametrize("workers", [[], ["-n1"]], ids=["one", "workers"])
def test_it_is_told_what_failed_and_where(six: Project, summary: Path, workers: list[str]) -> None:
    result = six.demo(*workers)
    commands = sorted(line for line in result.outlines if line.startswith("::"))
    assert commands[0].startswith(
        "::error title=ERROR task-00005 (oracle),file=envs/demo/tasks/task-00005/task.toml"
        "::RewardMissing [verify]: no reward"
    )
    (low,) = commands[1:]
    assert low == (
        "::error title=FAILED task-00002 (oracle),file=envs/demo/tasks/task-00002/task.toml"
        "::reward 0.25 < 1.0"
    )
    text = summary.read_text()
    assert "| <code>oracle</code> | 5 of 6 | 0.850 | 0.708 | 4 | 1 | 1 | 0 |" in text
    assert "<code>task-00002</code>" in text


@pytest.mark.parametrize("switch", [["--rlenv-github=off"], ["-o", "rlenv_github=off"]])
def test_it_can_be_switched_off(six: Project, summary: Path, switch: list[str]) -> None:
    result = six.demo(*switch)
    result.stdout.no_fnmatch_line("::error*")
    assert not summary.exists()


def test_elsewhere_nothing_is_written(six: Project) -> None:
    six.demo().stdout.no_fnmatch_line("::error*")


def test_a_comment_is_written_anywhere(six: Project) -> None:
    six.demo("--rlenv-markdown=out/comment.md").stdout.no_fnmatch_line("::error*")
    text = (six.path / "out/comment.md").read_text()
    assert text.startswith("<!-- pytest-rlenv -->\n")
    assert "task-00005" in text
    six.demo("--rlenv-markdown=out/comment.md", "--rlenv-task=*1")
    assert "Everything passed." in (six.path / "out/comment.md").read_text()


def test_a_summary_that_cannot_be_written_is_told_of_and_verdicts_stand(
    six: Project, summary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(six.path / "no/folder/summary.md"))
    result = six.demo("--rlenv-task=*1")
    result.stdout.fnmatch_lines(["rlenv: results are incomplete, No such file or directory: *summary.md"])
    assert result.ret == pytest.ExitCode.OK
