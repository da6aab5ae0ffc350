"""OpenEnv's tasks as test items: ids, verdicts, workers, threads, and what is left of a killed run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import requests  # noqa: F401 - loaded for good: pytester forgets what a run in this process imports
import websockets.sync.client  # noqa: F401 - likewise
from support import openenv as support
from support.fake_hub import FakeHub
from support.openenv import EXAMPLE, Misbehaving, ToolEnvironment, served, write_environment
from support.project import Project, ids, outcomes
from support.scripted_model import ScriptedModel, use

PROCESS = ("--rlenv-openenv-launcher=process", "--rlenv-trust-code")
EXAMPLE_SERVER = "--rlenv-openenv-command={python} -S server/app.py --port {port}"
ODD_SERVER = f"--rlenv-openenv-command={{python}} -S {support.__file__} --port {{port}}"
VERDICTS = {"passed": 2, "failed": 1, "errors": 1, "skipped": 1}


@pytest.fixture
def guess(project: Project) -> Project:
    shutil.copytree(EXAMPLE, project.path / "guess", ignore=shutil.ignore_patterns("__pycache__"))
    return project


def run(project: Project, *args: str, process: bool = False) -> pytest.RunResult:
    return project.run("--rlenv=guess", *PROCESS, EXAMPLE_SERVER, *args, sandbox=None, process=process)


def test_the_example_has_a_task_for_each_verdict(guess: Project) -> None:
    assert outcomes(run(guess)) == VERDICTS
    records = {record["task"]: record for record in guess.records()}
    assert records["seven"]["rewards"] == {"reward": 1.0}
    assert records["seven"]["framework"] == "openenv"
    assert records["seven"]["sandbox"] == "none"
    assert records["seven"]["runner"] == "OpenEnv server (process)"
    assert records["ungraded"]["error"]["type"] == "RewardMissing"
    assert "no oracle" in records["without-plan"]["skip_reason"]
    logs = [path for path in (guess.run_dir / "rollouts").iterdir() if (path / "server.log").exists()]
    assert len(logs) == 1  # one server was enough


def test_agents_and_checks_are_levels_of_the_ids(guess: Project) -> None:
    agents = "oracle,nop,canary,check:contract,check:determinism,check:isolation,check:floor-gap"
    args = ("--rlenv-task=seven", f"--agent={agents}")
    result = run(guess, *args)
    assert outcomes(result) == {"passed": 7}
    assert ids(run(guess, *args, "--co", "-q")) == [
        f"rlenv:guess::seven::{agent}" for agent in agents.split(",")
    ]
    assert outcomes(run(guess, *args, "rlenv:guess::seven::check:contract")) == {"passed": 1}


def test_workers_have_a_server_each(guess: Project) -> None:
    result = run(guess, "-n2", "--agent=oracle,nop")
    assert outcomes(result) == {"passed": 6, "failed": 1, "errors": 1, "skipped": 2}
    with_log = [path for path in (guess.run_dir / "rollouts").iterdir() if (path / "server.log").exists()]
    assert 1 <= len(with_log) <= 2


def test_workers_wait_for_the_one_session_of_a_server_that_is_up(project: Project) -> None:
    plans: dict[str, Any] = {name: [{"do": "win"}] for name in "abcd"}
    write_environment(project.path / "odd", **plans)
    with served(capacity=1) as url:
        result = project.run("--rlenv=odd", f"--rlenv-openenv-url={url}", "-n2", sandbox=None)
    assert outcomes(result) == {"passed": 4}
    assert {record["runner"] for record in project.records()} == {"OpenEnv server (url)"}


def test_threads_have_a_server_each(guess: Project) -> None:
    assert outcomes(run(guess, "--rlenv-jobs=2")) == VERDICTS


def test_a_server_that_dies_is_an_error_and_the_next_rollout_has_a_fresh_one(project: Project) -> None:
    folder = write_environment(project.path / "odd", a=[{"do": "win"}], b=[{"do": "die"}], c=[{"do": "win"}])
    mark = project.path / "starts"
    result = project.run(f"--rlenv={folder}", *PROCESS, f"{ODD_SERVER} --mark {mark}", sandbox=None)
    assert outcomes(result) == {"passed": 2, "errors": 1}
    assert len(mark.read_text().splitlines()) == 2
    (record,) = (record for record in project.records() if record["task"] == "b")
    assert record["error"]["type"] == "SandboxFailed"
    assert record["error"]["message"] == "the server died (exit code 7)"
    assert "about to die" in record["error"]["detail"]


def test_a_task_that_may_be_another_one_is_told_though_it_passes(project: Project) -> None:
    folder = write_environment(project.path / "odd", a=[{"do": "win"}])
    (folder / "rlenv.yaml").write_text(
        "openenv: {tasks: [{id: a, reset: {leaks: true}, oracle: oracle/a.json}]}"
    )
    result = project.run(f"--rlenv={folder}", *PROCESS, ODD_SERVER, sandbox=None)
    assert outcomes(result) == {"passed": 1}
    result.stdout.fnmatch_lines(["warning  a: neither state nor observation says which task is played*"])


def test_a_rollout_that_an_error_ended_is_tried_again_on_a_fresh_server(project: Project) -> None:
    folder = write_environment(project.path / "odd", b=[{"do": "die"}])
    mark = project.path / "starts"
    args = (f"--rlenv={folder}", *PROCESS, f"{ODD_SERVER} --mark {mark}", "--rlenv-retries=1")
    assert outcomes(project.run(*args, sandbox=None)) == {"errors": 1}
    assert len(mark.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--rlenv-openenv-launcher=process"], "runs the environment's code outside of a container"),
        (["--rlenv-openenv-url=nowhere"], "is not an address such as http://127.0.0.1:8000"),
        (["--rlenv-openenv-reward=best"], "invalid choice"),
        (["--rlenv-framework=nemo-gym"], "0 tasks found"),
        ([*PROCESS, EXAMPLE_SERVER, "--agent=check"], "which one is not said"),
        ([*PROCESS, EXAMPLE_SERVER, "--agent=check:manners"], "there is no check 'manners'"),
    ],
)
def test_what_cannot_be_is_told_in_one_message(guess: Project, args: list[str], words: str) -> None:
    result = guess.run("--rlenv=guess", *args, sandbox=None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in result.stderr.str()
    assert "Traceback" not in result.stderr.str()


def test_without_an_engine_there_is_one_message(guess: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such.sock")
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    result = guess.run("--rlenv=guess", sandbox=None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "no such socket" in result.stderr.str()
    (guess.path / "guess" / "rlenv.yaml").unlink()
    shutil.rmtree(guess.path / "guess" / "oracle")
    result = guess.run("--rlenv=guess", sandbox=None)  # now its server must be asked for tasks
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "its tasks are known to its server only, which cannot be asked" in result.stderr.str()


def test_a_file_that_cannot_be_read_is_told_without_an_engine(
    guess: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such.sock")
    (guess.path / "guess" / "openenv.yaml").write_text("foo: [")
    assert outcomes(run(guess)) == {"errors": 1}
    (record,) = guess.records()
    assert record["error"]["type"] == "TaskInvalid"
    assert "is not YAML" in record["error"]["message"]


def test_a_sandbox_without_servers_is_a_skip(guess: Project) -> None:
    result = guess.run("--rlenv=guess", "--rlenv-allow-unscored")
    assert outcomes(result) == {"skipped": 5}
    assert "sandbox scripted has none" in guess.records()[0]["skip_reason"]


def test_harbors_folders_and_openenvs_episodes_may_be_in_one_environment(guess: Project) -> None:
    from support.tasks import write_task

    write_task(guess.path / "guess" / "tasks" / "hello", test="# scripted: reward=1")
    args = ("--rlenv=guess", *PROCESS, EXAMPLE_SERVER)
    assert outcomes(guess.run(*args)) == {**VERDICTS, "passed": 3}
    assert {record["framework"] for record in guess.records()} == {"harbor", "openenv"}


@pytest.mark.parametrize(
    ("environment", "moves"),
    [
        (Misbehaving, [use("act", do="dance"), use("act", do="earn", reward=0.5), use("act", do="win")]),
        (ToolEnvironment, [use("add", a=1, b=1), use("add", a=2, b=3)]),
    ],
)
def test_a_model_plays_with_actions_or_tools(
    project: Project, monkeypatch: pytest.MonkeyPatch, environment: type[Misbehaving], moves: list[Any]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    write_environment(project.path / "odd", t=[{"do": "win"}])
    with served(environment) as url, ScriptedModel(moves, key="key") as model:
        given = (f"--rlenv-openenv-url={url}", f"--rlenv-model-url={model.url}", "--model=openai/m")
        result = project.run("--rlenv=odd", *given, "--agent=model", sandbox=None)
    assert outcomes(result) == {"passed": 1}
    (record,) = project.records()
    assert record["rewards"] == {"reward": 1.0}
    assert record["usage"]["steps"] == len(moves)


def test_a_space_of_the_hub_is_an_environment(guess: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeHub() as hub:
        for name, value in hub.environ(guess.path / "hf-home").items():
            monkeypatch.setenv(name, value)
        sha = hub.add("spaces/org/guess", guess.path / "guess")
        args = ("--rlenv=spaces/org/guess", *PROCESS, EXAMPLE_SERVER)
        assert outcomes(guess.run(*args, sandbox=None, process=True)) == VERDICTS
        assert {record["revision"] for record in guess.records()} == {sha}
        asked = hub.count("")
        result = guess.run(*args, "rlenv:spaces/org/guess::seven", sandbox=None, process=True)
        assert outcomes(result) == {"passed": 1}
        assert hub.count("") <= asked + 3  # what a branch stands for, and no file again


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_run_that_is_ended(project: Project, number: signal.Signals) -> None:
    folder = write_environment(project.path / "odd", a=[{"do": "hang"}])
    mark = project.path / "starts"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--rlenv={folder}"]
    process = subprocess.Popen(
        [*command, *PROCESS, f"{ODD_SERVER} --mark {mark}"],
        cwd=project.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: list(project.path.glob(".rlenv/*/rollouts/*/frames.jsonl")))
        server = int(mark.read_text().split()[0])
        assert alive(server)
        process.send_signal(number)
        process.wait(30)
        wait_for(lambda: not alive(server))
    finally:
        process.kill()
        process.wait()


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_for(condition: object) -> None:
    assert callable(condition)
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_the_extra_is_named_where_it_is_missing(guess: Project) -> None:
    without = guess.path / "without" / "websockets"
    without.mkdir(parents=True)
    (without / "__init__.py").write_text("raise ImportError('hidden')\n")
    environ = {**os.environ, "PYTHONPATH": f"{without.parent}:{os.environ['PYTHONPATH']}"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--rlenv=guess", *PROCESS, EXAMPLE_SERVER],
        cwd=guess.path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "pip install 'pytest-rlenv[openenv]'" in done.stderr
