"""`--rlenv-dataset`: the tasks of an entry of the environment's registry.json."""

from __future__ import annotations

import json

import pytest
from support.project import Project, ids


@pytest.fixture
def registered(project: Project) -> Project:
    judge = "# scripted: reward-if=/app/answer"
    project.tasks(a=judge, b=judge, c=judge)
    entries = [
        {"name": "small", "version": "1.0", "description": "", "tasks": [{"name": "a", "path": "tasks/a"}]},
        {
            "name": "small",
            "version": "1.1",
            "description": "",
            "tasks": [{"name": name, "path": f"tasks/{name}"} for name in "ab"],
        },
    ]
    (project.environment / "registry.json").write_text(json.dumps(entries))
    return project


@pytest.mark.parametrize(
    ("dataset", "tasks"), [("small", ["a", "b"]), ("small@1.0", ["a"]), ("small@1.1", ["a", "b"])]
)
def test_a_dataset_selects_its_tasks(registered: Project, dataset: str, tasks: list[str]) -> None:
    result = registered.demo("--co", "-q", "--rlenv-dataset", dataset)
    assert ids(result) == [f"rlenv:envs/demo::{task}" for task in tasks]


@pytest.mark.parametrize(
    ("dataset", "words"), [("large", "*large*small*"), ("small@9", "*small*9*1.1*"), ("", "*registry.json*")]
)
def test_an_unknown_dataset_says_what_there_is(registered: Project, dataset: str, words: str) -> None:
    if not dataset:
        (registered.environment / "registry.json").write_text("{")
    result = registered.demo("--rlenv-dataset", dataset or "small")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "Traceback" not in result.stderr.str()
    text = " ".join(result.stderr.lines)
    assert all(word in text for word in words.strip("*").split("*")), text
