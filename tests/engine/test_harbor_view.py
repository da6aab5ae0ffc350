"""A run's folder in the real viewer of Harbor: it finds the trials, their rewards and their logs."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from support.scripted_model import ScriptedModel, use
from support.tasks import write_task

from pytest_rlenv.agents.loading import load_agent
from pytest_rlenv.agents.protocol import AgentBox, AgentContext

ROOT = Path(__file__).parents[2]
HARBOR = ROOT / ".matrix" / "harbor-0.26.0" / "bin" / "harbor"
LIMIT = 60.0
CODEX = (
    {"type": "thread.started", "thread_id": "t"},
    {
        "type": "item.completed",
        "item": {
            "id": "1",
            "type": "command_execution",
            "command": "ls",
            "aggregated_output": "a b",
            "exit_code": 0,
        },
    },
    {"type": "item.completed", "item": {"id": "2", "type": "agent_message", "text": "Done."}},
    {"type": "turn.completed", "usage": {"input_tokens": 5, "output_tokens": 2}},
)
"""What the program codex prints."""

pytestmark = [
    pytest.mark.harbor,
    pytest.mark.skipif(not HARBOR.exists(), reason="Harbor is not installed: bash scripts/setup_harbor.sh"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a verdict of each kind; returns its folder."""
    project = tmp_path_factory.mktemp("project")
    (project / "pytest.ini").write_text("[pytest]\n")
    tasks = {
        "low": "# scripted: print=checked\n# scripted: reward=0.25",
        "named": '# scripted: json={"reward": 1, "speed": 3.5}',
        "no-reward": "# scripted: print=nothing",
    }
    solve = '# scripted: write=/logs/agent/trajectory.json {"schema_version": "ATIF-v1.6", "steps": []}'
    for name, test in tasks.items():
        write_task(project / "env" / name, test=test, solve=solve)
    write_task(project / "env" / "unsolved", solve=None)
    config = 'schema_version = "1.4"\n[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    steps = write_task(project / "env" / "steps", solve=None, test=None, config=config)
    (steps / "instruction.md").unlink()
    for name in ("one", "two"):
        write_task(steps / "steps" / name, test="# scripted: reward=1", dockerfile="")
    run_pytest(project, "--rlenv-output=run", expected=pytest.ExitCode.TESTS_FAILED)
    add_job_with_models(project)
    return project / "run"


def run_pytest(project: Path, *args: str, expected: int = 0) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--rlenv=env", *args]
    command.append("--rlenv-sandbox=support.scripted:ScriptedSandbox")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == expected, done.stdout + done.stderr


def add_job_with_models(project: Path) -> None:
    """Put a second job beside the first one: the agent ``bash``, and what a program's log was made into."""
    steps = [use("bash", command="# scripted: print=looked"), "done"] * 2
    with ScriptedModel(steps) as model:
        tasks = ["--rlenv-task=low", "--rlenv-task=named"]
        options = ["--rlenv-output=models", "--agent=bash", "--model=custom/m", "--rlenv-threshold=0"]
        run_pytest(project, *options, f"--rlenv-model-url={model.url}", *tasks)
    (found,) = (project / "models" / "rollouts").glob("named__*/agent")
    (found / "codex.txt").write_text("\n".join(json.dumps(event) for event in CODEX))
    context = AgentContext("Do it.", cast("AgentBox", None), found)
    load_agent("codex")("custom/m").finish(context)
    (project / "models" / "rollouts").rename(project / "run" / "with-model")


@pytest.fixture(scope="module")
def viewer(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``harbor view RUN`` on a free port; returns its address."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    log = tmp_path_factory.mktemp("viewer") / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [HARBOR, "view", run, "--port", str(port), "--no-build"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            address = f"http://127.0.0.1:{port}/api"
            give_up = time.monotonic() + LIMIT
            while not _answers(f"{address}/health"):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < give_up, log.read_text()
                time.sleep(0.1)
            yield address
        finally:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(get(url)["status"] == "ok")
    return False


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def test_the_run_is_a_job_with_its_numbers(viewer: str) -> None:
    jobs = {job["name"]: job for job in get(f"{viewer}/jobs")["items"]}
    job = jobs["rollouts"]
    assert (job["n_total_trials"], job["n_completed_trials"], job["n_errored_trials"]) == (5, 5, 2)
    assert job["agents"] == ["oracle"]
    (numbers,) = job["evals"].values()
    assert numbers["metrics"] == [{"mean": pytest.approx((0.25 + 1 + 1) / 3)}]


def test_every_rollout_is_a_trial_and_a_missing_reward_is_none(viewer: str) -> None:
    trials = {trial["task_name"]: trial for trial in get(f"{viewer}/jobs/rollouts/trials")["items"]}
    found = {name: (trial["reward"], trial["error_type"]) for name, trial in trials.items()}
    assert found == {
        "low": (0.25, None),
        "named": (1.0, None),
        "no-reward": (None, "RewardMissing"),
        "steps": (1.0, None),
        "unsolved": (None, "RolloutSkipped"),
    }
    assert {trial["source"] for trial in trials.values()} == {"env"}


def trial_of(viewer: str, task: str) -> tuple[str, dict[str, Any]]:
    names = {t["task_name"]: t["name"] for t in get(f"{viewer}/jobs/rollouts/trials")["items"]}
    address = f"{viewer}/jobs/rollouts/trials/{names[task]}"
    return address, get(address)


def test_a_trial_has_its_times_rewards_and_logs(viewer: str) -> None:
    address, trial = trial_of(viewer, "named")
    assert trial["verifier_result"]["rewards"] == {"reward": 1.0, "speed": 3.5}
    assert trial["reward_valid"] is True
    assert trial["agent_info"]["name"] == "oracle"
    assert trial["started_at"] <= trial["agent_execution"]["started_at"] <= trial["verifier"]["finished_at"]
    assert get(f"{address}/trajectory") == {"schema_version": "ATIF-v1.6", "steps": []}
    low, _ = trial_of(viewer, "low")
    assert get(f"{low}/verifier-output")["stdout"] == "checked\n"


def test_an_error_is_no_valid_reward_by_its_policy(viewer: str) -> None:
    _, trial = trial_of(viewer, "no-reward")
    assert trial["verifier_result"] is None
    assert trial["reward_valid"] is False
    info = trial["exception_info"]
    assert info["exception_message"].startswith("RewardMissing [verify]: no reward")
    assert info["policy"] == {"should_retry": False, "should_grade": False, "has_valid_reward": False}


def test_steps_are_steps(viewer: str) -> None:
    _, trial = trial_of(viewer, "steps")
    steps = [(step["step_name"], step["verifier_result"]["rewards"]) for step in trial["step_results"]]
    assert steps == [("one", {"reward": 1.0}), ("two", {"reward": 1.0})]


def test_trajectories_of_agents_open_and_are_harbors(viewer: str, tmp_path: Path) -> None:
    documents = {}
    for trial in get(f"{viewer}/jobs/with-model/trials")["items"]:
        address = f"{viewer}/jobs/with-model/trials/{trial['name']}"
        documents[trial["task_name"]] = get(f"{address}/trajectory")
    seen = {
        task: [
            (call["function_name"], result["content"])
            for step in document["steps"]
            for call in step.get("tool_calls", ())
            for result in step["observation"]["results"]
        ]
        for task, document in documents.items()
    }
    assert seen == {"low": [("bash", "looked\n[exit code 0]")], "named": [("shell", "a b")]}
    (tmp_path / "all.json").write_text(json.dumps(list(documents.values())))
    script = (
        "import json, sys; from harbor.models.trajectories import Trajectory;"
        "[Trajectory.model_validate(each) for each in json.load(open(sys.argv[1]))]"
    )
    harbors = [HARBOR.with_name("python"), "-c", script, tmp_path / "all.json"]
    done = subprocess.run(harbors, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_run_that_goes_on_opens_too(run: Path, tmp_path: Path) -> None:
    """Harbor itself tells jobs from tasks by ``config.json``, which is there from the start."""
    script = (
        "import sys; from pathlib import Path; from harbor.cli.view import _detect_folder_type;"
        "print(_detect_folder_type(Path(sys.argv[1])))"
    )
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "rollouts/config.json").write_bytes((run / "rollouts/config.json").read_bytes())
    done = subprocess.run(
        [HARBOR.with_name("python"), "-c", script, tmp_path], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "jobs"
