"""``--rlenv-shard`` in a run."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from support.project import Project, ids, outcomes, properties, read_junit, verdict_of
from support.stored_runs import record, run_of, write_run

from pytest_rlenv.__main__ import main
from pytest_rlenv.reports.stored import read_run


@pytest.fixture
def seven(project: Project) -> Project:
    for number in range(7):
        project.task(f"task-{number}")
    return project


def test_every_task_is_in_one_shard(seven: Project) -> None:
    seven.pytester.makepyfile(test_own="def test_one(): pass")
    listed: Counter[str] = Counter()
    for number in (1, 2, 3):
        result = seven.demo("test_own.py", "--agent=oracle,nop", "--co", "-q", f"--rlenv-shard={number}/3")
        found = ids(result)
        tasks = Counter(name.split("::")[1] for name in found if name.startswith("rlenv:"))
        assert set(tasks.values()) == {2}, "both agents of a task are together: its image is made once"
        assert len(tasks) in (2, 3)
        listed.update(found)
    own = listed.pop("test_own.py::test_one")
    assert own == 3, "tests of another kind are run by all"
    assert len(listed) == 14
    assert set(listed.values()) == {1}


@pytest.mark.parametrize("how", [[], ["-n2"], ["--rlenv-jobs=2"]])
def test_a_shard_is_run_and_the_rest_is_deselected(seven: Project, how: list[str]) -> None:
    result = seven.demo("--rlenv-shard=2/3", *how)
    found = result.parseoutcomes()
    assert found["passed"] in (2, 3)
    if "-n2" not in how:  # xdist does not tell what its workers deselect
        assert found["passed"] + found["deselected"] == 7
    assert "rlenv: shard 2/3, dealt by the tasks' own limits" in result.outlines
    assert json.loads((seven.run_dir / "run.json").read_text())["settings"]["shard"] == "2/3"


def test_it_deals_what_else_is_selected(seven: Project) -> None:
    first, second = (
        seven.demo("--co", "-q", "-k", "task-1 or task-4", f"--rlenv-shard={number}/2") for number in (1, 2)
    )
    assert len(ids(first)) == len(ids(second)) == 1


def test_recorded_times_balance_and_what_this_machine_ran_before_does_not_count(seven: Project) -> None:
    """pytest's cache and a task's limits say otherwise, and are not asked."""
    times = run_of(
        *(record(f"task-{n}", environment="envs/demo", seconds=1.0 + 99 * (n == 6)) for n in range(7))
    )
    write_run(seven.path / "times", times)
    seven.demo()  # fills the cache
    first = seven.demo("--co", "-q", "--rlenv-shard=1/2", "--rlenv-durations=times")
    second = seven.demo("--co", "-q", "--rlenv-shard=2/2", "--rlenv-durations=times/results.jsonl")
    assert [len(ids(first)), len(ids(second))] == [1, 6]
    assert ids(first) == ["rlenv:envs/demo::task-6"]
    assert (
        "rlenv: shard 1/2, dealt by the times in times"
        in seven.demo("--rlenv-shard=1/2", "--rlenv-durations=times", "--rlenv-output=out").outlines
    )


def test_the_limits_of_local_tasks_balance_where_nothing_is_recorded(project: Project) -> None:
    for name, limit in (("a", 1000), ("b", 10), ("c", 10), ("d", 10)):
        limits = f"[agent]\ntimeout_sec = {limit}.0\n[verifier]\ntimeout_sec = 10.0\n"
        project.task(name, config=f'schema_version = "1.4"\n{limits}')
    assert ids(project.demo("--co", "-q", "--rlenv-shard=1/2")) == ["rlenv:envs/demo::a"]


@pytest.mark.parametrize("how", [[], ["-n1"]])
def test_a_shard_without_tasks_passes(project: Project, how: list[str]) -> None:
    project.task("only")
    result = project.demo("--rlenv-shard=2/2", *how)
    assert result.ret == pytest.ExitCode.OK
    assert outcomes(result) == {}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--rlenv-shard=3/2"], "rlenv: --rlenv-shard = '3/2': *is no part, as 1/3 or 3/3 is*"),
        (
            ["--rlenv-shard=1/2", "--rlenv-durations=absent"],
            "rlenv: *absent: there is no such file or folder*",
        ),
    ],
)
def test_what_cannot_be_done_is_a_usage_error(seven: Project, args: list[str], said: str) -> None:
    result = seven.demo(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (result.stderr if result.errlines else result.stdout).fnmatch_lines([f"*{said}"])


def test_merged_shards_are_what_one_run_would_have_been(seven: Project) -> None:
    seven.task("low", test="# scripted: reward=0.25")
    whole = seven.demo("--rlenv-output=whole", "--junitxml=whole.xml")
    for number in (1, 2):
        seven.demo(f"--rlenv-shard={number}/2", f"--rlenv-output=part{number}")
    merging = ["part1", "part2", "--output", "merged", "--junitxml", "merged.xml", "--html", "merged.html"]
    assert main(["merge", *merging]) == 0
    once, again = read_run(seven.path / "whole"), read_run(seven.path / "merged")
    key = ("node", "task", "reward", "verdict", "task_digest")
    assert sorted([each[name] for name in key] for each in once.records) == sorted(
        [each[name] for name in key] for each in again.records
    )
    assert outcomes(whole) == {"passed": 7, "failed": 1}
    assert again.facts["exit_code"] == 1
    for each in again.records:
        assert (seven.path / "merged" / each["logs"] / "agent" / "oracle.txt").exists()
    of_pytest, of_merge = (read_junit(seven.path / name) for name in ("whole.xml", "merged.xml"))
    assert of_pytest.keys() == of_merge.keys()
    for name, case in of_pytest.items():
        assert case.get("classname") == of_merge[name].get("classname")
        assert verdict_of(case)[0] == verdict_of(of_merge[name])[0]
        assert properties(case)["rlenv.reward"] == properties(of_merge[name])["rlenv.reward"]
    assert "task-3" in (seven.path / "merged.html").read_text()
    assert main(["compare", "whole", "merged", "--fail-on", "broken,regression"]) == 0
