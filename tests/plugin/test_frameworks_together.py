"""Tasks of several frameworks in one environment: found, chosen, run, stored and compared alike."""

from __future__ import annotations

import re
from typing import Any

import pytest
import support.scripted_framework as scripted_framework
from support.project import Project, ids, outcomes
from support.scripted_episodes import rows

JUDGE = "# scripted: reward-if=/app/answer"
AGENT = """
def seven(observation, action_schema, tools):
    "Knows the number."
    return {"guess": 7} if action_schema else {"tool": "guess", "arguments": {"guess": 7}}
"""


@pytest.fixture
def mixed(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Two tasks in folders, two of actions, two of tools."""
    scripted_framework.install(monkeypatch.setattr)
    project.pytester.makeconftest(scripted_framework.CONFTEST)
    project.pytester.makepyfile(mine=AGENT)
    project.tasks(apple=JUDGE, berry="# scripted: reward=0.25")
    write(project, "games/guess.jsonl", near={"kind": "act"}, far={"kind": "act", "target": 8})
    write(project, "rows.jsonl", one={"kind": "tools"}, two={"kind": "tools", "reward": None})
    return project


def write(project: Project, path: str, **tasks: Any) -> None:
    file = project.environment / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(rows(**tasks))


def listed(project: Project, *args: str) -> list[str]:
    return [each.partition("::")[2] for each in ids(project.demo("--co", "-q", *args))]


def verdicts(project: Project) -> dict[str, tuple[str, str]]:
    return {each["task"]: (each["framework"], each["verdict"]) for each in project.records()}


ALL = ["apple", "berry", "far", "near", "one", "two"]
VERDICTS = {
    "apple": ("harbor", "passed"),
    "berry": ("harbor", "failed"),
    "far": ("openenv", "passed"),
    "near": ("openenv", "passed"),
    "one": ("nemo-gym", "passed"),
    "two": ("nemo-gym", "error"),
}


@pytest.mark.parametrize("args", [[], ["-n2"], ["--rlenv-jobs=2"]])
def test_one_environment_runs_the_tasks_of_all_its_frameworks(mixed: Project, args: list[str]) -> None:
    result = mixed.demo(*args)
    assert outcomes(result) == {"passed": 4, "failed": 1, "errors": 1}
    assert verdicts(mixed) == VERDICTS
    assert "rlenv: envs/demo: 6 tasks" in result.outlines


def test_the_listing_has_them_in_the_order_of_their_ids(mixed: Project) -> None:
    assert listed(mixed) == ALL


@pytest.mark.parametrize(
    ("args", "chosen"),
    [
        (["--rlenv-framework=harbor"], ["apple", "berry"]),
        (["--rlenv-framework=openenv"], ["far", "near"]),
        (["--rlenv-framework=nemo-gym"], ["one", "two"]),
        (["--rlenv-task=*e*"], ["apple", "berry", "near", "one"]),
        (["--rlenv-framework=openenv", "--rlenv-task=f*"], ["far"]),
        (["--rlenv-limit=3"], ["apple", "berry", "far"]),
        (["-k", "near or apple"], ["apple", "near"]),
    ],
)
def test_they_are_chosen_alike(mixed: Project, args: list[str], chosen: list[str]) -> None:
    assert listed(mixed, *args) == chosen


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_a_single_one_is_run_by_its_node_id(mixed: Project, workers: list[str]) -> None:
    result = mixed.run("rlenv:envs/demo::near", "rlenv:envs/demo::apple", *workers)
    assert outcomes(result) == {"passed": 2}
    assert set(verdicts(mixed)) == {"near", "apple"}


def test_what_failed_is_run_again(mixed: Project) -> None:
    mixed.demo()
    assert ids(mixed.demo("--lf", "--co", "-q")) == ["rlenv:envs/demo::berry", "rlenv:envs/demo::two"]


def test_shards_share_them_out(mixed: Project) -> None:
    one, two = listed(mixed, "--rlenv-shard=1/2"), listed(mixed, "--rlenv-shard=2/2")
    assert sorted([*one, *two]) == ALL
    assert one
    assert two


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_a_run_is_resumed_over_all_of_them(mixed: Project, workers: list[str]) -> None:
    mixed.demo("-k", "apple or near or one", "--rlenv-output=first")
    result = mixed.demo("--rlenv-resume=first", *workers)
    assert outcomes(result) == {"passed": 4, "failed": 1, "errors": 1}
    taken = {each["task"] for each in mixed.records() if each["resumed_from"]}
    assert taken == {"apple", "near", "one"}


def test_a_baseline_covers_all_of_them(mixed: Project) -> None:
    mixed.demo("--rlenv-output=first")
    write(mixed, "games/guess.jsonl", near={"kind": "act"}, far={"kind": "act", "reward": None})
    result = mixed.demo("--rlenv-baseline=first")
    text = result.stdout.str()
    assert re.search(r"far\b", text.partition("baseline")[2]), text


def test_a_record_says_which_path_ran(mixed: Project) -> None:
    write(mixed, "guess.jsonl", apple={"kind": "act"})  # the id of a task in a folder
    assert listed(mixed, "-k", "apple") == ["apple", "openenv/apple"]
    assert outcomes(mixed.demo("-k", "apple")) == {"passed": 2}
    assert {(each["task"], each["framework"]) for each in mixed.records()} == {
        ("apple", "harbor"),
        ("openenv/apple", "openenv"),
    }


def test_ids_are_made_different_however_often_they_occur(mixed: Project) -> None:
    write(mixed, "guess.jsonl", near={"kind": "act"}, apple={"kind": "act"})
    write(mixed, "more/guess.jsonl", near={"kind": "act"})
    write(mixed, "rows.jsonl", near={"kind": "tools"})
    mixed.task("openenv/apple", test=JUDGE)
    assert listed(mixed, "-k", "near or apple") == [
        "apple",
        "nemo-gym/near",
        "openenv/apple",
        "openenv/apple#2",
        "openenv/near",
        "openenv/near#2",
        "openenv/near#3",
    ]


def test_a_function_plays_what_has_no_box_and_skips_what_has_one(mixed: Project) -> None:
    result = mixed.demo("--agent=mine:seven")
    assert outcomes(result) == {"passed": 2, "failed": 1, "errors": 1, "skipped": 2}
    skipped = {each["task"]: each["skip_reason"] for each in mixed.records() if each["skip_reason"]}
    assert set(skipped) == {"apple", "berry"}
    assert set(skipped.values()) == {"agent seven plays episodes, and this task has a box instead"}


def test_an_agent_for_boxes_skips_what_has_none(mixed: Project) -> None:
    result = mixed.demo("--agent=cmd:true", "--rlenv-framework=openenv")
    assert outcomes(result) == {"skipped": 2}
    (reason,) = {each["skip_reason"] for each in mixed.records()}
    assert reason.startswith("agent cmd works in a box; scripted tasks have none: use oracle, nop, model")


def test_a_run_without_boxes_needs_no_sandbox(mixed: Project) -> None:
    result = mixed.run("--rlenv", "envs/demo", "--rlenv-framework=openenv", sandbox=None)
    assert outcomes(result) == {"passed": 2}
    assert {each["sandbox"] for each in mixed.records()} == {"none"}


def test_a_negative_control_finds_what_scores_by_itself(mixed: Project) -> None:
    write(mixed, "games/guess.jsonl", near={"kind": "act"}, vacuous={"kind": "act", "floor": 1.0})
    mixed.demo("--agent=nop", "--rlenv-framework=openenv")
    assert verdicts(mixed) == {"near": ("openenv", "passed"), "vacuous": ("openenv", "failed")}


def test_a_problem_that_its_finder_saw_is_the_tasks_error(mixed: Project) -> None:
    write(mixed, "games/guess.jsonl", near={"kind": "act"}, odd={"kind": "act", "problem": "line 2 is odd"})
    mixed.demo("--rlenv-framework=openenv")
    assert verdicts(mixed) == {"near": ("openenv", "passed"), "odd": ("openenv", "error")}
    (error,) = [each["error"] for each in mixed.records() if each["error"]]
    assert (error["type"], error["message"]) == ("TaskInvalid", "line 2 is odd")


def card(*tags: str) -> str:
    return "---\ntags:\n" + "".join(f"- {tag}\n" for tag in ("rl-environment", *tags)) + "---\n"


@pytest.mark.parametrize(
    ("tags", "files", "args", "words"),
    [
        (
            ["openenv"],
            ["data.csv"],
            [],
            [
                "looked for folders with task.toml",
                "guess.jsonl; rows.jsonl",
                "saw README.md, data.csv",
                "it is tagged openenv, and has no guess.jsonl",
            ],
        ),
        ([], ["data.csv"], [], ["looked for folders with task.toml", "saw README.md, data.csv"]),
        (
            [],
            ["tasks/a/task.toml"],
            ["--rlenv-framework=openenv"],
            [
                "looked for guess.jsonl (for nothing else",
                "; saw README.md, tasks/",
                "1 task of harbor",
                "--rlenv-framework",
            ],
        ),
        (
            [],
            ["rows.jsonl"],
            ["--rlenv-framework=harbor"],
            ["looked for folders with task.toml", "saw README.md, rows.jsonl", "by --rlenv-framework harbor"],
        ),
        (
            ["openenv"],
            ["rows.jsonl", "tasks/a/task.toml"],
            ["--rlenv-framework=openenv"],
            ["it is tagged openenv, and has no guess.jsonl", "1 task of harbor"],
        ),
        (["verifiers"], ["train.parquet"], [], ["saw README.md, train.parquet", "it is tagged verifiers"]),
    ],
)
def test_no_task_is_one_message_that_says_what_was_looked_for_and_seen(
    mixed: Project, tags: list[str], files: list[str], args: list[str], words: list[str]
) -> None:
    for file in files:
        path = mixed.path / "other" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(rows(a={"kind": "act"}) if file.endswith(".jsonl") else "")
    (mixed.path / "other" / "README.md").write_text(card(*tags))
    result = mixed.run("--rlenv", "other", *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.startswith("ERROR")]
    text = result.stderr.str()
    assert "0 tasks found in" in line
    for each in words:
        assert each in text, text
    assert "Traceback" not in text


def test_a_framework_that_nobody_has_is_a_usage_error(mixed: Project) -> None:
    result = mixed.demo("--rlenv-framework=gym")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "openenv" in result.stderr.str()


def test_a_file_that_is_wrong_for_all_is_a_usage_error(mixed: Project) -> None:
    (mixed.environment / "rows.jsonl").write_text("{")
    result = mixed.demo()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "rows.jsonl is not JSON" in result.stderr.str()


def test_marks_and_files_choose_a_framework_too(mixed: Project) -> None:
    (mixed.path / "one.rlenv.toml").write_text('repo = "envs/demo"\nframework = "openenv"\n')
    result = mixed.run("--co", "-q")
    assert [each.rpartition("::")[2] for each in ids(result)] == ["far", "near"]
