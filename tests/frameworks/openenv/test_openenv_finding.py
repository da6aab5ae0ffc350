"""Where tasks of OpenEnv's come from, and what is said where there are none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from support.openenv import Listing, Misbehaving, served, write_environment

from pytest_rlenv.environments.finders import Finding, Place
from pytest_rlenv.errors import EnvironmentFailed, SpecError, TaskInvalid
from pytest_rlenv.frameworks.openenv import task_api
from pytest_rlenv.frameworks.openenv.finding import OpenEnvFinder
from pytest_rlenv.frameworks.openenv.framework import OpenEnvFramework
from pytest_rlenv.options import Value
from pytest_rlenv.sandboxes.model import SandboxContext
from pytest_rlenv.settings import load_settings


def place(root: Path, **more: Any) -> Place:
    files = tuple(sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()))
    return Place(str(root), root.name, root, files, **more)


def find(
    root: Path, *, asked: bool = False, ask: Path | None = None, options: Any = (), **more: Any
) -> Finding:
    settings = load_settings({key: Value(value, f"--rlenv-{key}") for key, value in dict(options).items()})
    context = None
    if ask is not None:
        context = lambda: SandboxContext(session="s", worker="main", cache_dir=ask, run_dir=ask)  # noqa: E731
    return OpenEnvFinder(settings, context).find(place(root, **more), asked=asked)


def ids(finding: Finding) -> list[str]:
    return [task.id for task in finding.tasks]


def resets(finding: Finding) -> list[Any]:
    return [task.data.get("reset", {}) for task in finding.tasks]


def test_a_list_for_us_comes_first(tmp_path: Path) -> None:
    write_environment(tmp_path, "tasks: [x]\n", planned=[])
    (tmp_path / "rlenv.yaml").write_text(
        "openenv: {tasks: [{id: one, reset: {seed: 1}, max_steps: 5, instruction: Do.}, {id: 2, reset: {}}]}"
    )
    found = find(tmp_path)
    assert (ids(found), resets(found)) == (["one", "2"], [{"seed": 1}, {}])
    assert found.tasks[0].data["max_steps"] == 5
    own = tmp_path.parent / "own.json"
    own.write_text(json.dumps({"tasks": [{"id": "mine", "reset": {"a": 1}}], "evaluate": {"do": "grade"}}))
    found = find(tmp_path, options={"openenv_tasks": str(own)})
    assert ids(found) == ["mine"]
    assert OpenEnvFramework().load(tmp_path, "mine", found.tasks[0].data).task.evaluate == {"do": "grade"}


def test_recorded_episodes_are_tasks(tmp_path: Path) -> None:
    reset = {"episode_id": "e", "seed": 3, "options": {"level": 2}}
    write_environment(tmp_path, one={"reset": reset, "actions": [{}]}, two=[{"a": 1}])
    found = find(tmp_path)
    assert ids(found) == ["one", "two"]
    assert found.tasks[0].manifest == "oracle/one.json"
    task = OpenEnvFramework().load(tmp_path, "one", found.tasks[0].data).task
    assert (task.reset, task.plan.episode_id if task.plan else None) == ({"seed": 3, "level": 2}, "e")


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ("[easy, hard]", {"easy": "easy", "hard": "hard"}),
        ("[{id: a, difficulty: easy}, {name: b}]", {"a": "a", "b": "b"}),
        ("[{id: 7, description: Go.}]", {"7": 7}),
    ],
)
def test_the_list_that_people_write_into_openenv_yaml(
    tmp_path: Path, tasks: str, expected: dict[str, Any]
) -> None:
    write_environment(tmp_path, f"name: x\ntasks: {tasks}\n")
    found = find(tmp_path, options={"openenv_task_key": "task_id"})
    assert dict(zip(ids(found), resets(found), strict=True)) == {
        name: {"task_id": value} for name, value in expected.items()
    }
    with pytest.raises(SpecError, match="not how one is chosen") as caught:
        find(tmp_path)
    assert "--rlenv-openenv-task-key" in caught.value.hint


def test_a_list_with_more_tasks_than_plans_is_told(tmp_path: Path) -> None:
    write_environment(tmp_path, "tasks: [a, b, c]\n", a=[{}])
    found = find(tmp_path)
    assert ids(found) == ["a"]
    assert "2 more tasks" in found.warnings[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tasks: [{reset: {}}]", "task 1 has no id"),
        ("tasks: [{id: a, reset: 3}]", "reset is int"),
        ("tasks: [{id: a, reset: {}}, {id: a, reset: {}}]", "two tasks are called 'a'"),
        ("tasks: [{id: a, reset: {when: .nan}}]", "no JSON"),
        ("tasks: 3", "no list of tasks"),
        ("tasks: [", "no YAML"),
    ],
)
def test_a_wrong_list_is_told(tmp_path: Path, text: str, words: str) -> None:
    write_environment(tmp_path)
    (tmp_path / "rlenv.yaml").write_text(text)
    with pytest.raises(SpecError, match=words):
        find(tmp_path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.jsonl", '{"id": "a", "level": 1}\n\n{"level": 2, "none": null}\n'),
        ("rows.csv", "id,level\na,1\n,2\n"),
    ],
)
def test_rows_of_a_dataset_are_arguments(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "environment.yaml").write_text("frameworks: {openenv: {image: some/image}}")
    (tmp_path / name).write_text(text)
    found = find(tmp_path)
    assert ids(found) == ["a", "row-1"]
    task = OpenEnvFramework().load(tmp_path, "a", found.tasks[0].data).task
    assert str(task.reset["level"]) == "1"
    assert task.manifest.image == "some/image"
    gone = {**found.tasks[0].data, "row": [name, 9]}
    with pytest.raises(TaskInvalid, match="no row 9"):
        OpenEnvFramework().load(tmp_path, "a", gone)


def test_a_dataset_may_point_at_a_space(tmp_path: Path) -> None:
    (tmp_path / "environment.yaml").write_text(
        "spec_version: hf-rl-env-0.1\nframeworks: {openenv: {space_id: Org/My_Env, rows: b.jsonl}}"
    )
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"id": "{name}"}}\n')
    found = find(tmp_path)
    assert ids(found) == ["b"]
    task = OpenEnvFramework().load(tmp_path, "b", found.tasks[0].data).task
    assert task.manifest.image == "registry.hf.space/org-my-env:latest"
    (tmp_path / "environment.yaml").write_text("frameworks: {openenv: {image: x}}")
    with pytest.raises(SpecError, match=r"several files may hold the rows: a\.jsonl, b\.jsonl"):
        find(tmp_path)


def test_an_environment_yaml_of_another_kind_is_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "environment.yaml").write_text("name: conda\ndependencies: [python]\n")
    assert find(tmp_path) == Finding()


def test_each_package_one_folder_down_has_its_own_tasks(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_environment(tmp_path / name, t=[{}])
    write_environment(tmp_path / "one" / "vendored", x=[{}])
    write_environment(tmp_path / "a" / "b" / "deep", t=[{}])
    found = find(tmp_path)
    assert ids(found) == ["one/t", "two/t"]
    assert [task.path for task in found.tasks] == ["one", "two"]
    assert "a/b/deep/t" in ids(find(tmp_path, asked=True))


def test_an_openenv_yaml_that_cannot_be_read_is_an_item_that_errors(tmp_path: Path) -> None:
    write_environment(tmp_path, "[")
    (task,) = find(tmp_path).tasks
    assert task.problem is not None
    assert "openenv.yaml is not YAML" in task.problem


def test_folder_tasks_keep_a_server_from_being_started(tmp_path: Path) -> None:
    write_environment(tmp_path)
    assert find(tmp_path, ask=tmp_path, has_folder_tasks=True, tags=("openenv",)) == Finding()


def test_a_tag_without_files_is_told(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("x")
    assert "no openenv.yaml" in find(tmp_path, tags=("openenv",)).reason
    assert find(tmp_path, tags=("harbor",)) == Finding()
    assert "no openenv.yaml" in find(tmp_path, asked=True).reason


def test_only_what_is_needed_is_brought(tmp_path: Path) -> None:
    write_environment(tmp_path / "env", t=[{}])
    (tmp_path / "huge.bin").write_text("x")
    brought: list[str] = []
    find(tmp_path, bring=brought.extend)
    assert set(brought) == {"env/openenv.yaml", "env/oracle/t.json"}


# ---- asked of a server


@pytest.fixture(scope="module")
def listing() -> Iterator[str]:
    with served(Listing) as url:
        yield url


def test_odd_names_of_a_servers_tasks_become_ids(tmp_path: Path) -> None:
    class Odd(Listing):
        tasks: Mapping[str, list[Any]] = {
            "a/b\n": [{"id": "x::y\nz"}, {"id": "../z"}, {"id": "é" * 200}, {"id": None}, "text", None],
            "": [{"id": "x"}, {"id": "x~2"}, {"id": "x"}, {"id": "x"}, {"id": " "}],
        }

    write_environment(tmp_path / "env")
    with served(Odd) as url:
        found = find(tmp_path / "env", ask=tmp_path, options={"openenv_url": url})
    names = ids(found)
    assert names[:2] == ["a/b%0A/x%3A%3Ay%0Az", "a/b%0A/../z"]
    assert names[2].startswith(f"a/b%0A/{'é' * 80}~")
    assert names[3:6] == ["a/b%0A/3", "a/b%0A/4", "a/b%0A/5"]
    assert names[6:] == ["/x", "/x~2", "/x~2~2", "/x~3", "/4"]
    assert resets(found)[1] == {"split": "a/b\n", "index": 1}


def test_a_server_with_too_many_splits_is_an_error(tmp_path: Path) -> None:
    class Many(Listing):
        tasks: Mapping[str, list[Any]] = {f"split-{number}": [] for number in range(task_api.MOST_SPLITS + 1)}

    write_environment(tmp_path / "env")
    with served(Many) as url, pytest.raises(SpecError, match="was answered with 101 splits"):
        find(tmp_path / "env", ask=tmp_path, options={"openenv_url": url})


def test_a_server_is_asked_for_its_tasks(tmp_path: Path, listing: str) -> None:
    write_environment(tmp_path / "env")
    found = find(tmp_path / "env", ask=tmp_path, options={"openenv_url": listing})
    assert ids(found) == ["train/one", "train/two", "train/2", "test/one"]
    assert resets(found)[2] == {"split": "train", "index": 2}
    assert found.tasks[0].attributes == {"split": "train"}


def test_a_server_with_more_tasks_than_are_taken_is_told(
    tmp_path: Path, listing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_api, "MOST_TASKS", 2)
    write_environment(tmp_path / "env")
    found = find(tmp_path / "env", ask=tmp_path, options={"openenv_url": listing})
    assert ids(found) == ["train/one", "train/two"]
    assert "may list more than the 2 tasks" in found.warnings[0]


def test_without_a_list_there_is_one_episode(tmp_path: Path) -> None:
    write_environment(tmp_path / "env")
    with served() as url:
        assert ids(find(tmp_path / "env", ask=tmp_path, options={"openenv_url": url})) == ["episode"]


def test_a_server_that_cannot_be_asked_is_told(tmp_path: Path) -> None:
    class Broken(Misbehaving):
        name = "broken"
        tasks: Any = MappingProxyType({"train": 3})

    write_environment(tmp_path / "env")
    with served(Broken) as url, pytest.raises(SpecError, match="cannot be asked"):
        find(tmp_path / "env", ask=tmp_path, options={"openenv_url": url})


def test_a_list_is_asked_for_once_and_kept_by_its_commit(tmp_path: Path) -> None:
    calls: list[int] = []

    def ask() -> list[task_api.Listed]:
        calls.append(1)
        return [task_api.Listed("a", {"index": 0}, attributes={"split": "s"})]

    file = task_api.cache_file(tmp_path, "org/repo", "sha")
    first, second = task_api.cached(file, ask), task_api.cached(file, ask)
    assert (first, len(calls)) == (second, 1)
    assert task_api.cached(None, ask) == first
    assert len(calls) == 2
    nothing = task_api.cache_file(tmp_path, "org/other", "sha")
    assert task_api.cached(nothing, lambda: None) is None
    assert task_api.cached(nothing, ask) is None


def test_pages_that_do_not_fit_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Short:
        def ask(self, method: str, path: str, body: Any = None) -> Any:
            answers = {
                "/list_environments": ["an e/?"],
                "/an%20e%2F%3F/splits": [{"name": "s"}],
                "/an%20e%2F%3F/num_tasks": {"num_tasks": 3},
            }
            return answers.get(path, {"tasks": [{}]})

    with pytest.raises(EnvironmentFailed, match="0 to 3 was answered with 1 tasks"):
        task_api.list_tasks(Short())  # type: ignore[arg-type]  # what is asked of it is there
