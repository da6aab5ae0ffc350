"""``--rlenv-resume``: what was scored is kept, the rest is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.project import Project, outcomes, properties, read_junit
from support.tasks import JUDGES, SOLVES


def counts(path: Path) -> str:
    return f"# scripted: count={path}"


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
def four(project: Project) -> Project:
    """Two tasks that pass, one of a low reward, one without a reward; each notes when its agent runs."""
    for name, test in (("a", JUDGES), ("b", JUDGES), ("low", "# scripted: reward=0.25"), ("none", "")):
        project.task(name, solve=f"{SOLVES}\n{counts(project.path / f'ran-{name}')}", test=test)
    return project


def ran(project: Project) -> dict[str, int]:
    return {name: lines(project.path / f"ran-{name}") for name in ("a", "b", "low", "none")}


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the records by task, the last of each."""
    found = (json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines())
    return {record["task"]: record for record in found}


@pytest.mark.parametrize(
    ("how", "output"),
    [([], "first"), ([], "second"), (["-n2"], "first"), (["--rlenv-jobs=3"], "second")],
)
def test_what_is_scored_is_kept_and_the_rest_is_run(four: Project, how: list[str], output: str) -> None:
    assert outcomes(four.demo("--rlenv-output=first")) == {"passed": 2, "failed": 1, "errors": 1}
    before = records(four.path / "first")
    result = four.demo("--rlenv-resume=first", f"--rlenv-output={output}", "--junitxml=junit.xml", *how)
    assert ran(four) == {"a": 1, "b": 1, "low": 1, "none": 2}
    assert outcomes(result) == {"passed": 2, "failed": 1, "errors": 1}
    result.stdout.fnmatch_lines(
        [
            "rlenv: resuming first: 3 of 4 rollouts are scored and were run as now",
            "rlenv: resuming first: 1 run again if asked for (error: 1)",
            "rlenv: resumed first: 3 kept, 1 run again (error: 1)",
        ]
    )
    after = records(four.path / output)
    for task in ("a", "b", "low"):
        origin = {"run": before[task]["run"], "node": before[task]["node"]}
        assert after[task]["resumed_from"] == origin
        for same in ("reward", "verdict", "started_at", "seconds", "stages", "agent_command"):
            assert after[task][same] == before[task][same]
        logs = four.path / output / after[task]["logs"]
        assert (logs / "agent" / "oracle.txt").exists()
    assert after["none"]["resumed_from"] is None
    assert after["none"]["run_again"]["reason"] == "error"
    cases = read_junit(four.path / "junit.xml")
    assert properties(cases["low"])["rlenv.reward"] == "0.25"
    assert properties(cases["low"])["rlenv.resumed_from"] == before["low"]["run"]
    assert "rlenv.resumed_from" not in properties(cases["none"])


def test_the_earlier_run_is_left_as_it_was(four: Project) -> None:
    four.demo("--rlenv-output=first")
    before = {path: path.read_bytes() for path in (four.path / "first").rglob("*") if path.is_file()}
    four.demo("--rlenv-resume=first/results.jsonl", "--rlenv-output=second")
    assert ran(four)["a"] == 1
    assert before == {path: path.read_bytes() for path in (four.path / "first").rglob("*") if path.is_file()}


def test_a_verdict_is_made_anew(four: Project) -> None:
    four.demo("--rlenv-output=first")
    result = four.demo("--rlenv-resume=first", "--rlenv-threshold=0.2")
    assert outcomes(result) == {"passed": 3, "errors": 1}
    assert ran(four)["low"] == 1


def test_a_killed_run_is_continued_in_its_folder(four: Project) -> None:
    """Its last line is torn, and it is continued twice."""
    four.demo("--rlenv-output=out")
    stored = four.path / "out" / "results.jsonl"
    whole = stored.read_text().splitlines(keepends=True)
    stored.write_text("".join(whole[:1]) + whole[1][:50])
    again = four.demo("--rlenv-resume=out", "--rlenv-output=out")
    assert "results.jsonl: the last line is torn, and left out" in again.stdout.str()
    assert ran(four) == {"a": 1, "b": 2, "low": 2, "none": 2}
    four.demo("--rlenv-resume=out", "--rlenv-output=out")
    assert ran(four) == {"a": 1, "b": 2, "low": 2, "none": 3}
    from pytest_rlenv.reports.stored import read_run

    assert len(read_run(four.path / "out").records) == 4


def test_continuing_what_was_never_begun_begins_it(four: Project) -> None:
    result = four.demo("--rlenv-resume=out", "--rlenv-output=out")
    assert "rlenv: resuming out: nothing is there yet" in result.outlines
    assert sum(ran(four).values()) == 4


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["--rlenv-timeout-multiplier=2"], "timeout_multiplier was 1.0, is 2.0"),
        (["--rlenv-verifier=quiesce"], "verifier was shared, is quiesce"),
        (["--rlenv-extra-instruction=Be quick."], "extra_instruction was None, is *"),
    ],
)
def test_what_would_be_run_otherwise_is_run_again(four: Project, args: list[str], reason: str) -> None:
    four.demo("--rlenv-output=first", "--rlenv-task=a")
    result = four.demo("--rlenv-resume=first", "--rlenv-task=a", *args)
    assert ran(four)["a"] == 2
    result.stdout.fnmatch_lines(
        [
            f"rlenv: resuming first: 1 run again if asked for ({reason}: 1)",
            f"rlenv: resumed first: 0 kept, 1 run again ({reason}: 1)",
        ]
    )


def test_a_changed_task_is_run_again_and_a_new_one_is_run(four: Project) -> None:
    four.demo("--rlenv-output=first")
    (four.environment / "tasks" / "a" / "instruction.md").write_text("Another.\n")
    four.task("new")
    result = four.demo("--rlenv-resume=first")
    assert ran(four) == {"a": 2, "b": 1, "low": 1, "none": 2}
    assert "rlenv: resumed first: 2 kept, 2 run again (the task has changed: 1; error: 1), 1 not in it" in (
        result.outlines
    )


def test_more_attempts_keep_those_there_are(four: Project) -> None:
    four.demo("--rlenv-output=out")
    result = four.demo("--rlenv-resume=out", "--rlenv-output=out", "--rlenv-attempts=2")
    assert ran(four) == {"a": 2, "b": 2, "low": 2, "none": 3}
    assert outcomes(result) == {"passed": 4, "failed": 2, "errors": 2}
    from pytest_rlenv.reports.stored import read_run

    nodes = [record["node"] for record in read_run(four.path / "out").records]
    assert sorted(nodes) == sorted(
        f"rlenv:envs/demo::{task}::{attempt}" for task in ("a", "b", "low", "none") for attempt in (1, 2)
    )


def test_another_agent_shares_nothing(four: Project) -> None:
    four.demo("--rlenv-output=first")
    result = four.demo("--rlenv-resume=first", "--agent=nop")
    assert "rlenv: resumed first: 0 kept, 4 not in it" in result.outlines


def test_a_test_that_is_run_again_gets_a_rollout_of_its_own(four: Project) -> None:
    """As a plugin for flaky tests does it."""
    four.demo("--rlenv-output=first")
    four.pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.rlenv("envs/demo", task="a")
        @pytest.mark.parametrize("time", [1, 2])
        def test_one(rollout, time):
            assert rollout.reward == 1.0
        """
    )
    result = four.run("test_own.py", "--rlenv-resume=first")
    assert outcomes(result) == {"passed": 2}
    assert ran(four)["a"] == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("absent", "there is no such file or folder"),
        ("junit.xml", "a JUnit file does not hold whole rollouts"),
    ],
)
def test_what_is_no_run_is_a_usage_error(four: Project, given: str, said: str) -> None:
    result = four.demo(f"--rlenv-resume={given}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert said in result.stderr.str() + result.stdout.str()
    assert not (four.path / ".rlenv").exists()
