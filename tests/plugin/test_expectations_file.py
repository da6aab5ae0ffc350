"""``--rlenv-expectations``: what rewards must be, by task and agent, apart from the tasks."""

from __future__ import annotations

import pytest
from support.project import Project, outcomes

FILE = "--rlenv-expectations=expected.toml"


def write(project: Project, *entries: str) -> None:
    text = "".join(f"[[expectation]]\n{entry}\n" for entry in entries)
    (project.path / "expected.toml").write_text(text)


@pytest.fixture
def half(project: Project) -> Project:
    """One task that gives 0.5, whoever acts, with a speed beside it."""
    project.tasks(half='# scripted: json={"reward": 0.5, "speed": 0.9}')
    return project


@pytest.mark.parametrize("how", [[], ["--rlenv-jobs=2"], ["-n1"]])
def test_a_file_says_what_is_expected(half: Project, how: list[str]) -> None:
    write(half, 'task = "half"\nexpect = "oracle >= 0.45"')
    assert outcomes(half.demo()) == {"failed": 1}
    write(half, 'task = "half"\nexpect = ["oracle >= 0.45"]')
    result = half.run("--rlenv", "envs/demo", "--rlenv-output=second", FILE, *how)
    assert outcomes(result) == {"passed": 1}
    result.stdout.fnmatch_lines(["rlenv: expected.toml: sets what is expected of 1 task"])


def rule(task: str, expect: str) -> str:
    return f'task = "{task}"\nexpect = "{expect}"'


def test_the_record_says_who_expects_what(half: Project) -> None:
    write(half, rule("*", "oracle >= 0.1"), rule("half", "oracle 0.4 <= speed <= 0.6"))
    result = half.demo(FILE)
    (record,) = half.records()
    assert (record["verdict"], record["expected_by"]) == ("failed", "expected.toml, entry 2")
    why = "speed 0.9 > 0.6 (expected 0.4 <= speed <= 0.6 by expected.toml, entry 2)"
    result.stdout.fnmatch_lines([f"*{why}"])


TASK = "[metadata.rlenv.expect]\noracle = '>= 0.2'\n"


@pytest.mark.parametrize(
    ("in_file", "in_toml", "in_fixture", "by"),
    [
        (True, True, True, "the rlenv_expectation fixture"),
        (True, True, False, "expected.toml, entry 1"),
        (False, True, False, "x.rlenv.toml"),
        (True, False, False, "expected.toml, entry 1"),
        (False, False, False, "the task's [metadata.rlenv.expect]"),
    ],
)
def test_where_it_stands_among_other_rules(
    project: Project, in_file: bool, in_toml: bool, in_fixture: bool, by: str
) -> None:
    project.task("half", test="# scripted: reward=0.5", config=f'schema_version = "1.4"\n{TASK}')
    write(project, *([rule("half", "oracle >= 0.1")] if in_file else []))
    expect = '[expect]\noracle = ">= 0.3"\n' if in_toml else ""
    (project.path / "x.rlenv.toml").write_text(f'repo = "envs/demo"\n{expect}')
    if in_fixture:
        project.pytester.makeconftest(
            "import pytest\n@pytest.fixture\ndef rlenv_expectation(): return '>= 0.4'\n"
        )
    assert outcomes(project.run("x.rlenv.toml", FILE)) == {"passed": 1}
    assert [record["expected_by"] for record in project.records()] == [by]


def test_unneeded_entries_and_unknown_agents_are_told(half: Project) -> None:
    write(half, rule("half", "oracle >= 0.5"), rule("gone", "oracle >= 1"), rule("*", "accuracy >= 0.5"))
    text = half.demo(FILE).stdout.str()
    assert "rlenv: expected.toml, entry 2 (task 'gone') is not needed: it is for no task of this run" in text
    assert "rlenv: expected.toml: no agent of this run is called 'accuracy'" in text
    assert "entry 1" not in text
    assert "entry 3" not in text


def test_an_agent_of_another_run_is_no_matter(half: Project) -> None:
    """One file serves the runs of the oracle and of nop."""
    write(half, 'task = "half"\nexpect = ["oracle >= 0.5", "nop < 0.6"]')
    text = half.demo(FILE).stdout.str()
    assert "no agent" not in text
    assert outcomes(half.run("--rlenv", "envs/demo", "--agent=nop", FILE)) == {"passed": 1}


def test_a_wrong_file_is_a_usage_error(half: Project) -> None:
    write(half, rule("half", ">= 0.5"))
    result = half.demo(FILE)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*rlenv: *expected.toml, entry 1: expect*'>= 0.5': *agent first*"])
    assert "Traceback" not in result.stderr.str()
