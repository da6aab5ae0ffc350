"""Rows are found without the package, each with a name of its own, and read again by their place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.nemo_gym import row, write_rows

from pytest_rlenv.environments.finders import Finding, Others, Place
from pytest_rlenv.environments.model import TaskRef
from pytest_rlenv.errors import FetchFailed, SpecError, TaskInvalid
from pytest_rlenv.frameworks.nemo_gym.finding import NemoGymFinder
from pytest_rlenv.frameworks.nemo_gym.rows import read_row, scan
from pytest_rlenv.settings import Settings

SETTINGS = Settings(sources={})


def place(root: Path, **more: Any) -> Place:
    files = tuple(sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()))
    return Place("demo", "demo", root, **({"files": files} | more))


def find(root: Path, *, asked: bool = False, **more: Any) -> Finding:
    return NemoGymFinder(SETTINGS).find(place(root, **more), asked=asked)


def ids(root: Path, **more: Any) -> list[str]:
    return [task.id for task in find(root, **more).tasks]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"id": "a"}, "a"),
        ({"id": 7}, "7"),
        ({"id": 0}, "0"),
        ({"uuid": "u", "id": "a"}, "a"),
        ({"uuid": "u"}, "u"),
        ({"task_id": "t", "id": "a"}, "t"),
        ({"hash_id": "h"}, "h"),
        ({"id": None, "uuid": "u"}, "u"),
        ({"id": True}, "row-0"),
        ({"id": "  "}, "row-0"),
        ({"id": {"a": 1}}, "row-0"),
        ({}, "row-0"),
        ({"id": "a::b[c]"}, "a%3A%3Ab%5Bc%5D"),
    ],
)
def test_a_row_is_called_by_its_own_name_else_by_its_index(
    tmp_path: Path, fields: dict[str, Any], name: str
) -> None:
    write_rows(tmp_path / "train.jsonl", row(**fields))
    assert ids(tmp_path) == [f"train/{name}"]


def test_names_that_come_again_are_numbered(tmp_path: Path) -> None:
    write_rows(tmp_path / "train.jsonl", *(row(id=name) for name in ("a", "a", "b", "a#2", "a")))
    assert ids(tmp_path) == ["train/a", "train/a#2", "train/b", "train/a#2#", "train/a#3"]


def test_files_are_told_apart_by_name_else_by_path(tmp_path: Path) -> None:
    for file in ("data/train.jsonl", "data/test.jsonl", "other/test.jsonl"):
        write_rows(tmp_path / file, row(id=1))
    assert ids(tmp_path) == ["data/test/1", "train/1", "other/test/1"]


def test_materialised_rows_are_rows(tmp_path: Path) -> None:
    line = {"task_id": {"taskset": "s", "task_id": "t-1"}, "task_input": row("Hi", id="inner", answer=4)}
    file = write_rows(tmp_path / "train.jsonl", line)
    (task,) = find(tmp_path).tasks
    assert task.id == "train/t-1"
    assert read_row(file, task.data["offset"], task.data["line"])["answer"] == 4


def test_what_a_row_says_of_itself_can_be_selected_by(tmp_path: Path) -> None:
    agent = {"type": "responses_api_agents", "name": "mcqa_simple_agent"}
    write_rows(
        tmp_path / "train.jsonl", row(agent_ref=agent, category="mail", domain="x" * 200, difficulty=3)
    )
    (task,) = find(tmp_path).tasks
    assert (task.tags, task.attributes) == (("train",), {"category": "mail"})
    assert task.data == {"file": "train.jsonl", "line": 1, "offset": 0, "agent": "mcqa_simple_agent"}
    assert task.manifest == "train.jsonl"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"responses_create_params": {"input": "Hi"', "is not JSON"),
        ("nonsense", "is not JSON"),
        ("[1, 2]", "is not an object but list"),
        ('{"question": "How?", "answer": 1}', "has no responses_create_params (it has question, answer)"),
        ('{"responses_create_params": null}', ": responses_create_params is null, not an object"),
        ('{"responses_create_params": []}', ": responses_create_params is an array, not an object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": "\\ud800"', "is not JSON"),
    ],
)
def test_a_broken_line_is_a_task_that_says_where_it_is(tmp_path: Path, line: str, problem: str) -> None:
    write_rows(tmp_path / "train.jsonl", row(id="good"), "", line, row(id="last"))
    good, broken, last = find(tmp_path).tasks
    assert (good.problem, last.problem) == (None, None)
    assert broken.id == "train/row-1"
    assert "train.jsonl, line 3" in str(broken.problem)
    assert problem in str(broken.problem)


@pytest.mark.parametrize(
    "name",
    ["example_rollouts.jsonl", "out_materialized_inputs.jsonl", "x_failures.jsonl", "train_metrics.jsonl"],
)
def test_what_nemo_gym_writes_itself_holds_no_tasks(tmp_path: Path, name: str) -> None:
    write_rows(tmp_path / name, row())
    assert find(tmp_path) == Finding()


@pytest.mark.parametrize("first", ["{}", '{"messages": []}', "[]", "no JSON", "", "[" * 100_000])
def test_the_first_lines_say_whether_a_file_holds_rows(tmp_path: Path, first: str) -> None:
    write_rows(tmp_path / "data.jsonl", first)
    assert find(tmp_path) == Finding()
    assert (
        "none of the first lines of its .jsonl files (data.jsonl)"
        in find(tmp_path, tags=("nemo-gym",)).reason
    )
    assert "--rlenv-framework asks for nemo-gym" in find(tmp_path, asked=True).reason


@pytest.mark.parametrize(("broken", "found"), [(1, 2), (4, 5), (5, 0)])
def test_a_broken_beginning_does_not_hide_the_rows_below(tmp_path: Path, broken: int, found: int) -> None:
    write_rows(tmp_path / "train.jsonl", *['{"cut', ""] * broken, row(id="a"))
    tasks = find(tmp_path).tasks
    assert len(tasks) == found
    assert [task.problem is None for task in tasks] == ([False] * broken + [True])[:found]


def test_a_packed_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl.gz").write_bytes(b"")
    assert "train.jsonl.gz is packed" in find(tmp_path, asked=True).reason


def test_a_tag_without_files_of_rows_says_so(tmp_path: Path) -> None:
    (tmp_path / "train.parquet").write_bytes(b"PAR1")
    assert "there is no .jsonl file of rows" in find(tmp_path, tags=("nemo-gym",)).reason


def test_files_of_the_hub_are_not_fetched_for_a_guess(tmp_path: Path) -> None:
    brought: list[str] = []
    away: dict[str, Any] = {"repo_id": "org/repo", "files": ("train.jsonl",), "bring": brought.extend}
    assert find(tmp_path, **away) == Finding()
    assert brought == []
    find(tmp_path, tags=("nemo-gym",), **away)
    assert brought == ["train.jsonl"]


def test_rows_of_the_hub_know_their_repository_and_its_servers_come_along(tmp_path: Path) -> None:
    files = ("data/train.jsonl", "resources_servers/x/app.py", "README.md")
    brought: list[str] = []

    def bring(paths: Any) -> None:
        brought.extend(paths)
        write_rows(tmp_path / "data/train.jsonl", row(id=1))

    found = find(tmp_path, repo_id="org/repo", files=files, bring=bring, tags=("nemo-gym",))
    assert brought == ["data/train.jsonl", "resources_servers/x/app.py"]
    assert found.tasks[0].data["repo"] == "org/repo"


def test_a_file_that_cannot_be_had_stops_the_environment(tmp_path: Path) -> None:
    def bring(paths: Any) -> None:
        raise FetchFailed("the Hub is down", hint="try later")

    with pytest.raises(SpecError, match="demo: the Hub is down"):
        find(tmp_path, repo_id="org/repo", files=("train.jsonl",), bring=bring, asked=True)


def test_rows_and_folders_live_side_by_side(tmp_path: Path) -> None:
    write_rows(tmp_path / "train.jsonl", row(id="a"))
    others = Others(lambda: (NemoGymFinder(SETTINGS),))
    tasks, _ = others.join([TaskRef("fix-csv", "tasks/fix-csv")], place(tmp_path))
    assert [(task.id, task.framework) for task in tasks] == [("fix-csv", "harbor"), ("train/a", "nemo-gym")]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda file: file.unlink(), "cannot be read"),
        (lambda file: file.write_text("{}\n"), "train.jsonl, line 2 is not JSON"),
    ],
)
def test_a_row_that_has_changed_since_is_told(
    tmp_path: Path, change: Callable[[Path], object], problem: str
) -> None:
    file = write_rows(tmp_path / "train.jsonl", row(id="a"), row(id="b"))
    task = find(tmp_path).tasks[1]
    change(file)
    with pytest.raises(TaskInvalid, match=problem):
        read_row(file, task.data["offset"], task.data["line"])


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=8) | st.integers()), max_size=8))
def test_each_row_is_read_again_as_it_was_found(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    file = tmp_path_factory.getbasetemp() / "found.jsonl"
    written = [row("Hé", **{k: v for k, v in fields.items() if k.isidentifier()}) for fields in rows]
    file.write_text("".join(f"{json.dumps(each)}\n\n" for each in written))
    found = list(scan(file, "found.jsonl"))
    assert [read_row(file, each.offset, each.line) for each in found] == written


def test_ten_thousand_rows_are_one_pass(tmp_path: Path) -> None:
    line = json.dumps(row("word " * 300))
    (tmp_path / "train.jsonl").write_text(f"{line}\n" * 10_000)
    tasks = find(tmp_path).tasks
    assert len({task.id for task in tasks}) == 10_000
    assert max(len(json.dumps(task.data)) for task in tasks) < 100
