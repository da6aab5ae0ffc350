"""``--rlenv-html``: the page of a run, of an interrupted one, and where it cannot be written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.project import Project

BLOCK = re.compile(r'<script type="application/json" id="([\w-]+)">(.*?)</script>')


def blocks(path: Path) -> dict[str, Any]:
    return {name: json.loads(text) for name, text in BLOCK.findall(path.read_text())}


def test_a_run_leaves_its_page(six: Project) -> None:
    result = six.demo("--rlenv-html", "site/report.html", "--agent", "oracle,nop")
    result.stdout.fnmatch_lines(["rlenv: report in *report.html"])
    found = blocks(six.path / "site" / "report.html")
    index = found["index"]
    assert index["complete"]
    verdicts = {(row["task"], row["agent"]): row["verdict"] for row in index["rows"]}
    assert len(verdicts) == 12
    assert verdicts["task-00000", "oracle"] == "passed"
    assert verdicts["task-00002", "oracle"] == "failed"
    assert verdicts["task-00005", "oracle"] == "error"
    evidence = found["rollout-0"]["evidence"]
    assert evidence["instructions"] == {"": ["Write the answer.\n", 0]}
    assert found["rollout-0"]["link"].startswith("./../.rlenv/")
    assert dict(index["facts"])["options"].startswith("--rlenv=envs/demo --rlenv-agent=oracle")


def test_workers_leave_one_page(six: Project) -> None:
    six.demo("--rlenv-html", "report.html", "-n2")
    assert len(blocks(six.path / "report.html")["index"]["rows"]) == 6


def test_an_interrupted_run_leaves_its_page(six: Project) -> None:
    six.pytester.makeconftest(
        """
        def pytest_runtest_logreport(report):
            if "task-00001" in report.nodeid and report.when == "teardown":
                raise KeyboardInterrupt
        """
    )
    result = six.run("--rlenv", "envs/demo", "--rlenv-html", "report.html", process=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert len(blocks(six.path / "report.html")["index"]["rows"]) == 2


def test_what_cannot_be_written_is_refused_before_the_run(six: Project) -> None:
    (six.path / "file").write_text("")
    result = six.demo("--rlenv-html", "file/report.html")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*rlenv: the HTML report cannot be written to *file/report.html*"])
    assert not (six.path / ".rlenv").exists()


def test_a_page_that_fails_to_be_written_at_the_end_fails_the_run(project: Project) -> None:
    project.tasks(one="# scripted: reward=1")
    project.pytester.makeconftest(
        """
        from pathlib import Path

        def pytest_runtest_teardown():
            Path("report.html").mkdir()
        """
    )
    result = project.demo("--rlenv-html", "report.html")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["rlenv: no HTML report: *", "*python -m pytest_rlenv report *"])


@pytest.mark.parametrize("option", ["--collect-only", "--fixtures"])
def test_where_nothing_runs_nothing_is_written(six: Project, option: str) -> None:
    six.demo("--rlenv-html", "report.html", option)
    assert not (six.path / "report.html").exists()


def test_a_run_without_rollouts_has_no_page(six: Project) -> None:
    six.pytester.makepyfile("def test_other(): pass")
    result = six.run("--rlenv-html", "report.html", "test_a_run_without_rollouts_has_no_page.py")
    assert result.ret == 0
    assert not (six.path / "report.html").exists()


def test_the_page_shows_the_comparison_that_gates(six: Project) -> None:
    six.demo("--rlenv-output", "before")
    six.tasks(task_00000="# scripted: reward=0")
    six.demo("--rlenv-html", "report.html", "--rlenv-baseline", "before", "--rlenv-output", "after")
    changes = {row["task"]: row["change"] for row in blocks(six.path / "report.html")["index"]["rows"]}
    assert changes["task-00000"] == "excluded", "another verifier is another task"
    assert changes["task-00001"] == "unchanged"
