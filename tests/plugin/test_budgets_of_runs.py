"""Budgets of a run: once one is used up the rest is skipped, with the reason, and never failed."""

from __future__ import annotations

import pytest
from support.project import Project, outcomes, read_junit, verdict_of

PASSES = "# scripted: reward-if=/app/answer"
NO_REWARD = "# scripted: print=judged"
AGENT = """
from pytest_rlenv.agents.oracle import OracleAgent
from pytest_rlenv.agents.protocol import AgentOutcome

class Paid(OracleAgent):
    def run(self, context):
        super().run(context)
        return AgentOutcome(usage={"cost_usd": 0.4})
"""


def told(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if line.startswith("rlenv: ") and "not started" in line]


@pytest.fixture
def many(project: Project) -> Project:
    project.tasks(**{f"t{number}": PASSES for number in range(6)})
    project.pytester.makepyfile(paid=AGENT)
    return project


def broken(project: Project, count: int = 6) -> None:
    project.tasks(**{f"t{number}": NO_REWARD for number in range(count)})


def test_money_that_is_used_up_skips_the_rest(many: Project) -> None:
    result = many.demo("--agent=paid:Paid", "--rlenv-max-cost=1", "--junitxml=junit.xml")
    assert outcomes(result) == {"passed": 3, "skipped": 3}
    assert result.ret == pytest.ExitCode.OK
    why = "the cost budget of 1 USD is used up: 1.20 USD by usage.cost_usd (--rlenv-max-cost)"
    assert told(result) == [f"rlenv: {why}: 3 rollouts were not started"]
    assert verdict_of(read_junit(many.path / "junit.xml")["t5"])[0] == "skipped"
    skipped = [r for r in many.records() if r["verdict"] == "skipped"]
    assert {r["message"] for r in skipped} == {f"not started: {why}"}
    result.stdout.fnmatch_lines(["*cost 1.20 USD, by 3 of 6 rollouts"])


@pytest.mark.parametrize("how", [["--rlenv-jobs=2"], ["-n2"]])
def test_money_is_counted_over_threads_and_workers(many: Project, how: list[str]) -> None:
    """Those under way when it is used up end as they do."""
    many.tasks(**{f"u{number}": PASSES for number in range(14)})
    result = many.demo("--agent=paid:Paid", "--rlenv-max-cost=1", *how)
    counts = outcomes(result)
    assert counts["passed"] >= 3
    assert counts["skipped"] >= 1
    assert set(counts) == {"passed", "skipped"}
    assert len(told(result)) == 1


def test_an_agent_that_does_not_say_what_it_costs_is_told_of(many: Project) -> None:
    result = many.demo("--rlenv-max-cost=1")
    assert outcomes(result) == {"passed": 6}
    result.stdout.fnmatch_lines(["rlenv: no rollout says what it cost (usage.cost_usd), so *"])


@pytest.mark.parametrize("how", [[], ["--rlenv-jobs=2"], ["-n2"]])
def test_time_that_is_used_up_skips_the_rest(many: Project, how: list[str]) -> None:
    result = many.demo("--rlenv-max-seconds=0.000001", "--rlenv-allow-unscored", *how)
    assert outcomes(result) == {"skipped": 6}
    assert result.ret == pytest.ExitCode.OK
    why = "the time budget of 1e-06 s is used up (--rlenv-max-seconds)"
    assert told(result) == [f"rlenv: {why}: 6 rollouts were not started"]


def test_time_that_allows_nothing_is_not_green(many: Project) -> None:
    result = many.demo("--rlenv-max-seconds=0.000001")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*no task was scored*"])


def test_time_that_is_left_is_not_told_of(many: Project) -> None:
    result = many.demo("--rlenv-max-seconds=2h")
    assert outcomes(result) == {"passed": 6}
    assert told(result) == []


def test_errors_use_their_budget_up(project: Project) -> None:
    broken(project)
    result = project.demo("--rlenv-max-errors=2")
    assert outcomes(result) == {"errors": 2, "skipped": 4}
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert told(result) == ["rlenv: there were 2 errors (--rlenv-max-errors 2): 4 rollouts were not started"]


def test_a_share_of_errors_needs_rollouts_to_judge_by(project: Project) -> None:
    broken(project, count=12)
    result = project.demo("--rlenv-max-errors=50%")
    assert outcomes(result) == {"errors": 10, "skipped": 2}


def test_failures_are_no_errors(project: Project) -> None:
    project.tasks(**{f"t{number}": "# scripted: reward=0" for number in range(3)})
    assert outcomes(project.demo("--rlenv-max-errors=1")) == {"failed": 3}


def test_a_marked_test_is_held_to_budgets(many: Project) -> None:
    many.pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.rlenv("envs/demo", agent="paid:Paid")
        def test_it(rollout):
            assert rollout.reward == 1
        """
    )
    many.pytester.makeini("[pytest]\nrlenv_max_cost = 0.7\n")
    assert outcomes(many.run("test_own.py")) == {"passed": 2, "skipped": 4}


@pytest.mark.parametrize(
    ("arg", "words"),
    [
        ("--rlenv-max-cost=0", "*--rlenv-max-cost = '0': input should be greater than 0"),
        ("--rlenv-max-cost=free", "*--rlenv-max-cost = 'free': *"),
        ("--rlenv-max-seconds=soon", "*--rlenv-max-seconds = 'soon': 'soon' is not a duration such as*"),
        ("--rlenv-max-seconds=0", "*--rlenv-max-seconds = '0': *"),
        ("--rlenv-max-errors=0", "*--rlenv-max-errors = '0': '0' is neither a number of errors*"),
        ("--rlenv-max-errors=120%", "*--rlenv-max-errors = '120%': '120%' is neither*"),
        ("--rlenv-retries=-1", "*--rlenv-retries = '-1': *"),
    ],
)
def test_a_wrong_budget_is_a_usage_error(many: Project, arg: str, words: str) -> None:
    result = many.demo(arg)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([words])
