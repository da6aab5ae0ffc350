from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.environments.discovery import find_tasks, task_id
from pytest_rlenv.environments.nothing_found import nothing_found


def found(*paths: str, base: str = "") -> dict[str, str]:
    return {task.id: task.path for task in find_tasks(paths, root_name="repo", base=base)}


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        pytest.param([], {}, id="nothing"),
        pytest.param(
            ["tasks/b/task.toml", "tasks/a/task.toml"], {"a": "tasks/a", "b": "tasks/b"}, id="usual"
        ),
        pytest.param(["a/task.toml", "b/task.toml"], {"a": "a", "b": "b"}, id="at the root"),
        pytest.param(["task.toml", "tests/test.sh"], {"repo": "."}, id="the root is the task"),
        pytest.param(
            ["tasks/x/y/a/task.toml", "tasks/b/task.toml"],
            {"b": "tasks/b", "x/y/a": "tasks/x/y/a"},
            id="grouped",
        ),
        pytest.param(["1/2/3/4/5/6/task.toml"], {"1/2/3/4/5/6": "1/2/3/4/5/6"}, id="six deep"),
        pytest.param(["1/2/3/4/5/6/7/task.toml"], {}, id="seven deep"),
        pytest.param(
            ["tasks/a/task.toml", "tasks/a/tests/data/task.toml"], {"a": "tasks/a"}, id="none below a task"
        ),
        pytest.param(
            [".git/task.toml", "x/.cache/task.toml", "node_modules/m/task.toml", "__pycache__/task.toml"],
            {},
            id="hidden",
        ),
        pytest.param(
            ["tasks/a/task.toml", "a/task.toml"], {"tasks/a": "tasks/a", "a": "a"}, id="equal without tasks/"
        ),
        pytest.param(
            ["tasks/tasks/a/task.toml", "tasks/a/task.toml", "a/task.toml"],
            {"tasks/tasks/a": "tasks/tasks/a", "tasks/a": "tasks/a", "a": "a"},
            id="equal twice over",
        ),
        pytest.param(["tasks/task.toml"], {"tasks": "tasks"}, id="a task called tasks"),
        pytest.param(["my-task.toml", "a/task.toml.bak", "a/Task.toml"], {}, id="other files"),
        pytest.param(
            ["tasks/f(x)[0] é::b/task.toml"],
            {"f(x)%5B0%5D é%3A%3Ab": "tasks/f(x)[0] é::b"},
            id="odd names",
        ),
    ],
)
def test_which_folders_are_tasks(paths: list[str], expected: dict[str, str]) -> None:
    assert found(*paths) == expected
    assert list(found(*paths)) == sorted(expected)


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("tasks/f", {"f/a": "tasks/f/a"}),
        ("tasks/f/a", {"f/a": "tasks/f/a"}),
        ("tasks/fx", {"fx/b": "tasks/fx/b"}),
        ("nothing", {}),
    ],
)
def test_a_folder_narrows_but_keeps_the_ids(base: str, expected: dict[str, str]) -> None:
    assert found("tasks/f/a/task.toml", "tasks/fx/b/task.toml", "c/task.toml", base=base) == expected


def test_depth_counts_from_the_folder_that_was_named() -> None:
    assert found("x/1/2/3/4/5/6/task.toml", base="x") == {"x/1/2/3/4/5/6": "x/1/2/3/4/5/6"}


def broken(*paths: str) -> list[str]:
    return [task.path for task in find_tasks(paths, root_name="repo") if task.problem]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        pytest.param(["t/a/instruction.md", "t/a/environment/Dockerfile"], ["t/a"], id="environment"),
        pytest.param(["t/a/instruction.md", "t/a/tests/test.sh"], ["t/a"], id="tests"),
        pytest.param(["t/a/instruction.md", "t/a/solution/solve.sh"], ["t/a"], id="solution"),
        pytest.param(["instruction.md", "tests/test.sh"], ["."], id="the root"),
        pytest.param(["t/a/instruction.md"], [], id="only an instruction"),
        pytest.param(["t/a/tests/test.sh", "t/a/environment/Dockerfile"], [], id="no instruction"),
        pytest.param(["t/a/instruction.md", "t/b/tests/test.sh"], [], id="not the same folder"),
        pytest.param(["t/a/instruction.md", "t/a/deep/tests/test.sh"], [], id="not beside it"),
        pytest.param(
            ["a/task.toml", "a/tests/x/instruction.md", "a/tests/x/tests/test.sh"], [], id="inside a task"
        ),
        pytest.param(
            ["a/task.toml", "a/steps/1/instruction.md", "a/steps/1/tests/test.sh"], [], id="step of a task"
        ),
        pytest.param(
            ["a/steps/1/instruction.md", "a/steps/1/tests/test.sh", "a/steps/2/instruction.md"],
            ["a"],
            id="step of a broken task",
        ),
        pytest.param(
            ["g/instruction.md", "g/tests/conftest.py", "g/tasks/a/task.toml"], [], id="around real tasks"
        ),
        pytest.param(
            [
                "a/instruction.md",
                "a/tests/test.sh",
                "a/environment/sub/instruction.md",
                "a/environment/sub/tests/x",
            ],
            ["a"],
            id="inside a broken task",
        ),
        pytest.param([".x/a/instruction.md", ".x/a/tests/test.sh"], [], id="hidden"),
    ],
)
def test_a_task_without_its_manifest_is_not_lost(paths: list[str], expected: list[str]) -> None:
    assert broken(*paths) == expected


def test_a_broken_task_stands_among_the_others_in_order() -> None:
    tasks = find_tasks(
        ["tasks/c/task.toml", "tasks/b/instruction.md", "tasks/b/tests/test.sh", "tasks/a/task.toml"],
        root_name="repo",
    )
    assert [(task.id, task.problem) for task in tasks] == [
        ("a", None),
        ("b", "task.toml is missing"),
        ("c", None),
    ]


@given(st.text(min_size=1))
def test_ids_are_safe_and_can_be_told_apart(path: str) -> None:
    id_ = task_id(path)
    assert not any(lost in id_ for lost in ("::", "[", "]", "\n", "\0", "\x7f"))
    if path.isprintable():
        assert unquote(id_) == path


@given(
    st.lists(st.text(alphabet="ab/%:[]5B.", min_size=1, max_size=12).map(lambda s: s.strip("/")), max_size=6)
)
def test_no_two_tasks_have_one_id(folders: list[str]) -> None:
    tasks = find_tasks([f"{folder}/task.toml" for folder in folders if folder], root_name="repo")
    assert len({task.id for task in tasks}) == len(tasks)


@pytest.mark.parametrize(
    ("paths", "message", "hint"),
    [
        ([], "it holds no files", "push"),
        (["README.md", "src/x.py"], "saw README.md, src/", "a task is a folder"),
        (["old/a/task.yaml", "old/a/Dockerfile"], "saw old/", "Terminal-Bench 1"),
        (["README.md", "data/train.parquet"], "saw README.md, data/", "rows (data/train.parquet)"),
        (["data/tasks.jsonl"], "saw data/", "rows (data/tasks.jsonl)"),
        (["1/2/3/4/5/6/7/task.toml"], "at most 6 folders deep", "7 folders deep"),
        ([".hidden/a/task.toml"], "saw .hidden/", "'.hidden' are not looked into"),
        ([f"{i:02}/x" for i in range(20)], "07/, and 12 more", "a task is a folder"),
    ],
)
def test_nothing_found_says_what_was_seen(paths: list[str], message: str, hint: str) -> None:
    error = nothing_found("org/repo", paths)
    assert "0 tasks found in org/repo: looked for folders with task.toml" in error.message
    assert message in error.message
    assert hint in error.hint


def test_nothing_found_in_a_folder_that_is_not_there() -> None:
    error = nothing_found("org/repo", ["tasks/a/task.toml", "README.md"], base="task")
    assert error.message == "there is no folder 'task' in org/repo"
    assert error.hint == "it has README.md, tasks/"
