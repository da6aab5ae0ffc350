"""Steps, checks and levels in what pytest reports; and the options about them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.project import Project, properties, verdict_of
from support.rollouts import write_steps

STEPS = '[[steps]]\nname = "build"\n[[steps]]\nname = "fix"\n'
CTRF = '{"results": {"tests": [{"name": "t.py::a", "status": "failed"}, {"name": "b", "status": "passed"}]}}'


def steps(project: Project, fix: str) -> None:
    body = {"solution/solve.sh": "# scripted: exit=3"}
    write_steps(
        project.environment / "tasks" / "it",
        STEPS,
        {
            "build": {**body, "tests/test.sh": "# scripted: reward=1"},
            "fix": {**body, "tests/test.sh": fix},
        },
    )


@pytest.mark.parametrize("workers", [[], ["-n1"]])
def test_steps_and_checks_are_in_every_report(project: Project, workers: list[str]) -> None:
    steps(project, f"# scripted: write=/logs/verifier/ctrf.json {CTRF}\n# scripted: reward=0")
    case = project.junit(*workers)["it"]
    verdict, text = verdict_of(case)
    assert verdict == "failed"
    message = "reward 0.5 < 1.0 (steps: build 1.0, fix 0.0); 1 of 2 checks failed: fix: t.py::a"
    assert message in text
    found = properties(case)
    assert {name: found[name] for name in found if name.startswith(("rlenv.step", "rlenv.checks"))} == {
        "rlenv.step.build": "1.0",
        "rlenv.step.fix": "0.0",
        "rlenv.checks.passed": "1",
        "rlenv.checks.failed": "1",
    }
    assert found["rlenv.note.agent-exit"].splitlines() == [
        "step build: the agent exited 3",
        "step fix: the agent exited 3",
    ]
    (record,) = project.records()
    assert [step["rewards"] for step in record["steps"]] == [{"reward": 1.0}, {"reward": 0.0}]
    assert record["checks"]["failing"] == ["fix: t.py::a"]


def test_a_step_without_a_reward_is_an_error(project: Project) -> None:
    steps(project, "# scripted: print=nothing")
    case = project.junit()["it"]
    verdict, text = verdict_of(case)
    assert verdict == "error"
    assert "RewardMissing [verify]: step fix: no reward" in text
    assert "rlenv.reward" not in properties(case)
    (record,) = project.records()
    assert [step["error"] is None for step in record["steps"]] == [True, False]


@pytest.mark.parametrize("level", ["shared", "quiesce", "fresh"])
def test_the_level_is_in_every_record(project: Project, level: str) -> None:
    project.task("it")
    case = project.junit(f"--rlenv-verifier={level}")["it"]
    assert verdict_of(case)[0] == "passed"
    assert properties(case)["rlenv.verifier"] == level
    assert ("rlenv.verifier_image" in properties(case)) is (level == "fresh")


def test_the_level_from_the_ini_file(project: Project) -> None:
    project.task("it")
    project.pytester.makeini("[pytest]\nrlenv_verifier = quiesce\n")
    assert properties(project.junit()["it"])["rlenv.verifier"] == "quiesce"


def test_a_level_that_there_is_not(project: Project) -> None:
    project.task("it")
    assert project.demo("--rlenv-verifier=separate").ret == pytest.ExitCode.USAGE_ERROR


def test_extra_instructions(project: Project, tmp_path: Path) -> None:
    project.task("it", test="# scripted: reward=1")
    (project.path / "words.md").write_text("From the file.\n")
    project.pytester.makepyfile(
        told="""
        from pytest_rlenv.agents.protocol import Agent

        class Told(Agent):
            def run(self, context):
                assert context.instruction.endswith("\\n\\nFrom the file.\\n\\n\\nBe brief, please."), context
        """
    )
    given = ["--rlenv-extra-instruction=@words.md", "--rlenv-extra-instruction=Be brief, please."]
    assert project.demo("--agent=told:Told", *given).ret == 0
    (project.path / "around.md").write_text("{{ instruction }}")
    assert project.demo("--agent=told:Told", *given, "--rlenv-prompt-template=around.md").ret == 0
    (project.path / "around.md").write_text("{{ instruction }}!")
    assert project.demo("--agent=told:Told", *given, "--rlenv-prompt-template=around.md").ret == 1
    assert project.demo("--rlenv-extra-instruction=@nowhere").ret == pytest.ExitCode.USAGE_ERROR
