"""Whatever ends a run, on a real engine: no container is left, and the results can be read."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.project import read_junit
from support.tasks import write_task

from pytest_rlenv.sandboxes.docker.client import shared_engine

pytestmark = pytest.mark.docker


def own_containers(session: str | None) -> list[str]:
    filters = json.dumps({"label": [f"rlenv.session={session}" if session else "rlenv=1"]})
    found = shared_engine().get("/containers/json", params={"all": 1, "filters": filters}, doing="list")
    return [each["Id"] for each in found]


def session_of(folder: Path) -> str | None:
    facts = folder / "out" / "run.json"
    return json.loads(facts.read_text())["run"] if facts.exists() else None


def wait_for(condition: Callable[[], object], what: str) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(f"never saw {what}")


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    solve = "echo done > /app/answer.txt"
    judge = "cat /app/answer.txt && echo 1 > /logs/verifier/reward.txt"
    for name in ("a", "b"):
        write_task(tmp_path / "env" / name, solve=solve, test=judge)
    for name in ("x", "y", "z"):
        write_task(tmp_path / "env" / name, solve=f"{solve}; sleep 300", test=judge)
    return tmp_path


def start(folder: Path, workers: list[str]) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--rlenv",
        "env",
        "--rlenv-output",
        "out",
        "--junitxml=junit.xml",
    ]
    return subprocess.Popen(
        [*command, *workers],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def records(folder: Path) -> dict[str, dict[str, object]]:
    lines = (folder / "out" / "results.jsonl").read_text().splitlines()
    return {record["task"]: record for record in map(json.loads, lines)}


@pytest.mark.parametrize(
    ("workers", "name"),
    [
        *itertools.product([[], ["-n2"]], ["SIGINT", "SIGTERM", "SIGKILL"]),
        *itertools.product([["--rlenv-jobs=3"]], ["SIGINT", "SIGKILL"]),
    ],
)
def test_nothing_is_left(environment: Path, workers: list[str], name: str) -> None:
    process = start(environment, workers)
    wait_for(lambda: (s := session_of(environment)) and len(own_containers(s)) >= 1, "a container")
    wait_for(lambda: {"a", "b"} <= set(records(environment)), "two results")
    wait_for(lambda: own_containers(session_of(environment)), "a container of a slow task")
    os.killpg(process.pid, getattr(signal, name))
    output, _ = process.communicate(timeout=120)
    session = session_of(environment)
    wait_for(lambda: not own_containers(session), "the end of the containers")
    assert {task: record["verdict"] for task, record in records(environment).items()} == {
        "a": "passed",
        "b": "passed",
    }
    if name != "SIGKILL":
        assert process.returncode == pytest.ExitCode.INTERRUPTED, output
        assert set(read_junit(environment / "junit.xml")) >= {"a", "b"}


def test_a_killed_worker_leaves_no_container_and_stops_nobody(environment: Path) -> None:
    for name in ("y", "z"):
        solve = environment / "env" / name / "solution" / "solve.sh"
        solve.write_text(solve.read_text().replace("sleep 300", "sleep 3"))
    process = start(environment, ["-n2"])
    slow = "rlenv.task=x"

    def box_of_x() -> str | None:
        filters = json.dumps({"label": [slow, f"rlenv.session={session_of(environment)}"]})
        found = shared_engine().get("/containers/json", params={"filters": filters}, doing="list")
        return found[0]["Labels"]["rlenv.pid"] if found else None

    wait_for(box_of_x, "the box of x")
    os.kill(int(box_of_x() or 0), signal.SIGKILL)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == pytest.ExitCode.TESTS_FAILED, output
    assert own_containers(session_of(environment)) == []
    found = records(environment)
    assert {task: record["verdict"] for task, record in found.items()} == {
        "a": "passed",
        "b": "passed",
        "x": "error",
        "y": "passed",
        "z": "passed",
    }
    case = read_junit(environment / "junit.xml")["x"]
    assert case.find("error") is not None


@pytest.mark.parametrize("workers", [[], ["-n2"]])
@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("DOCKER_HOST", "unix:///nowhere/docker.sock", "/nowhere/docker.sock"),
        ("DOCKER_HOST", "tcp://127.0.0.1:1", "127.0.0.1:1"),
        ("DOCKER_CONTEXT", "no-such-context", "no-such-context"),
    ],
)
def test_an_engine_that_does_not_answer_is_one_message(
    environment: Path,
    monkeypatch: pytest.MonkeyPatch,
    workers: list[str],
    variable: str,
    value: str,
    words: str,
) -> None:
    monkeypatch.setenv(variable, value)
    process = start(environment, workers)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == pytest.ExitCode.USAGE_ERROR
    assert "Traceback" not in output
    assert words in output
