"""What ``--collect-only`` says of the tasks that it lists."""

from __future__ import annotations

import pytest
from support.project import Project

from pytest_rlenv import listing

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


def test_what_is_wrong_is_said_before_anything_is_run(project: Project) -> None:
    project.task("fine")
    bad = project.task("pointer")
    (bad / "tests/data.bin").write_text(POINTER)
    project.task("returns", config='schema_version = "1.4"\nodd = 1\n')
    project.task("broken", config="[")
    result = project.demo("--collect-only", "--agent=oracle,nop")
    assert result.ret == 0
    told = [line for line in result.outlines if line.startswith(("rlenv: error: ", "rlenv: warning: "))]
    assert told[0].startswith("rlenv: error: broken: task.toml: not valid TOML")
    assert told[1:] == [
        "rlenv: error: pointer: tests/data.bin: a git-lfs pointer, not the file itself",
        "rlenv: warning: returns: task.toml: odd: unknown field, ignored",
    ]


def test_many_tasks_are_looked_at_if_asked_for(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "AT_MOST", 1)
    for name in ("one", "two"):
        (project.task(name) / "tests/data.bin").write_text(POINTER)
    result = project.demo("--collect-only")
    assert "rlenv: warning: the files of 2 tasks were not looked at; -v does" in result.outlines
    assert not any("pointer" in line for line in result.outlines)
    assert any("two: tests/data.bin" in line for line in project.demo("--collect-only", "-v").outlines)


def test_nothing_is_said_where_nothing_is_wrong(project: Project) -> None:
    project.task("fine")
    result = project.demo("--collect-only")
    assert not any(line.startswith(("rlenv: error", "rlenv: warning")) for line in result.outlines)
