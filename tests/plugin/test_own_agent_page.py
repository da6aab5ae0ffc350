"""The agents of docs/own-agent.md that play episodes do what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import support.scripted_framework as scripted_framework
from support.project import Project, outcomes
from support.scripted_episodes import rows

PAGE = Path(__file__).parents[2] / "docs" / "own-agent.md"


@pytest.fixture
def page(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    scripted_framework.install(monkeypatch.setattr)
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        name = re.match(r"# (\w+\.py)\n", block)
        assert name is not None
        (project.path / name[1]).write_text(block)
    project.environment.mkdir(parents=True)
    (project.environment / "guess.jsonl").write_text(
        rows(
            act={"kind": "act"},
            tools={"kind": "tools"},
            far={"kind": "act", "target": 30},
            broken={"kind": "tools", "breaks": True},
        )
    )
    return project


def verdicts(project: Project, agent: str) -> dict[str, str]:
    project.run("--rlenv", "envs/demo", f"--agent={agent}", "--rlenv-limit=4", sandbox=None)
    return {each["task"]: each["verdict"] for each in project.records()}


def test_the_function_guesses(page: Project) -> None:
    result = page.run("--rlenv", "envs/demo", "--agent=policies:halving", "--rlenv-task=act", sandbox=None)
    assert outcomes(result) == {"passed": 1}


def test_the_class_seeks(page: Project) -> None:
    assert verdicts(page, "seekers:Seeker") == {
        "act": "passed",
        "tools": "passed",
        "far": "failed",
        "broken": "error",
    }
    notes = {each["task"]: [note["code"] for note in each["notes"]] for each in page.records()}
    assert notes["far"] == ["agent-stopped"]
    assert {each["agent_version"] for each in page.records()} == {"1.0"}
    assert len(list(page.run_dir.rglob("last.txt"))) == 2


def test_its_examples_are_short() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert all(len(line) <= 110 for block in blocks for line in block.splitlines())
    assert max(len(block.splitlines()) for block in blocks) <= 24
