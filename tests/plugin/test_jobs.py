"""``--rlenv-jobs``: several rollouts at once in one process, with the verdicts of one by one."""

from __future__ import annotations

import json

import pytest
from support.meetings import PASSES, counts, lines, meets, peaks
from support.project import Project, outcomes, properties
from support.tasks import write_tasks


@pytest.fixture
def mine(project: Project) -> Project:
    """A project whose own test module is ``test_mine.py`` over two tasks that must meet."""
    project.tasks(a=meets(project, 2), b=meets(project, 2))
    return project


# ---- the same verdicts


@pytest.mark.parametrize("how", [["-n0"], ["-n2"], ["--rlenv-jobs=4"], ["-n0", "--rlenv-jobs=3"]])
def test_the_verdicts_are_those_of_one_by_one(six: Project, how: list[str]) -> None:
    six.task("unsolved", solve=None)
    result = six.demo("--agent=oracle,nop", "--junitxml=junit.xml", *how)
    found = {(r["task"], r["agent"]): (r["verdict"], r["reward"], r["outcome"]) for r in six.records()}
    assert len(six.records()) == len(found) == 14
    for number in (0, 1, 3, 4):
        assert found[f"task-0000{number}", "oracle"] == ("passed", 1.0, "passed")
        assert found[f"task-0000{number}", "nop"] == ("passed", 0.0, "passed")
    assert found["task-00002", "oracle"] == ("failed", 0.25, "failed")
    assert found["task-00002", "nop"] == ("passed", 0.25, "passed")
    assert found["task-00005", "oracle"] == found["task-00005", "nop"] == ("error", None, "error")
    assert found["unsolved", "oracle"] == ("skipped", None, "skipped")
    assert outcomes(result) == {"passed": 10, "failed": 1, "errors": 2, "skipped": 1}
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_several_environments_and_plain_tests(six: Project) -> None:
    write_tasks(six.path / "envs" / "other", x=PASSES, y=PASSES)
    six.pytester.makepyfile(test_plain="def test_one(): pass\ndef test_two(): pass")
    result = six.run("--rlenv=envs/demo", "--rlenv=envs/other", "test_plain.py", "--rlenv-jobs=4")
    assert outcomes(result) == {"passed": 8, "failed": 1, "errors": 1}


@pytest.mark.parametrize(
    ("args", "counted"),
    [
        (["-k", "00001 or 00002"], {"passed": 1, "failed": 1}),
        (["rlenv:envs/demo::task-00005"], {"errors": 1}),
        (["--rlenv-limit=2"], {"passed": 2}),
    ],
)
def test_selection_holds(six: Project, args: list[str], counted: dict[str, int]) -> None:
    assert outcomes(six.demo("--rlenv-jobs=4", *args)) == counted


def test_last_failed_and_stepwise_hold(six: Project) -> None:
    six.demo("--rlenv-jobs=4")
    assert outcomes(six.demo("--rlenv-jobs=4", "--lf")) == {"failed": 1, "errors": 1}
    first = six.demo("--rlenv-jobs=4", "--sw")
    assert outcomes(first) == {"passed": 2, "failed": 1}  # the tasks before the first that fails, no other
    assert outcomes(six.demo("--rlenv-jobs=4", "--sw", "--sw-skip")) == {
        "failed": 1,
        "passed": 2,
        "errors": 1,
    }


def test_an_agent_that_cannot_be_made_is_an_error_of_each_item(project: Project) -> None:
    project.tasks(a=PASSES, b=PASSES)
    project.pytester.makepyfile(
        broken="""
        from pytest_rlenv.agents.protocol import Agent

        class Broken(Agent):
            made = 0

            def __init__(self, model=None):
                Broken.made += 1
                if Broken.made > 1:  # the first is the one that is looked at before the run
                    raise RuntimeError("no key")

            def run(self, context): ...
        """
    )
    result = project.demo("--agent=broken:Broken", "--rlenv-jobs=2")
    assert outcomes(result) == {"errors": 2}
    assert {record["message"] for record in project.records()} == {
        "rlenv: agent broken:Broken: RuntimeError: no key"
    }


# ---- at once


def test_rollouts_run_at_once(project: Project) -> None:
    project.tasks(a=meets(project, 3), b=meets(project, 3), c=meets(project, 3))
    result = project.demo("--rlenv-jobs=3", "--junitxml=junit.xml")
    assert outcomes(result) == {"passed": 3}
    result.stdout.fnmatch_lines(["rlenv: up to 3 rollouts at once in this process"])
    for record in project.records():
        assert record["worker"] == "main"
        folder = project.run_dir / record["logs"]
        assert json.loads((folder / "rlenv.json").read_text()) == record


def test_no_more_than_asked_for(project: Project) -> None:
    project.tasks(**dict.fromkeys("abcdef", peaks(project)))
    assert outcomes(project.demo("--rlenv-jobs=2")) == {"passed": 6}
    assert {int(line) for line in lines(project, "peak")} <= {1, 2}


def test_results_are_stored_as_rollouts_end_and_not_in_turn(project: Project) -> None:
    project.tasks(a=meets(project, 4), **dict.fromkeys("bcd", counts(project, "meeting")))
    assert outcomes(project.demo("--rlenv-jobs=2")) == {"passed": 4}
    order = [record["task"] for record in project.records()]
    assert order.index("b") < order.index("a")


def test_the_times_are_those_of_the_rollout(project: Project) -> None:
    project.tasks(a=f"# scripted: sleep=0.2\n{PASSES}", b=PASSES)
    cases = project.junit("--rlenv-jobs=2")
    seconds = float(properties(cases["a"])["rlenv.seconds"])
    assert seconds >= 0.2
    assert float(cases["a"].get("time", "0")) >= round(seconds, 3) - 0.001
    assert float(properties(cases["a"])["rlenv.seconds.verify"]) >= 0.2


def test_own_tests_over_rollouts(mine: Project) -> None:
    """Two tests that use the same task are two rollouts."""
    mine.pytester.makepyfile(
        test_mine="""
        import pytest

        @pytest.mark.rlenv("envs/demo", task="a")
        def test_one(rollout):
            assert rollout.reward == 1

        @pytest.mark.rlenv("envs/demo", task="a")
        @pytest.mark.parametrize("extra", [1])
        def test_two(extra, tmp_path, rollout, rlenv_agent):
            assert rollout.reward == 1
            assert rlenv_agent.name == "oracle"
        """
    )
    assert outcomes(mine.run("--rlenv-jobs=2", "test_mine.py")) == {"passed": 2}
    assert len({record["logs"] for record in mine.records()}) == 2


def test_the_agent_of_the_fixture_is_the_one_that_acted(project: Project) -> None:
    project.tasks(a=PASSES, b=PASSES)
    project.pytester.makepyfile(
        acting="""
        from pytest_rlenv.agents.protocol import Agent

        class Acting(Agent):
            acted = 0

            def run(self, context):
                self.acted += 1
        """,
        test_mine="""
        import pytest

        @pytest.mark.rlenv("envs/demo", agent="acting:Acting")
        def test_it(rollout, rlenv_agent):
            assert rlenv_agent.acted == 1
        """,
    )
    assert outcomes(project.run("--rlenv-jobs=2", "test_mine.py")) == {"passed": 2}


def test_environment_files(mine: Project) -> None:
    (mine.path / "demo.rlenv.toml").write_text('repo = "envs/demo"\n')
    assert outcomes(mine.run("--rlenv-jobs=2", "demo.rlenv.toml")) == {"passed": 2}


# ---- usage


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--rlenv-jobs=2", "-n3"], "--rlenv-jobs = 2 and -n 3 do not go together*"),
        (["--rlenv-jobs=2", "-n3"], "*use -n 6 for worker processes, or -n 0 with --rlenv-jobs 2 *"),
        (["--rlenv-jobs=2", "--tx=2*popen", "--dist=load"], "*and xdist's workers do not go together*"),
        (["--rlenv-jobs=0"], "*--rlenv-jobs = '0': input should be greater than or equal to 1"),
        (["--rlenv-jobs=many"], "*--rlenv-jobs = 'many': *"),
    ],
)
def test_wrong_usage_is_one_message(six: Project, args: list[str], words: str) -> None:
    result = six.demo(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{words}"])
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


def test_workers_are_refused_wherever_jobs_come_from(six: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLENV_JOBS", "2")
    result = six.demo("-n2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*env RLENV_JOBS = 2 and -n 2 do not go together*"])


def test_an_ini_file_may_ask_for_jobs(mine: Project) -> None:
    mine.pytester.makeini("[pytest]\nrlenv_jobs = 2\n")
    assert outcomes(mine.demo()) == {"passed": 2}


def test_jobs_in_an_ini_file_do_not_hinder_other_tests(project: Project) -> None:
    project.pytester.makeini("[pytest]\nrlenv_jobs = 2\n")
    project.pytester.makepyfile("def test_plain(): pass")
    assert outcomes(project.run("-n1", sandbox=None)) == {"passed": 1}
