"""A run with ``--rlenv-jobs`` that is stopped: nothing more begins, nothing is left, nothing hangs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from support.meetings import PASSES, boxes, lines
from support.project import Project, outcomes, read_junit

FAILS = "# scripted: reward=0"


def slow(project: Project) -> str:
    """Return a verifier that takes a minute, unless its box is taken away."""
    return f"# scripted: count={project.path / 'slow'}\n# scripted: sleep=60\n{PASSES}"


def after_slow(project: Project, number: int, reward: int) -> str:
    """Return a verifier that ends once so many slow ones have begun."""
    return f"# scripted: meet={project.path / 'slow'} {number + 1}\n# scripted: reward={reward}"


def begun(project: Project) -> int:
    return len(lines(project, "slow"))


@pytest.mark.parametrize("option", ["-x", "--maxfail=1"])
def test_the_first_failure_stops_all(project: Project, option: str) -> None:
    """Rollouts under way lose their boxes, those that wait never begin, none of them has a result."""
    project.tasks(a=after_slow(project, 1, reward=0), **dict.fromkeys("bcdefg", slow(project)))
    result = project.demo("--rlenv-jobs=2", option)
    assert outcomes(result) == {"failed": 1}
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert begun(project) <= 3  # its own mark, b's, and one that began as it ended
    assert boxes(project) == []
    assert [record["task"] for record in project.records()] == ["a"]
    assert len(list(project.run_dir.glob("rollouts/*/rlenv.json"))) == 1


def test_a_rollout_that_ended_unreported_keeps_its_result(project: Project) -> None:
    """In its own folder; ``results.jsonl`` holds what was reported."""
    project.tasks(a=FAILS, b=f"# scripted: meet={project.path}/gate 2\n{PASSES}")
    project.pytester.makeconftest(
        """
        import pytest
        from pytest_rlenv.state import AHEAD

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logreport(report):
            if report.failed:
                with open("gate", "a") as file:
                    file.write("x\\n")
                SESSION[0].items[1].stash[AHEAD].judged()

        SESSION = []

        def pytest_sessionstart(session):
            SESSION.append(session)
        """
    )
    result = project.demo("--rlenv-jobs=2", "-x")
    assert outcomes(result) == {"failed": 1}
    assert [record["task"] for record in project.records()] == ["a"]
    (left,) = project.run_dir.glob("rollouts/b__*/rlenv.json")
    stored = json.loads(left.read_text())
    assert (stored["verdict"], stored["reward"], stored["outcome"]) == ("passed", 1.0, None)


def test_an_agent_that_raises_keyboardinterrupt_stops_the_run(project: Project) -> None:
    project.tasks(a=PASSES, b=PASSES, c=PASSES)
    project.pytester.makepyfile(
        rude="""
        from pytest_rlenv.agents.protocol import Agent

        class Rude(Agent):
            def run(self, context):
                raise KeyboardInterrupt
        """
    )
    result = project.run("--rlenv=envs/demo", "--agent=rude:Rude", "--rlenv-jobs=2", process=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert boxes(project) == []
    assert project.records() == []


def test_an_internal_error_ends_what_is_under_way(project: Project) -> None:
    project.tasks(a=after_slow(project, 1, reward=1), b=slow(project), c=slow(project))
    project.pytester.makeconftest(
        """
        def pytest_runtest_logreport(report):
            raise RuntimeError("a fault of the user's")
        """
    )
    result = project.demo("--rlenv-jobs=2")
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    assert boxes(project) == []


@contextmanager
def running(project: Project, *args: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [
            sys.executable,
            *("-m", "pytest", "--rlenv=envs/demo", "--junitxml=junit.xml"),
            "--rlenv-sandbox=support.scripted:ScriptedSandbox",
            *args,
        ],
        cwd=project.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(condition: Callable[[], object], what: str) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"never saw {what}")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_leaves_reports_and_no_box(project: Project, name: str) -> None:
    project.tasks(a=PASSES, b=PASSES, **dict.fromkeys("vwxyz", slow(project)))
    with running(project, "--rlenv-jobs=3") as process:
        wait_for(lambda: begun(project) == 3, "three slow tasks")
        wait_for(lambda: len(reported(project)) == 2, "two results")
        os.kill(process.pid, getattr(signal, name))
        output, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert "INTERNALERROR" not in output
    assert boxes(project) == []
    assert {record["task"] for record in project.records()} == {"a", "b"}
    assert {record["verdict"] for record in project.records()} == {"passed"}
    assert set(read_junit(project.path / "junit.xml")) == {"a", "b"}
    assert begun(project) == 3


def reported(project: Project) -> list[str]:
    files = list(project.path.glob(".rlenv/*/results.jsonl"))
    return files[0].read_text().splitlines() if files else []


def test_an_agent_that_never_returns_does_not_hold_the_process_up(project: Project) -> None:
    project.tasks(a=PASSES, b=PASSES)
    project.pytester.makepyfile(
        deaf="""
        import threading
        from pathlib import Path
        from pytest_rlenv.agents.protocol import Agent

        class Deaf(Agent):
            def run(self, context):
                with Path("slow").open("a") as file:
                    file.write("x\\n")
                threading.Event().wait()
        """
    )
    project.pytester.makeconftest("import pytest_rlenv.jobs.loop\npytest_rlenv.jobs.loop.END_LIMIT = 0.1\n")
    with running(project, "--rlenv-jobs=2", "--agent=deaf:Deaf") as process:
        wait_for(lambda: begun(project) == 2, "two agents")
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert boxes(project) == []
    assert project.records() == []
