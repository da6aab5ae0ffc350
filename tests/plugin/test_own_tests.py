"""Users' own tests over rollouts, overridden fixtures, own agents, and environment files."""

from __future__ import annotations

import pytest
from support.project import Project, ids, outcomes

TEST = """
import pytest

@pytest.mark.rlenv("envs/demo"{keywords})
def test_it(rollout):
    assert rollout.reward >= 0.2
"""


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_a_marked_test_runs_once_for_each_task(six: Project, workers: list[str]) -> None:
    six.pytester.makepyfile(test_own=TEST.format(keywords=""))
    result = six.run(*workers)
    assert outcomes(result) == {"passed": 5, "errors": 1}
    assert {r["verdict"] for r in six.records()} == {"passed", "failed", "error"}
    assert [r["outcome"] for r in six.records() if r["task"] == "task-00002"] == ["passed"]


@pytest.mark.parametrize(
    ("keywords", "names"),
    [
        (', task="*-0000[12]"', ["task-00001", "task-00002"]),
        (', task=["*1", "*3"]', ["task-00001", "task-00003"]),
        (", limit=2", ["task-00000", "task-00001"]),
        (', limit=1, agent="oracle,nop"', ["task-00000-oracle", "task-00000-nop"]),
    ],
)
def test_a_mark_selects(six: Project, keywords: str, names: list[str]) -> None:
    six.pytester.makepyfile(test_own=TEST.format(keywords=keywords))
    assert ids(six.run("--co", "-q")) == [f"test_own.py::test_it[{name}]" for name in names]


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        (', agents="oracle"', "*agents*"),
        (", limit=0", "*limit*"),
        (', task="zzz*"', "*zzz*"),
        (", limit='x'", "*limit*"),
    ],
)
def test_a_wrong_mark_is_one_message(six: Project, keywords: str, words: str) -> None:
    six.pytester.makepyfile(test_own=TEST.format(keywords=keywords))
    result = six.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([f"*rlenv: {words}"])
    assert "Traceback" not in result.stdout.str()


def test_marks_on_classes_and_modules_and_through_other_fixtures(six: Project) -> None:
    six.pytester.makepyfile(
        test_own="""
        import pytest

        pytestmark = pytest.mark.rlenv("envs/demo", task="*-0000[01]")

        @pytest.fixture
        def reward(rollout):
            return rollout.reward

        def test_through_a_fixture(reward):
            assert reward == 1.0

        class TestGroup:
            @pytest.mark.parametrize("bar", [0.5, 0.9])
            def test_with_further_parameters(self, rollout, bar):
                assert rollout.reward > bar

        def test_without_a_rollout():
            pass
        """
    )
    assert outcomes(six.run()) == {"passed": 2 + 4 + 1}


def test_a_fixture_may_be_overridden_for_tasks_and_tests(six: Project) -> None:
    six.pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def rollout(rollout, rlenv_task, record_property):
            record_property("mine", rlenv_task.id)
            (rlenv_task.folder / "seen").touch()
            return rollout
        """
    )
    six.pytester.makepyfile(test_own=TEST.format(keywords=', task="*1"'))
    assert outcomes(six.run()) == {"passed": 1}
    assert outcomes(six.demo("--rlenv-task", "*3")) == {"passed": 1}
    assert sorted(p.parent.name for p in six.environment.rglob("seen")) == ["task-00001", "task-00003"]


def test_the_expectation_may_be_overridden(project: Project) -> None:
    project.tasks(a="# scripted: reward=0.3")
    project.pytester.makeconftest(
        """
        import pytest
        from pytest_rlenv.verdict import Expectation

        @pytest.fixture
        def rlenv_expectation():
            return Expectation.parse(">= 0.25", source="conftest")
        """
    )
    assert outcomes(project.demo()) == {"passed": 1}


def test_a_rollout_without_a_task_says_what_to_write(project: Project) -> None:
    project.pytester.makepyfile("def test_it(rollout): pass")
    result = project.run()
    assert outcomes(result) == {"errors": 1}
    result.stdout.fnmatch_lines(['*mark it with @pytest.mark.rlenv("org/repo")*'])


AGENT = """
from pytest_rlenv.agents.protocol import Agent, AgentOutcome, AgentStopped
from pytest_rlenv.sandboxes.model import Entry


class Solver(Agent):
    def run(self, context):
        assert "answer" in context.instruction
        context.box.put([Entry("app/answer", b"")])
        (context.logs / "mine.txt").write_text(self.model or "no model")
        return AgentOutcome(exit_code=0, usage={"tokens": 7})


class Broken(Agent):
    def run(self, context):
        raise ConnectionError("model endpoint down")


class Unready(Agent):
    def prepare(self, context):
        raise OSError("cannot install")

    def run(self, context):
        raise AssertionError("never runs")


class Quitter(Agent):
    def run(self, context):
        context.box.put([Entry("app/answer", b"")])
        raise AgentStopped("refused")


class Hanging(Agent):
    def run(self, context):
        import time

        context.box.put([Entry("app/answer", b"")])
        time.sleep(60)


class Lenient(Agent):
    expectation = ">= 0"

    def run(self, context):
        pass


class NotMade(Agent):
    def __init__(self, model=None):
        raise KeyError("API_KEY")

    def run(self, context):
        pass
"""


@pytest.mark.parametrize(
    ("name", "counts", "words"),
    [
        ("Solver", {"passed": 1}, None),
        (
            "Broken",
            {"errors": 1},
            "AgentFailed [[]agent]: agent Broken raised ConnectionError: model endpoint down",
        ),
        (
            "Unready",
            {"errors": 1},
            "AgentFailed [[]agent_setup]: agent Unready raised OSError: cannot install",
        ),
        ("Quitter", {"passed": 1}, None),
        ("Lenient", {"passed": 1}, None),
    ],
)
def test_an_agent_of_ones_own(project: Project, name: str, counts: dict[str, int], words: str | None) -> None:
    project.pytester.makepyfile(myagents=AGENT)
    project.task("it")
    result = project.demo("--agent", f"myagents:{name}", "--model", "some/model")
    assert outcomes(result) == counts
    if words:
        result.stdout.fnmatch_lines([words])
    if name == "Solver":
        (record,) = project.records()
        assert (record["agent"], record["model"], record["usage"]) == ("Solver", "some/model", {"tokens": 7})
        assert (project.run_dir / record["logs"] / "agent" / "mine.txt").read_text() == "some/model"


def test_an_agent_that_cannot_be_made_is_refused_before_anything_starts(project: Project) -> None:
    project.pytester.makepyfile(myagents=AGENT)
    project.task("it")
    result = project.demo("--agent", "myagents:NotMade")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*agent myagents:NotMade: KeyError: 'API_KEY'*"])


def test_an_agent_that_hangs_on_this_machine_is_left_behind_and_judged(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.pytester.makepyfile(myagents=AGENT.replace("import time", "import time, pytest_rlenv"))
    project.task("it", config="[agent]\ntimeout_sec = 0.2\n")
    result = project.demo("--agent", "myagents:Hanging")
    assert outcomes(result) == {"passed": 1}
    (record,) = project.records()
    assert [note["code"] for note in record["notes"]] == ["agent-timeout"]


def test_an_environment_file(six: Project) -> None:
    (six.path / "evals").mkdir()
    (six.path / "evals" / "demo.rlenv.toml").write_text(
        'repo = "../envs/demo"\ntask = ["*-0000[012]"]\nthreshold = 0.2\n[expect]\nnop = "<= 0.3"\n'
    )
    base = "evals/demo.rlenv.toml"
    assert ids(six.run("--co", "-q")) == [f"{base}::task-0000{n}" for n in range(3)]
    assert outcomes(six.run()) == {"passed": 3}
    assert outcomes(six.run("-n2", "evals")) == {"passed": 3}
    assert outcomes(six.run(f"{base}::task-00002")) == {"passed": 1}
    assert outcomes(six.run(base, "--agent", "nop")) == {"passed": 3}
    assert outcomes(six.run(base, "--agent", "oracle,nop", "-k", "00001")) == {"passed": 2}


def test_last_failed_holds_for_an_environment_file(six: Project) -> None:
    (six.path / "demo.rlenv.toml").write_text('repo = "envs/demo"\n')
    assert outcomes(six.run()) == {"passed": 4, "failed": 1, "errors": 1}
    assert outcomes(six.run("--lf")) == {"failed": 1, "errors": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('repos = "x"', "demo.rlenv.toml: repo*"),
        ('repo = "envs/demo"\nlimit = 0', "demo.rlenv.toml: limit = 0*"),
        ("repo = ", "demo.rlenv.toml: *"),
        ('repo = "nowhere"', "*nowhere*"),
        ('repo = "envs/demo"\n[expect]\noracle = "high"', "demo.rlenv.toml: expect.oracle*"),
    ],
)
def test_a_wrong_environment_file_is_one_message(six: Project, text: str, words: str) -> None:
    (six.path / "demo.rlenv.toml").write_text(text)
    result = six.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([f"rlenv: {words}"])
    assert "Traceback" not in result.stdout.str()
