from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from support.environments import ids

from pytest_rlenv.environments.local import resolve_local
from pytest_rlenv.environments.model import LOCAL, Environment
from pytest_rlenv.environments.spec import Spec, parse_spec
from pytest_rlenv.environments.walk import Walk
from pytest_rlenv.errors import SpecError


def put(root: Path, *paths: str, text: str = "") -> None:
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def local(root: Path, rootdir: Path | None = None, dataset: str | None = None) -> Environment:
    return resolve_local(Spec(str(root), LOCAL, path=root), rootdir=rootdir or root, dataset=dataset)


def test_a_folder_of_tasks(tmp_path: Path) -> None:
    put(tmp_path, "envs/mine/tasks/b/task.toml", "envs/mine/tasks/a/task.toml", "envs/mine/src/x.py")
    environment = local(tmp_path / "envs/mine", tmp_path)
    assert environment.name == "envs/mine"
    assert ids(environment) == ["a", "b"]
    assert environment.found == 2
    assert environment.revision is None
    assert environment.folder(environment.tasks[0]) == tmp_path / "envs/mine/tasks/a"
    assert environment.warnings == ()


@pytest.mark.parametrize(
    ("folder", "rootdir", "name"),
    [("x", "x", "."), ("x/y", "x", "y"), ("x", "x/y", None), ("x", "z", None)],
)
def test_names_are_from_rootdir(folder: str, rootdir: str, name: str | None, tmp_path: Path) -> None:
    for path in (folder, rootdir):
        (tmp_path / path).mkdir(parents=True, exist_ok=True)
    put(tmp_path / folder, "a/task.toml")
    assert local(tmp_path / folder, tmp_path / rootdir).name == (name or str(tmp_path / folder))


def test_a_rootdir_reached_through_a_link(tmp_path: Path) -> None:
    put(tmp_path, "real/envs/a/task.toml")
    (tmp_path / "link").symlink_to("real")
    assert local(tmp_path / "link/envs", tmp_path / "real").name == "envs"


def test_a_single_task_has_the_name_of_its_folder(tmp_path: Path) -> None:
    put(tmp_path, "my-task/task.toml", "my-task/tests/deep/task.toml")
    environment = local(tmp_path / "my-task", tmp_path)
    assert [(t.id, t.path) for t in environment.tasks] == [("my-task", ".")]
    assert environment.folder(environment.tasks[0]) == tmp_path / "my-task"


def test_a_broken_task_is_there_with_its_problem(tmp_path: Path) -> None:
    put(tmp_path, "tasks/a/task.toml", "tasks/b/instruction.md", "tasks/b/tests/test.sh")
    assert [(t.id, t.problem) for t in local(tmp_path).tasks] == [("a", None), ("b", "task.toml is missing")]


def test_nothing_found(tmp_path: Path) -> None:
    put(tmp_path, "tasks/a/task.yaml", ".git/config")
    with pytest.raises(SpecError) as raised:
        local(tmp_path)
    assert f"0 tasks found in {tmp_path}" in raised.value.message
    assert "saw .git/, tasks/" in raised.value.message
    assert "Terminal-Bench 1" in raised.value.hint


@pytest.mark.parametrize(
    ("path", "hint"),
    [("1/2/3/4/5/6/7/task.toml", "7 folders deep"), (".hidden/a/task.toml", "'.hidden' are not looked into")],
)
def test_tasks_out_of_reach_are_explained(path: str, hint: str, tmp_path: Path) -> None:
    put(tmp_path, path)
    with pytest.raises(SpecError) as raised:
        local(tmp_path)
    assert hint in raised.value.hint


def test_links_out_of_the_environment_are_not_followed(tmp_path: Path) -> None:
    put(tmp_path, "other/t/task.toml", "other/plain/x", "env/tasks/a/task.toml")
    (tmp_path / "env/tasks/linked").symlink_to(tmp_path / "other/t")
    (tmp_path / "env/tasks/elsewhere").symlink_to(tmp_path / "other")
    (tmp_path / "env/loop").symlink_to(tmp_path / "env")
    (tmp_path / "env/tasks/dangling").symlink_to("nowhere")
    found = {task.id: task.problem for task in local(tmp_path / "env").tasks}
    assert found == {"a": None, "tasks/linked": "its folder is a link that leaves the environment"}


def test_links_inside_lead_to_each_task_once(tmp_path: Path) -> None:
    put(tmp_path, "tasks/a/task.toml", "tasks/a/tests/x/y", ".store/b/task.toml")
    (tmp_path / "latest").symlink_to("tasks")
    (tmp_path / "also-a").symlink_to("tasks/a")
    (tmp_path / "in-a").symlink_to("tasks/a/tests/x")
    (tmp_path / "tasks/b").symlink_to("../.store/b")
    (tmp_path / "tasks/b2").symlink_to("../.store/b")
    found = sorted(Walk(tmp_path))
    assert [path for path in found if path.startswith("tasks/a")] == ["tasks/a/task.toml"]
    assert len([path for path in found if path in ("tasks/b/task.toml", "tasks/b2/task.toml")]) == 1
    assert len(found) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list everything")
def test_a_folder_that_may_not_be_listed(tmp_path: Path) -> None:
    put(tmp_path, "a/task.toml", "closed/b/task.toml")
    (tmp_path / "closed").chmod(0)
    try:
        assert "cannot list closed (Permission denied)" in local(tmp_path).warnings[0]
    finally:
        (tmp_path / "closed").chmod(0o755)


def test_a_folder_that_vanishes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a/task.toml", "closed/b/task.toml")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("/closed"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    environment = local(tmp_path)
    assert ids(environment) == ["a"]
    assert environment.warnings == (".: cannot list closed (Permission denied): tasks in it are not seen",)


@pytest.mark.parametrize(
    ("readme", "warnings"),
    [
        (None, []),
        ("# My project\n", []),
        ("---\ntags: [rl-environment, harbor]\n---\n", []),
        ("---\ntags: [x]\n---\n", ["lacks the tag 'rl-environment'", "has no framework tag"]),
    ],
)
def test_the_card_of_a_folder(readme: str | None, warnings: list[str], tmp_path: Path) -> None:
    put(tmp_path, "a/task.toml")
    if readme is not None:
        put(tmp_path, "README.md", text=readme)
    found = local(tmp_path).warnings
    assert len(found) == len(warnings)
    for line, expected in zip(found, warnings, strict=True):
        assert expected in line


def test_registry(tmp_path: Path) -> None:
    put(tmp_path, "tasks/a/task.toml", "tasks/b/task.toml")
    put(
        tmp_path,
        "registry.json",
        text='[{"name": "ds", "version": "1", "tasks": [{"name": "one", "path": "tasks/b", "git_url": '
        '"https://github.com/x/y", "git_commit_id": "abc"}, {"name": "two", "path": "tasks/c"}]}]',
    )
    tasks = local(tmp_path, dataset="ds").tasks
    assert [(t.id, t.path) for t in tasks] == [("one", "tasks/b"), ("two", "tasks/c")]
    assert tasks[0].problem is None
    assert "names 'tasks/c', where there is no task" in str(tasks[1].problem)


def test_a_dataset_needs_a_registry(tmp_path: Path) -> None:
    put(tmp_path, "tasks/a/task.toml")
    with pytest.raises(SpecError, match=r"cannot read .*registry\.json") as raised:
        local(tmp_path, dataset="ds")
    assert "--rlenv-dataset 'ds'" in raised.value.hint


def test_ten_thousand_tasks_are_found_without_opening_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(10_000):
        folder = tmp_path / f"tasks/t{i:05}"
        (folder / "tests").mkdir(parents=True)
        (folder / "task.toml").touch()
    listed: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(str(path)) or scandir(path))
    monkeypatch.setattr("builtins.open", None)
    start = time.perf_counter()
    environment = local(tmp_path)
    assert time.perf_counter() - start < 20  # 0.2 s on a quiet machine; this only guards against a blow-up
    assert len(environment.tasks) == 10_000
    assert len(listed) == 2  # the root and tasks/: no task is listed


def test_names_that_are_not_unicode(tmp_path: Path) -> None:
    os.makedirs(os.fsencode(tmp_path) + b"/tasks/\xff\xfe")  # noqa: PTH103 - bytes
    with open(os.fsencode(tmp_path) + b"/tasks/\xff\xfe/task.toml", "w"):  # noqa: PTH123 - bytes
        pass
    environment = local(tmp_path)
    environment.tasks[0].id.encode()
    assert environment.folder(environment.tasks[0]).is_dir()


def test_spec_and_folder_together(tmp_path: Path) -> None:
    put(tmp_path, "envs/a/task.toml")
    assert ids(resolve_local(parse_spec("envs", tmp_path), rootdir=tmp_path)) == ["a"]
