from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.environments.model import TaskRef
from pytest_rlenv.environments.registry import choose_dataset, commit_of, dataset_tasks, read_registry
from pytest_rlenv.errors import SpecError

SHA, OTHER = "a" * 40, "b" * 40
HERE = "https://huggingface.co/datasets/org/repo"


def dataset(version: str, *tasks: dict[str, Any], name: str = "ds") -> dict[str, Any]:
    return {
        "name": name,
        "version": version,
        "description": "",
        "tasks": list(tasks) or [{"name": "a", "path": "a"}],
    }


def choose(wanted: str, *datasets: dict[str, Any]) -> str:
    return choose_dataset(read_registry(json.dumps(datasets), "repo"), wanted, "repo").version


@pytest.mark.parametrize(
    ("wanted", "versions", "expected"),
    [
        ("ds", ["1.0", "head", "2.0"], "head"),
        ("ds", ["1.9", "1.10", "1.2"], "1.10"),
        ("ds", ["2.0rc1", "1.0"], "2.0rc1"),
        ("ds", ["beta", "alpha"], "beta"),
        ("ds", ["zeta", "0.1"], "0.1"),
        ("ds@1.2", ["1.9", "1.2"], "1.2"),
        ("ds@head", ["1.9", "head"], "head"),
    ],
)
def test_versions(wanted: str, versions: list[str], expected: str) -> None:
    assert choose(wanted, *(dataset(version) for version in versions)) == expected


def test_versions_without_packaging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "packaging.version", None)
    assert choose("ds", dataset("1.10"), dataset("1.9")) == "1.9"


@pytest.mark.parametrize(
    ("wanted", "message", "hint"),
    [
        ("dss", "has no dataset 'dss'", "it has ds"),
        ("zzz", "has no dataset 'zzz'", "it has ds, other"),
        ("ds@3", "has no version '3' of 'ds'", "it has 1, 2"),
    ],
)
def test_names_that_are_not_there(wanted: str, message: str, hint: str) -> None:
    with pytest.raises(SpecError) as raised:
        choose(wanted, dataset("2"), dataset("1"), dataset("1", name="other"))
    assert message in raised.value.message
    assert raised.value.hint == hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "registry.json is not valid JSON"),
        ("{}", "registry.json is {}, not a list"),
        ("[1]", "registry.json[0] is 1, not an object"),
        ('[{"version": "1"}]', "registry.json[0].tasks is null, not a list"),
        ('[{"name": 3, "tasks": []}]', "registry.json[0].name is 3, not a text"),
        ('[{"tasks": []}]', "registry.json[0].name is missing"),
        ('[{"name": "x", "version": 1.0, "tasks": []}]', "registry.json[0].version is 1.0, not a text"),
        ('[{"name": "x", "tasks": [{"name": "a"}]}]', "registry.json[0].tasks[0].path is missing"),
        ('[{"name": "x", "tasks": [{"path": "../a"}]}]', "path is '../a', which leaves the environment"),
        ('[{"name": "x", "tasks": [{"path": "/a"}]}]', "path is '/a', which leaves the environment"),
        ('[{"name": "x", "tasks": [{"path": "a", "git_url": 1}]}]', "git_url is 1, not a text"),
        ('[{"name": "x", "tasks": [{"path": "a/t"}, {"path": "b/t"}]}]', "has 2 tasks named 't'"),
    ],
)
def test_malformed(text: str, message: str) -> None:
    with pytest.raises(SpecError) as raised:
        read_registry(text, "repo")
    assert message in raised.value.message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "version", "tasks", "path", "git_url", "git_commit_id"]), inner
        )
    ),
    max_leaves=20,
)


@given(json_values)
def test_any_json_is_a_registry_or_an_error_of_ours(value: object) -> None:
    try:
        datasets = read_registry(json.dumps(value), "repo")
    except SpecError:
        return
    for found in datasets:
        dataset_tasks(found, (), repo_id="org/repo", revision=SHA)


def tasks_of(*tasks: dict[str, Any], repo_id: str | None = "org/repo") -> dict[str, str | None]:
    (parsed,) = read_registry(json.dumps([dataset("1", *tasks)]), "repo")
    present = (TaskRef("a", "tasks/a"), TaskRef("b", "tasks/b", problem="task.toml is missing"))
    commit = commit_of(parsed, repo_id)
    return {t.id: t.problem for t in dataset_tasks(parsed, present, repo_id=repo_id, revision=commit)}


def test_tasks_here() -> None:
    found = tasks_of(
        {"name": "z[1]", "path": "tasks/a"},
        {"path": "./tasks/a/", "git_url": HERE, "git_commit_id": "head"},
        {"name": "b", "path": "tasks/b"},
        {"name": "gone", "path": "tasks/gone"},
    )
    assert found == {
        "a": None,
        "b": "task.toml is missing",
        "gone": "registry.json names 'tasks/gone', where there is no task",
        "z%5B1%5D": None,
    }
    assert list(found) == sorted(found)


@pytest.mark.parametrize(
    "url", ["https://github.com/org/repo", "https://huggingface.co/datasets/org/other", "git@x:y"]
)
def test_tasks_of_another_repository(url: str) -> None:
    assert f"another repository: {url}" in str(
        tasks_of({"name": "a", "path": "tasks/a", "git_url": url})["a"]
    )


def test_a_local_clone_is_its_own_repository() -> None:
    url = "https://github.com/org/repo"
    assert tasks_of({"name": "a", "path": "tasks/a", "git_url": url}, repo_id=None) == {"a": None}
    missing = tasks_of({"name": "c", "path": "tasks/c", "git_url": url}, repo_id=None)
    assert "another repository" in str(missing["c"])


def test_a_task_at_another_commit_than_most() -> None:
    found = tasks_of(
        {"name": "a", "path": "tasks/a", "git_url": HERE, "git_commit_id": SHA},
        {"name": "a2", "path": "tasks/a", "git_url": f"{HERE}.git", "git_commit_id": SHA.upper()},
        {"name": "a3", "path": "tasks/a", "git_url": HERE, "git_commit_id": OTHER},
    )
    assert found["a"] is None
    assert found["a2"] is None
    assert f"at commit {OTHER}" in str(found["a3"])
