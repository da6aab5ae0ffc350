"""``--rlenv-attempts``: several rollouts of one task and agent, each an item of its own."""

from __future__ import annotations

import pytest
from support.project import Project, ids, outcomes, properties, read_junit

PASSES = "# scripted: reward-if=/app/answer"
TOP = "rlenv:envs/demo"


@pytest.fixture
def two(project: Project) -> Project:
    project.tasks(a=PASSES, b="# scripted: reward=0.25")
    return project


def once_bad(project: Project) -> str:
    """Return a verifier that gives 1 to all but the first that comes."""
    return f"# scripted: bad-once={project.path / 'bad'}"


@pytest.mark.parametrize(
    ("args", "below"),
    [
        ([], [""]),
        (["--rlenv-attempts=1"], [""]),
        (["--rlenv-attempts=2"], ["::1", "::2"]),
        (["--agent=oracle,nop"], ["::oracle", "::nop"]),
        (
            ["--agent=oracle,nop", "--rlenv-attempts=2"],
            ["::oracle::1", "::oracle::2", "::nop::1", "::nop::2"],
        ),
    ],
)
def test_agents_and_attempts_are_levels_of_the_id(two: Project, args: list[str], below: list[str]) -> None:
    listed = ids(two.demo("--co", "-q", *args))
    assert listed == [f"{TOP}::{task}{rest}" for task in "ab" for rest in below]


@pytest.mark.parametrize(
    ("agents", "chosen", "listed"),
    [
        ("oracle", ["a::2"], ["a::2"]),
        ("oracle", ["a::3", "a::1"], ["a::1", "a::3"]),
        ("oracle", ["a", "b::1"], ["a::1", "a::2", "a::3", "b::1"]),
        ("oracle", ["a::oracle::2"], ["a::2"]),
        ("oracle", ["a::oracle"], ["a::1", "a::2", "a::3"]),
        ("oracle,nop", ["a::nop::2"], ["a::nop::2"]),
        ("oracle,nop", ["a::2"], ["a::oracle::2", "a::nop::2"]),
    ],
)
def test_one_attempt_is_chosen_by_its_id(
    two: Project, agents: str, chosen: list[str], listed: list[str]
) -> None:
    args = [f"{TOP}::{name}" for name in chosen]
    found = ids(two.demo("--co", "-q", "--rlenv-attempts=3", f"--agent={agents}", *args))
    assert found == [f"{TOP}::{name}" for name in listed]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--rlenv-attempts=2", f"{TOP}::a::3"], "*::a::3: this run has no attempt 3"),
        ([f"{TOP}::a::2"], "*::a::2: this run has no attempt 2"),
        (["--rlenv-attempts=2", f"{TOP}::a::nop::1"], "*::a::nop::1: agent 'nop' is not part of this run"),
        (["--rlenv-attempts=0"], "*--rlenv-attempts = '0'*greater than or equal to 1"),
        (["--rlenv-attempts=x"], "*--rlenv-attempts = 'x'*"),
    ],
)
def test_what_there_is_not_is_a_usage_error(two: Project, args: list[str], words: str) -> None:
    result = two.demo(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([words])


@pytest.mark.parametrize("how", [[], ["--rlenv-jobs=3"], ["-n2"]])
def test_each_attempt_is_run_recorded_and_has_its_own_folder(two: Project, how: list[str]) -> None:
    result = two.demo("--rlenv-attempts=3", "--junitxml=junit.xml", *how)
    assert outcomes(result) == {"passed": 3, "failed": 3}
    records = two.records()
    assert sorted((r["task"], r["attempt"]) for r in records) == [(t, n) for t in "ab" for n in (1, 2, 3)]
    assert {r["node"] for r in records} == {f"{TOP}::{t}::{n}" for t in "ab" for n in (1, 2, 3)}
    assert len({r["logs"] for r in records}) == 6
    cases = list(read_junit(two.path / "junit.xml").values())
    assert {properties(case)["rlenv.attempt"] for case in cases} == {"1", "2", "3"}


def test_the_last_failed_attempt_is_run_again(project: Project) -> None:
    project.tasks(a=once_bad(project), b=PASSES)
    assert outcomes(project.demo("--rlenv-attempts=3")) == {"passed": 5, "failed": 1}
    assert outcomes(project.demo("--rlenv-attempts=3", "--lf")) == {"passed": 1}
    assert ids(project.demo("--rlenv-attempts=3", "--lf", "--co", "-q")) == [
        f"{TOP}::{t}::{n}" for t in "ab" for n in (1, 2, 3)
    ]  # none failed last time


def test_keywords_and_deselecting_see_attempts(project: Project) -> None:
    project.tasks(csv=PASSES, log=PASSES)
    args = ["--rlenv-attempts=2", "--co", "-q"]
    assert ids(project.demo(*args, "-k", "csv and 2")) == [f"{TOP}::csv::2"]
    assert ids(project.demo(*args, "--deselect", f"{TOP}::log")) == [f"{TOP}::csv::1", f"{TOP}::csv::2"]


@pytest.mark.parametrize(
    ("keywords", "names"),
    [
        (", attempts=2", ["a-1", "a-2", "b-1", "b-2"]),
        (', attempts=2, agent="oracle,nop", task="a"', ["a-oracle-1", "a-oracle-2", "a-nop-1", "a-nop-2"]),
    ],
)
def test_a_marked_test_has_attempts(two: Project, keywords: str, names: list[str]) -> None:
    two.pytester.makepyfile(
        test_own=f"""
        import pytest

        @pytest.mark.rlenv("envs/demo"{keywords})
        def test_it(rollout):
            assert rollout.attempt in (1, 2)
        """
    )
    assert two.run().ret == pytest.ExitCode.OK
    assert [(r["node"], r["attempt"]) for r in two.records()] == [
        (f"test_own.py::test_it[{name}]", int(name[-1])) for name in names
    ]


def test_a_file_sets_attempts_and_the_command_line_overrides_it(two: Project) -> None:
    (two.path / "x.rlenv.toml").write_text('repo = "envs/demo"\ntask = ["a"]\nattempts = 2\n')
    assert ids(two.run("--co", "-q", "x.rlenv.toml")) == ["x.rlenv.toml::a::1", "x.rlenv.toml::a::2"]
    assert ids(two.run("--co", "-q", "x.rlenv.toml::a::2")) == ["x.rlenv.toml::a::2"]
    assert ids(two.run("--co", "-q", "x.rlenv.toml", "--rlenv-attempts=1")) == ["x.rlenv.toml::a"]


def test_an_attempt_whose_worker_died_keeps_its_number(project: Project) -> None:
    project.tasks(a="# scripted: kill-worker", b=PASSES)
    project.demo("-n1", "--rlenv-attempts=2", f"{TOP}::a::2", f"{TOP}::b::1")
    verdicts = {(r["task"], r["agent"], r["attempt"]): r["verdict"] for r in project.records()}
    assert verdicts == {("a", "oracle", 2): "error", ("b", "oracle", 1): "passed"}
