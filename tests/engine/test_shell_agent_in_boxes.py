"""The agent ``bash`` and replays of it in a real container without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.scripted_model import ScriptedModel, use
from support.tasks import write_task

pytestmark = pytest.mark.docker

CONFIG = """\
schema_version = "1.4"
[environment]
network_mode = "no-network"
[agent]
user = "solver"
"""
DOCKERFILE = "FROM debian:bookworm-slim\nRUN useradd -m solver\nWORKDIR /app\nRUN chown solver /app\n"
TEST = """\
[ "$(cat /app/answer)" = "solver at /app" ] && [ "$(cat /app/lives)" = yes ]
echo $((1 - $?)) > /logs/verifier/reward.txt
"""
COMMANDS = (
    {"command": "sleep 300 >/dev/null 2>&1 & echo $! > /app/other"},
    {"command": 'echo "$(whoami) at $(pwd)" > answer && cat answer'},
    {"command": "echo begun; sleep 300", "timeout": 1},
    {"command": "kill -0 $(cat other) && echo yes > lives; exit 3"},
)


def run(project: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rlenv=env", *args]
    env = {**os.environ, "OPENAI_API_KEY": "sk-a-key-that-is-secret"}
    return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False)


def record_of(run_dir: Path) -> dict[str, Any]:
    (line,) = (run_dir / "results.jsonl").read_text().splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_model_works_in_a_container_and_its_trajectory_is_replayed_in_another(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    write_task(tmp_path / "env" / "task", solve=None, test=TEST, config=CONFIG, dockerfile=DOCKERFILE)
    script = [*(use("bash", **arguments) for arguments in COMMANDS), "done"]
    with ScriptedModel(script) as model:
        options = ["--rlenv-sandbox=docker", "--rlenv-agent=bash", "--rlenv-model=openai/m"]
        done = run(tmp_path, *options, f"--rlenv-model-url={model.url}", "--rlenv-output=first")
    assert done.returncode == 0, done.stdout + done.stderr
    first = record_of(tmp_path / "first")
    trajectory = json.loads((tmp_path / "first" / first["trajectories"][0]).read_text())
    results = [
        result["content"]
        for step in trajectory["steps"]
        for result in step.get("observation", {}).get("results", ())
    ]
    assert results == [
        "[exit code 0]",
        "solver at /app\n[exit code 0]",
        "begun\n[killed after 1 s]",
        "[exit code 3]",
    ]
    done = run(tmp_path, "--rlenv-sandbox=docker", "--rlenv-agent=replay:first", "--rlenv-output=second")
    assert done.returncode == 0, done.stdout + done.stderr
    second = record_of(tmp_path / "second")
    assert second["notes"] == []
    assert second["usage"] == {"commands": 4, "diverged": 0, "outputs_differing": 0}
