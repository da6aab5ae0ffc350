"""xdist workers: same verdicts, one resolution, and nothing lost when one dies."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.project import Project, ids, outcomes, properties, read_junit

ALL = [f"rlenv:envs/demo::task-0000{n}" for n in range(6)]


@pytest.mark.parametrize(
    "workers", [["-n1"], ["-n2"], ["-n4"], ["-n2", "--dist=worksteal"], ["-n2", "--dist=loadfile"]]
)
def test_workers_give_the_same_verdicts(six: Project, workers: list[str]) -> None:
    assert outcomes(six.demo(*workers)) == {"passed": 4, "failed": 1, "errors": 1}
    assert len(six.records()) == 6


@pytest.mark.parametrize(
    ("args", "counts"),
    [
        (["-k", "00001 or 00002"], {"passed": 1, "failed": 1}),
        (["--rlenv-task", "*1"], {"passed": 1}),
        ([ALL[5]], {"errors": 1}),
    ],
)
def test_selection_holds_for_workers(six: Project, args: list[str], counts: dict[str, int]) -> None:
    assert outcomes(six.demo("-n2", *args)) == counts


def test_last_failed_holds_for_workers(six: Project) -> None:
    six.demo("-n2")
    assert outcomes(six.demo("-n2", "--lf")) == {"failed": 1, "errors": 1}
    assert ids(six.demo("-n2", "--lf", "--co", "-q")) == [ALL[2], ALL[5]]


def test_the_results_name_the_worker(six: Project) -> None:
    six.demo("-n2")
    assert {record["worker"] for record in six.records()} <= {"gw0", "gw1"}
    assert len({record["run"] for record in six.records()}) == 1


def test_a_killed_worker_is_an_error_for_its_item_and_the_rest_goes_on(project: Project) -> None:
    project.tasks(
        a="# scripted: kill-worker",
        b="# scripted: reward=1",
        c="# scripted: reward=1",
        d="# scripted: reward=1",
    )
    result = project.demo("-n2", "--junitxml=junit.xml")
    assert outcomes(result) == {"passed": 3, "errors": 1}
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    cases = read_junit(project.path / "junit.xml")
    assert properties(cases["a"])["rlenv.error"] == "WorkerDied"
    assert cases["a"].find("error") is not None
    assert "rlenv.reward" not in properties(cases["a"])
    records = {record["task"]: record for record in project.records()}
    assert records["a"]["verdict"] == "error"
    assert records["a"]["reward"] is None
    result.stdout.fnmatch_lines(["oracle: scored 3 of 4, mean reward 1.000 (0.750 with errors as 0)"])


def test_an_environment_is_resolved_once_for_all_workers(six: Project) -> None:
    """Workers read the controller's list: what is added after the start is not seen."""
    six.pytester.makeconftest(
        """
        import pathlib, shutil

        def pytest_configure_node(node):
            source = pathlib.Path("envs/demo/tasks/task-00000")
            shutil.copytree(source, source.with_name("late-" + node.gateway.id))
        """
    )
    assert outcomes(six.demo("-n2")) == {"passed": 4, "failed": 1, "errors": 1}


def start(project: Project, *args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pytest", "--rlenv", "envs/demo", "--junitxml=junit.xml", *args]
    return subprocess.Popen(
        [*command, "--rlenv-sandbox=support.scripted:ScriptedSandbox"],
        cwd=project.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for(condition: object, what: str) -> None:
    for _ in range(600):
        if condition():  # type: ignore[operator]
            return
        time.sleep(0.05)
    raise AssertionError(f"never saw {what}")


def boxes(project: Project) -> list[Path]:
    return list((project.path / "scripted" / "up").glob("*"))


def started(project: Project) -> int:
    counted = project.path / "started"
    return len(counted.read_text().splitlines()) if counted.exists() else 0


@pytest.mark.parametrize("workers", [[], ["-n2"]])
@pytest.mark.parametrize(("name", "to_group"), [("SIGINT", True), ("SIGTERM", True), ("SIGTERM", False)])
def test_an_interrupted_run_leaves_reports_and_no_box(
    project: Project, workers: list[str], name: str, to_group: bool
) -> None:
    slow = f"# scripted: count={project.path}/started\n# scripted: sleep=2\n# scripted: reward=1"
    project.tasks(a="# scripted: reward=1", b="# scripted: reward=1", x=slow, y=slow, z=slow)
    process = start(project, *workers)
    wait_for(lambda: started(project) >= 1, "a slow task")
    send = os.killpg if to_group else os.kill
    send(process.pid, getattr(signal, name))
    output, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    wait_for(lambda: not boxes(project), "the end of the boxes")
    assert "INTERNALERROR" not in output
    cases = read_junit(project.path / "junit.xml")
    assert set(cases) <= {"a", "b", "x", "y", "z"}
    assert [r["verdict"] for r in project.records()] == ["passed"] * len(project.records())
    assert re.search(r"rlenv: results and logs in", output) or not project.records()


def test_a_killed_controller_leaves_what_it_had(project: Project) -> None:
    slow = f"# scripted: count={project.path}/started\n# scripted: sleep=30\n# scripted: reward=1"
    project.tasks(a="# scripted: reward=1", b="# scripted: reward=0", x=slow)
    process = start(project)
    wait_for(lambda: started(project) >= 1, "the slow task")
    process.kill()
    process.communicate(timeout=60)
    assert [(r["task"], r["reward"]) for r in project.records()] == [("a", 1.0), ("b", 0.0)]


def test_the_longest_of_last_time_comes_first(project: Project) -> None:
    project.tasks(**dict.fromkeys("abcdefz", "# scripted: reward=1"))
    project.demo("-n1", "--rlenv-output=first")
    stored = project.path / ".pytest_cache" / "v" / "rlenv" / "seconds"
    seconds = json.loads(stored.read_text())
    assert set(seconds) == {f"rlenv:envs/demo::{task}" for task in "abcdefz"}
    stored.write_text(json.dumps(seconds | {"rlenv:envs/demo::z": 900.0}))
    assert outcomes(project.demo("-n1", "--rlenv-output=second")) == {"passed": 7}
    order = [
        json.loads(line)["task"]
        for line in (project.path / "second" / "results.jsonl").read_text().splitlines()
    ]
    assert order[0] == "z"


def test_after_a_stop_no_more_rollouts_are_started(project: Project) -> None:
    counted = f"# scripted: count={project.path}/ran\n# scripted: sleep=0.2\n# scripted: reward=1"
    project.tasks(a="# scripted: reward=0", **{f"t{n:02}": counted for n in range(30)})
    result = project.demo("-n2", "-x", "--dist=worksteal")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert len((project.path / "ran").read_text().splitlines()) <= 6


@pytest.mark.parametrize("mode", ["loadscope", "loadfile", "loadgroup"])
def test_a_mode_that_harms_is_warned_of(six: Project, mode: str) -> None:
    six.demo("-n1", f"--dist={mode}").stdout.fnmatch_lines([f"rlenv: warning: --dist {mode} *"])
