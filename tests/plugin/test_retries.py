"""``--rlenv-retries``: an error that another try may cure gets one, in a fresh sandbox; all are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.project import Project, outcomes

from pytest_rlenv.rules import retries

PASSES = "# scripted: reward-if=/app/answer"
RETRY = "--rlenv-retries=2"


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.0)


def dying(project: Project, times: int) -> str:
    """Return a verifier whose box dies under the first so many that come."""
    return f"# scripted: dies={project.path / 'deaths'} {times}\n{PASSES}"


def record(project: Project) -> dict[str, Any]:
    (only,) = project.records()
    return only


@pytest.mark.parametrize("how", [[], ["--rlenv-jobs=2"]])
@pytest.mark.parametrize(
    ("times", "args", "verdict", "tries"),
    [
        (0, [RETRY], "passed", 0),
        (1, [RETRY], "passed", 1),
        (2, [RETRY], "passed", 2),
        (3, [RETRY], "error", 2),
        (1, [], "error", 0),
        (1, [RETRY, "--rlenv-retry-on=SandboxFailed"], "passed", 1),
        (1, [RETRY, "--rlenv-retry-on=task,agent"], "error", 0),
    ],
)
def test_an_infra_error_is_retried(
    project: Project, how: list[str], times: int, args: list[str], verdict: str, tries: int
) -> None:
    project.tasks(a=dying(project, times))
    project.demo(*args, *how)
    found = record(project)
    assert found["verdict"] == verdict
    assert [each["error"]["type"] for each in found["tries"]] == ["SandboxFailed"] * tries
    folders = [project.run_dir / each["logs"] for each in [*found["tries"], found]]
    assert len(set(folders)) == tries + 1
    assert all(Path(folder).is_dir() for folder in folders)
    for each in found["tries"]:
        assert each["seconds"] >= each["stages"]["verify"] > 0
        assert each["started_at"] <= found["started_at"]


@pytest.mark.parametrize(
    ("body", "args", "verdict"),
    [
        ("# scripted: reward=0", [], "failed"),
        ("# scripted: reward=1", [], "passed"),
        ("# scripted: print=no reward", [], "error"),  # the task's fault
        ("# scripted: print=no reward", ["--rlenv-retry-on=infra,agent,config"], "error"),
    ],
)
def test_what_another_try_would_not_change_is_run_once(
    project: Project, body: str, args: list[str], verdict: str
) -> None:
    project.tasks(a=f"# scripted: count={project.path / 'runs'}\n{body}")
    project.demo(RETRY, *args)
    assert record(project)["verdict"] == verdict
    assert (project.path / "runs").read_text().count("x") == 1


def test_a_skip_is_not_retried(project: Project) -> None:
    project.task("a", solve=None)
    project.demo(RETRY, "--rlenv-retry-on=infra,task,agent,config", "--rlenv-allow-unscored")
    assert (record(project)["verdict"], record(project)["tries"]) == ("skipped", [])


def test_a_kind_may_be_chosen(project: Project) -> None:
    project.tasks(a=f"# scripted: count={project.path / 'runs'}")
    project.demo(RETRY, "--rlenv-retry-on=RewardMissing")
    assert [each["error"]["type"] for each in record(project)["tries"]] == ["RewardMissing"] * 2
    assert (project.path / "runs").read_text().count("x") == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("inffra", "*--rlenv-retry-on*'inffra' is neither a kind of error*did you mean infra*"),
        ("SandboxFaild", "*'SandboxFaild' is neither*did you mean SandboxFailed*"),
        (",", "*--rlenv-retry-on*"),
    ],
)
def test_an_unknown_kind_is_a_usage_error(project: Project, words: str, message: str) -> None:
    project.tasks(a=PASSES)
    result = project.demo(RETRY, f"--rlenv-retry-on={words}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_the_summary_and_junit_count_tries(project: Project) -> None:
    project.tasks(a=dying(project, 1), b=PASSES)
    result = project.demo(RETRY, "--junitxml=junit.xml")
    result.stdout.fnmatch_lines(["*1 retried*"])


def test_no_try_begins_once_the_run_is_stopped(project: Project) -> None:
    """As after ``-x`` in another process: the error that there is stays the result."""
    project.tasks(a=dying(project, 1))
    project.pytester.makepyfile(
        stopping="""
        from pytest_rlenv.agents.oracle import OracleAgent

        class Stopping(OracleAgent):
            def run(self, context):
                outcome = super().run(context)
                RUN.stop("somebody said so")
                return outcome
        """
    )
    project.pytester.makeconftest(
        """
        import pytest
        import stopping
        from pytest_rlenv.state import get_run

        @pytest.fixture
        def rlenv_agent(rlenv_agent, request):
            stopping.RUN = get_run(request.config)
            return rlenv_agent
        """
    )
    project.demo(RETRY, "--agent=stopping:Stopping")
    assert (record(project)["verdict"], record(project)["tries"]) == ("error", [])


AGENT = """
import threading
from pytest_rlenv.agents.oracle import OracleAgent

class Own(OracleAgent):
    made = 0

    def __init__(self, model=None, words=""):
        super().__init__(model)
        type(self).made += 1
        self.words = words
        self.used = False

    def run(self, context):
        assert not self.used, "an agent serves one rollout"
        self.used = True
        (context.logs / "words.txt").write_text(self.words)
        return super().run(context)
"""
OVERRIDE = """
import pytest
from own import Own

@pytest.fixture
def rlenv_agent():
    agent = Own(words="mine")
    {extra}
    return agent
"""


def test_what_an_earlier_try_cost_is_kept_and_counts(project: Project) -> None:
    project.tasks(a=dying(project, 2), b=PASSES)
    project.pytester.makepyfile(
        paid="""
        from pytest_rlenv.agents.oracle import OracleAgent
        from pytest_rlenv.agents.protocol import AgentOutcome

        class Paid(OracleAgent):
            def run(self, context):
                super().run(context)
                return AgentOutcome(usage={"cost_usd": 0.4})
        """
    )
    result = project.demo(RETRY, "--agent=paid:Paid", "--rlenv-max-cost=1")
    found = {r["task"]: r for r in project.records()}
    assert [each["usage"] for each in found["a"]["tries"]] == [{"cost_usd": 0.4}] * 2
    assert (found["a"]["verdict"], found["b"]["verdict"]) == ("passed", "skipped")
    result.stdout.fnmatch_lines(["*cost 1.20 USD, by 1 of 2 rollouts"])


def test_each_try_has_an_agent_of_its_own(project: Project) -> None:
    project.tasks(a=dying(project, 2))
    project.pytester.makepyfile(own=AGENT)
    project.demo(RETRY, "--agent=own:Own")
    assert record(project)["verdict"] == "passed"


@pytest.mark.parametrize(
    ("extra", "verdict", "tries", "told"),
    [
        ("", "passed", 2, False),
        ("agent.lock = __import__('threading').Lock()", "error", 0, True),
    ],
)
def test_the_agent_of_an_overridden_fixture_is_copied(
    project: Project, extra: str, verdict: str, tries: int, told: bool
) -> None:
    project.tasks(a=dying(project, 2))
    project.pytester.makepyfile(own=AGENT)
    project.pytester.makeconftest(OVERRIDE.format(extra=extra))
    project.demo(RETRY)
    found = record(project)
    assert (found["verdict"], len(found["tries"])) == (verdict, tries)
    assert ("not-retried" in [note["code"] for note in found["notes"]]) == told
    words = [path.read_text() for path in project.run_dir.rglob("words.txt")]
    assert words == ["mine"] * (tries + 1)


def test_workers_retry(project: Project) -> None:
    project.tasks(a=dying(project, 1), b=PASSES)
    assert outcomes(project.demo(RETRY, "-n2")) == {"passed": 2}
    assert {r["task"]: len(r["tries"]) for r in project.records()} == {"a": 1, "b": 0}
