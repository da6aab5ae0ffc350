"""``--rlenv-baseline`` and ``--rlenv-fail-on`` in a run."""

from __future__ import annotations

import html
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.breaking import BROKEN
from support.project import Project, outcomes

AGENT = "--agent=support.breaking:Breaking"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the run that all are compared with is kept: it is the same each time."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def ten(project: Project, kept: Path) -> Project:
    """Ten tasks, and a run ``before`` that solved them all."""
    for number in range(10):
        project.task(f"task-{number:02}")
    if not (kept / "before.xml").exists():
        assert project.demo(AGENT, "--rlenv-output=before", "--junitxml=before.xml").ret == 0
        shutil.copytree(project.path / "before", kept / "before")
        shutil.copy(project.path / "before.xml", kept)
    else:
        shutil.copytree(kept / "before", project.path / "before")
        shutil.copy(kept / "before.xml", project.path)
    return project


def comparison(project: Project) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project.run_dir / "comparison.json").read_text())
    return found


@pytest.mark.parametrize(
    ("baseline", "how"),
    [
        ("before", []),
        ("before", ["-n2"]),
        ("before", ["--rlenv-jobs=4"]),
        ("before/results.jsonl", []),
        ("before.xml", []),
    ],
)
def test_a_run_is_compared(
    ten: Project, baseline: str, how: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BROKEN, "7")
    result = ten.demo(AGENT, f"--rlenv-baseline={baseline}", *how)
    assert outcomes(result) == {"passed": 3, "failed": 7}
    result.stdout.fnmatch_lines(
        [
            f"rlenv: baseline {baseline}: 10 rollouts",
            "=* rlenv: compared with the baseline =*",
            "baseline  " + baseline,
            "run       .rlenv/*",
            "Breaking: 10 tasks, 1 attempt each",
            "    mean reward  1.000 -> 0.300   -0.700 (95 %: *)  p = 0.016",
            "    passed       10 -> 3   0 fixed, 7 broken  p = 0.016",
            "    regression: the mean reward fell by 0.700, more than chance explains",
            "BROKEN   task-00  1.0 -> 0.0",
        ]
    )
    found = comparison(ten)
    assert found["verdict"] == "regression"
    assert (found["counts"]["broken"], found["counts"]["unchanged"]) == (7, 3)


@pytest.mark.parametrize(("fail_on", "fails"), [("regression,broken", False), ("inconclusive", True)])
def test_a_run_of_passes_fails_for_what_it_is_asked_to(ten: Project, fail_on: str, fails: bool) -> None:
    result = ten.demo(AGENT, "--rlenv-baseline=before", f"--rlenv-fail-on={fail_on}")
    assert outcomes(result) == {"passed": 10}
    assert result.ret == (pytest.ExitCode.TESTS_FAILED if fails else pytest.ExitCode.OK)
    said = f"rlenv: this run fails for: {fail_on} (--rlenv-fail-on)" in result.outlines
    assert said == fails
    facts = json.loads((ten.run_dir / "run.json").read_text())
    assert facts["exit_code"] == int(fails)


def test_the_verdicts_rule_and_what_is_asked_for_comes_on_top(
    ten: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BROKEN, "1")
    assert ten.demo(AGENT, "--rlenv-baseline=before", "--rlenv-fail-on=regression").ret == 1
    ten.pytester.makeconftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.xfail(reason="known"))
        """
    )
    assert ten.demo(AGENT, "--rlenv-baseline=before", "--rlenv-output=b").ret == 0
    last = ten.demo(AGENT, "--rlenv-baseline=before", "--rlenv-fail-on=broken", "--rlenv-output=c")
    assert outcomes(last) == {"xfailed": 1, "xpassed": 9}
    assert last.ret == pytest.ExitCode.TESTS_FAILED


def test_the_summary_in_markdown_has_it(ten: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BROKEN, "7")
    ten.demo(AGENT, "--rlenv-baseline=before", "--rlenv-markdown=summary.md")
    shown = html.unescape((ten.path / "summary.md").read_text())
    assert "compared with before: 7 broken, 3 unchanged" in shown
    assert "Breaking: regression: the mean reward fell by 0.700" in shown


def test_the_folder_that_is_written_may_be_the_baseline(
    ten: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BROKEN, "6")
    ten.demo(AGENT, "--rlenv-baseline=before", "--rlenv-output=before")
    found = json.loads((ten.path / "before" / "comparison.json").read_text())
    assert found["counts"]["broken"] == 6


def test_quiet_says_what_follows_and_no_more(ten: Project) -> None:
    result = ten.demo(AGENT, "--rlenv-baseline=before", "-qq")
    assert (
        "Breaking: inconclusive: a fall of up to 0.188 is not ruled out; 10 tasks with 1 attempt can show one"
        in (result.stdout.str())
    )
    assert "mean reward  1.000" not in result.stdout.str()


def test_a_changed_task_is_left_out_and_counted(ten: Project) -> None:
    ten.task("task-03", instruction="Write another answer.\n")
    ten.demo(AGENT, "--rlenv-baseline=before").stdout.fnmatch_lines(
        ["1 pair not compared: 1 the task has changed", "EXCLUDED task-03  the task has changed"]
    )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--rlenv-baseline=absent"], "rlenv: *absent: there is no such file or folder"),
        (
            ["--rlenv-fail-on=regression"],
            "rlenv: --rlenv-fail-on = regression: there is no baseline to compare*",
        ),
        (
            ["--rlenv-baseline=before", "--rlenv-fail-on=worse"],
            "*'worse' is none of regression, inconclusive*",
        ),
        (
            ["--rlenv-baseline=before", "--rlenv-margin=2"],
            "rlenv: --rlenv-margin = '2': *less than or equal to 1*",
        ),
    ],
)
def test_what_cannot_be_done_is_a_usage_error_before_anything_runs(
    ten: Project, args: list[str], said: str
) -> None:
    result = ten.demo(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    (result.stderr if result.errlines else result.stdout).fnmatch_lines(
        [said if said[0] == "*" else f"*{said}"]
    )
    assert not (ten.path / ".rlenv").exists()


def test_an_ini_file_may_say_what_to_fail_on_where_there_may_be_a_baseline(ten: Project) -> None:
    ten.pytester.makeini("[pytest]\nrlenv_fail_on = inconclusive\n")
    assert ten.demo(AGENT).ret == pytest.ExitCode.OK
    assert ten.demo(AGENT, "--rlenv-baseline=before", "--rlenv-output=b").ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize(
    ("part", "ran"),
    [
        (["-k", "task-01 or task-02"], 2),
        (["-k", "task-01 or task-02", "--rlenv-limit=4", "-n2"], 2),
        (["--rlenv-task=task-0[1-3]"], 3),
        (["rlenv:envs/demo::task-07"], 1),
        (["--rlenv-shard=1/2"], 5),
        (["--deselect=rlenv:envs/demo::task-00"], 9),
    ],
)
def test_what_is_not_selected_is_not_gone(ten: Project, part: list[str], ran: int) -> None:
    result = ten.demo(AGENT, "--rlenv-baseline=before", "--rlenv-fail-on=gone,broken", *part)
    assert outcomes(result)["passed"] == ran
    assert result.ret == pytest.ExitCode.OK
    counts = comparison(ten)["counts"]
    assert (counts["unchanged"], counts["unselected"], counts["gone"]) == (ran, 10 - ran, 0)
    left = f"{10 - ran} of the baseline's 10 tasks {'was' if ran == 9 else 'were'} not selected"
    assert left in result.outlines


def test_a_gate_over_a_part_sees_what_breaks_there_and_what_is_listed_no_more(
    ten: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BROKEN, "1")
    shutil.rmtree(ten.environment / "tasks" / "task-09")
    ten.demo(
        AGENT, "--rlenv-baseline=before", "--rlenv-fail-on=gone,broken", "-k", "task-00"
    ).stdout.fnmatch_lines(
        [
            "only in the baseline: 1 gone",
            "8 of the baseline's 10 tasks were not selected",
            "rlenv: this run fails for: broken, gone (--rlenv-fail-on)",
        ]
    )


def test_a_gate_over_a_part_that_the_baseline_has_not_does_not_pass(ten: Project) -> None:
    ten.task("task-10")
    result = ten.demo(AGENT, "--rlenv-baseline=before", "--rlenv-fail-on=regression", "-k", "task-10")
    assert outcomes(result)["passed"] == 1
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "inconclusive: nothing could be compared" in result.outlines


def test_what_had_no_turn_is_gone(ten: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BROKEN, "1")
    ten.demo(AGENT, "--rlenv-baseline=before", "-x", "-k", "not task-09")
    counts = comparison(ten)["counts"]
    assert (counts["broken"], counts["gone"], counts["unselected"]) == (1, 8, 1)


def test_a_run_that_only_lists_reads_no_baseline(ten: Project) -> None:
    assert ten.demo("--co", "-q", "--rlenv-baseline=absent").ret == pytest.ExitCode.OK


def test_an_ini_file_asks_nothing_of_runs_without_tasks(ten: Project) -> None:
    ten.pytester.makeini(
        "[pytest]\nrlenv_baseline = no\nrlenv_resume = no\nrlenv_shard = 1/2\nrlenv_durations = no\n"
    )
    ten.pytester.makepyfile(test_own="def test_one(): pass")
    result = ten.run("test_own.py")
    assert outcomes(result) == {"passed": 1}
    assert "rlenv: " not in result.stdout.str()


def test_tests_of_ones_own_are_compared(ten: Project) -> None:
    ten.pytester.makeini("[pytest]\nrlenv_baseline = before\n")
    ten.pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.rlenv("envs/demo", agent="support.breaking:Breaking", task="task-0[0-4]")
        def test_one(rollout):
            assert rollout.reward == 1.0
        """
    )
    ten.run("test_own.py").stdout.fnmatch_lines(["Breaking: 5 tasks, 1 attempt each"])
    counts = comparison(ten)["counts"]
    assert (counts["unchanged"], counts["unselected"]) == (5, 5)
