"""Terminal-Bench 1: found by a walk and on the Hub alike, beside tasks of Harbor."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.environments import CARD, Resolve, ids, repo_files
from support.fake_hub import FakeHub

from pytest_rlenv.environments.discovery import find_tasks
from pytest_rlenv.environments.hub_reference import parse_uri_or_url
from pytest_rlenv.environments.local import resolve_local
from pytest_rlenv.environments.model import LOCAL, Environment, TaskRef, dumps, loads
from pytest_rlenv.environments.nothing_found import nothing_found
from pytest_rlenv.environments.resolve import fetch, read_metadata
from pytest_rlenv.environments.spec import Spec

YAML = """\
instruction: Do it.
difficulty: hard
category: games
tags: [a b, c]
estimated_duration_sec: 9.5
2: x
"""


def older(*folders: str) -> dict[str, str]:
    files = ("task.yaml", "docker-compose.yaml", "run-tests.sh", "tests/test_outputs.py", "Dockerfile")
    found = {f"{folder}/{name}".lstrip("/"): f"{folder} {name}" for folder in folders for name in files}
    return found | {path: YAML for path in found if path.endswith("task.yaml")}


def put(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def local(root: Path, dataset: str | None = None) -> Environment:
    return resolve_local(Spec(str(root), LOCAL, path=root), rootdir=root, dataset=dataset)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(["t/a/task.yaml", "t/a/docker-compose.yaml"], {"t/a": "terminal-bench"}, id="compose"),
        pytest.param(["t/a/task.yaml", "t/a/run-tests.sh"], {"t/a": "terminal-bench"}, id="tests"),
        pytest.param(["task.yaml", "run-tests.sh"], {".": "terminal-bench"}, id="the root"),
        pytest.param(["t/a/task.yaml", "t/a/run-tests.sh", "t/a/task.toml"], {"t/a": "harbor"}, id="both"),
        pytest.param(["t/a/task.yaml", "t/a/Dockerfile"], {}, id="any other task.yaml"),
        pytest.param(["t/a/task.yaml", "t/run-tests.sh"], {}, id="not beside it"),
        pytest.param(["t/a/run-tests.sh", "t/a/docker-compose.yaml"], {}, id="no task.yaml"),
        pytest.param(
            ["a/task.toml", "a/tests/x/task.yaml", "a/tests/x/run-tests.sh"],
            {"a": "harbor"},
            id="in Harbor's",
        ),
        pytest.param(
            ["a/task.yaml", "a/run-tests.sh", "a/tests/x/task.toml"], {"a": "terminal-bench"}, id="around"
        ),
        pytest.param(
            ["a/task.yaml", "a/run-tests.sh", "a/instruction.md", "a/tests/x"],
            {"a": "terminal-bench"},
            id="with an instruction",
        ),
        pytest.param([".a/task.yaml", ".a/run-tests.sh"], {}, id="hidden"),
        pytest.param(["1/2/3/4/5/6/7/task.yaml", "1/2/3/4/5/6/7/run-tests.sh"], {}, id="seven deep"),
    ],
)
def test_which_folders_are_whose_tasks(files: list[str], expected: dict[str, str], tmp_path: Path) -> None:
    assert {task.path: task.framework for task in find_tasks(files, root_name="r")} == expected
    put(tmp_path, dict.fromkeys([*files, "harbor/task.toml"], ""))
    if "." not in expected:
        found = {task.path: task.framework for task in local(tmp_path).tasks}
        assert found == {**expected, "harbor": "harbor"}


def test_thousands_are_found_without_opening_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(3000):
        folder = tmp_path / f"tasks/t{i:05}"
        folder.mkdir(parents=True)
        (folder / "task.yaml").touch()
        (folder / "run-tests.sh").touch()
    monkeypatch.setattr("builtins.open", None)
    monkeypatch.setattr(os, "open", None)
    environment = local(tmp_path)
    assert {task.framework for task in environment.tasks} == {"terminal-bench"}
    assert len(environment.tasks) == 3000


def test_a_link_out_of_the_environment_is_told(tmp_path: Path) -> None:
    put(tmp_path, older("out/a") | {"env/b/task.toml": ""})
    (tmp_path / "env/a").symlink_to(tmp_path / "out/a")
    task = local(tmp_path / "env").tasks[0]
    assert (task.id, task.framework) == ("a", "terminal-bench")
    assert "leaves the environment" in str(task.problem)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(older(*(f"tasks/t{i}" for i in range(30))), id="many"),
        pytest.param(older(""), id="the repository is the task"),
        pytest.param(older("a", "b/c", "x/y/z") | repo_files("h"), id="both, at several depths"),
        pytest.param(
            {"conf/task.yaml": "", "b/task.yaml": "", "b/x": ""} | repo_files("h"), id="other files"
        ),
    ],
)
def test_the_hub_and_a_folder_find_the_same(
    files: dict[str, str], hub: FakeHub, resolve_one: Resolve, tmp_path: Path
) -> None:
    hub.page_size = 7
    hub.add("org/repo", {**files, "README.md": CARD})
    put(tmp_path / "repo", files)
    first = resolve_one("org/repo")
    assert first.tasks == resolve_one("./repo").tasks
    hub.clear()
    assert resolve_one("org/repo").tasks == first.tasks
    assert loads(dumps([first])) == [first]


def test_the_hub_is_asked_a_handful_of_times(hub: FakeHub, resolve_one: Resolve) -> None:
    hub.add("org/repo", {"README.md": CARD, **older(*(f"tasks/t{i:03}" for i in range(300)))})
    assert len(resolve_one("org/repo").tasks) == 300
    assert hub.count() <= 15
    assert hub.count("recursive=true") == 0


def test_tasks_of_the_hub_are_fetched_whole(hub: FakeHub, resolve_one: Resolve, cache_dir: Path) -> None:
    hub.add("org/repo", {"README.md": CARD, **older("tasks/a", "tasks/b")})
    environment = resolve_one("org/repo")
    fetch(environment, environment.tasks[:1], cache_dir)
    folder = environment.folder(environment.tasks[0])
    assert {path.name for path in folder.rglob("*") if path.is_file()} == {
        "task.yaml", "docker-compose.yaml", "run-tests.sh", "test_outputs.py", "Dockerfile"
    }  # fmt: skip


def test_metadata(hub: FakeHub, resolve_one: Resolve, cache_dir: Path) -> None:
    hub.add("org/repo", {"README.md": CARD, **older("tasks/a", "tasks/b"), **repo_files("h")})
    environment = resolve_one("org/repo")
    fetch(environment, environment.tasks[:1], cache_dir)
    read = read_metadata(environment, cache_dir)
    assert [task.tags for task in read.tasks] == [("a b", "c"), ("a b", "c"), ("tasks/h",)]
    assert read.tasks[1].attributes == {
        "difficulty": "hard", "category": "games", "estimated_duration_sec": 9.5
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "- a", "a: [", "a: !!timestamp x", "tags: 3", "\udcff"])
def test_metadata_that_cannot_be_read_leaves_the_task_as_it_is(text: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/task.yaml").write_bytes(text.encode("utf-8", "surrogateescape"))
    task = TaskRef("a", "a", "terminal-bench")
    environment = Environment("env", LOCAL, tmp_path, tasks=(task,))
    assert read_metadata(environment, tmp_path).tasks == (task,)


def test_a_dataset_keeps_whose_tasks_they_are(tmp_path: Path) -> None:
    put(tmp_path, older("tasks/a") | {"registry.json": '[{"name": "d", "tasks": [{"path": "tasks/a"}]}]'})
    assert [task.framework for task in local(tmp_path, dataset="d").tasks] == ["terminal-bench"]


def test_naming_the_file_names_the_task() -> None:
    assert parse_uri_or_url("hf://datasets/org/repo/tasks/a/task.yaml").subpath == "tasks/a"


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        (
            ["a/task.yaml", "a/Dockerfile"],
            "a/task.yaml is no task: one of Terminal-Bench 1 has task.yaml, and beside it",
        ),
        (["a/task.yml"], "a/task.yml is no task"),
        ([".h/a/task.yaml", ".h/a/run-tests.sh"], ".h/a/task.yaml is there, but folders such as '.h'"),
    ],
)
def test_what_is_no_task_is_explained(files: list[str], hint: str) -> None:
    assert hint in nothing_found("org/repo", files).hint


def test_ids_are_as_harbors(tmp_path: Path) -> None:
    put(tmp_path, older("tasks/a", "tasks/x/b"))
    assert ids(local(tmp_path)) == ["a", "x/b"]
