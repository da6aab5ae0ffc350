"""Run a folder of tasks through Harbor, and through us."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pytest_rlenv import errors

ROOT = Path(__file__).parent.parent.parent
LIMIT = 900.0
"""Seconds for one task in Harbor."""


@dataclass(frozen=True)
class Outcome:
    """What became of one task.

    Attributes:
        rewards: as the verifier gave them; ``None`` is no reward.
        steps: rewards of each step of a multi-step task.
        error: class of the exception or error, empty for none.
        message: its first line, or the reason of a skip.
        skipped: True if it was not run on purpose.
        notes: what was noted beside the reward, by the note's code.
        fault: True for an error of ours that is none of those that we tell people of: no outcome, but a bug.
    """

    rewards: dict[str, float] | None = None
    steps: dict[str, dict[str, float] | None] = field(default_factory=dict)
    error: str = ""
    message: str = ""
    skipped: bool = False
    notes: Mapping[str, str] = field(default_factory=dict)
    fault: bool = False


def run_harbor(tasks: Sequence[Path], agent: str, trials: Path, at_once: int) -> dict[str, Outcome]:
    """Run each task in a Harbor process of its own, as one bad task ends a whole job of Harbor's."""
    setup = subprocess.run(["bash", "scripts/setup_harbor.sh"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    harbor = Path(setup.stdout.decode().strip())
    with ThreadPoolExecutor(at_once) as pool:
        found = pool.map(lambda task: run_one(harbor, task, agent, trials / task.name), tasks)
    return {task.name: outcome for task, outcome in zip(tasks, found, strict=True)}


def run_one(harbor: Path, task: Path, agent: str, jobs: Path) -> Outcome:
    """Run one task in Harbor, or read what an earlier run has kept.

    Args:
        harbor: the folder in which Harbor is installed.
        task: the task's folder.
        agent: ``oracle`` or ``nop``.
        jobs: where Harbor's files go; its output comes last, so a run that was cut off is done again.
    """
    output = jobs / "output.txt"
    if output.exists():
        return harbor_outcome(jobs, output.read_text(encoding="utf-8"))
    shutil.rmtree(jobs, ignore_errors=True)
    command = [str(harbor / "bin/harbor"), "run", "--path", str(task.resolve()), "--agent", agent]
    command += ["--jobs-dir", str(jobs), "-n", "1", "--quiet", "--yes"]
    env = os.environ | {
        "DOCKER_CONFIG": str(harbor / "docker"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # without a network it would wait for these
        "COLUMNS": "400",
    }
    try:
        done = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(error="Timeout", message=f"Harbor did not end within {LIMIT:.0f} s")
    jobs.mkdir(parents=True, exist_ok=True)
    output.write_text(done.stdout + done.stderr, encoding="utf-8")
    return harbor_outcome(jobs, done.stdout + done.stderr)


def harbor_outcome(jobs: Path, output: str) -> Outcome:
    """Return what became of a task from the files that Harbor wrote, else from what it printed."""
    files = list(jobs.glob("*/*/result.json"))
    if not files:
        lines = [line.strip(" │") for line in output.splitlines() if line.strip(" │╭╰╮╯─")]
        named = [line for line in lines if re.match(r"\w+(Error|Exception): ", line)]
        return Outcome(error="NoTrial", message=(named or lines or ["it printed nothing"])[-1])
    return _of_result(json.loads(files[0].read_text(encoding="utf-8")))


def _of_result(result: dict[str, object]) -> Outcome:
    exception = result.get("exception_info") or {}
    assert isinstance(exception, dict)
    steps = result.get("step_results") or []
    assert isinstance(steps, list)
    lines = str(exception.get("exception_message") or "").strip().splitlines()
    return Outcome(
        rewards=_rewards(result.get("verifier_result")),
        steps={str(step["step_name"]): _rewards(step.get("verifier_result")) for step in steps},
        error=str(exception.get("exception_type") or ""),
        message=lines[0] if lines else "",
    )


def _rewards(verifier: object) -> dict[str, float] | None:
    return verifier.get("rewards") if isinstance(verifier, dict) else None


def run_ours(
    folder: Path, tasks: Sequence[Path], agent: str, scratch: Path, at_once: int
) -> dict[str, Outcome]:
    """Run the tasks in one pytest run."""
    output = scratch / "ours"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rlenv={folder.resolve()}"]
    command += ["--agent", agent, "--rlenv-sandbox", "docker", "-n", str(at_once)]
    command += ["--rlenv-output", str(output), "--rlenv-allow-unscored"]
    command += [f"--rlenv-task={task.name}" for task in tasks]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if not (output / "results.jsonl").exists():
        raise SystemExit(f"our run ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    records = [json.loads(line) for line in (output / "results.jsonl").read_text().splitlines()]
    return {record["task"]: our_outcome(record) for record in records}


def our_outcome(record: dict[str, object]) -> Outcome:
    """Return what became of a task from its record."""
    error = record.get("error") or {}
    assert isinstance(error, dict)
    notes = record.get("notes") or []
    assert isinstance(notes, list)
    steps = record.get("steps") or []
    assert isinstance(steps, list)
    rewards = record.get("rewards")
    assert rewards is None or isinstance(rewards, dict)
    kind = str(error.get("type") or "")
    return Outcome(
        rewards=rewards,
        steps={str(step["name"]): step.get("rewards") for step in steps},
        error=kind,
        message=str(error.get("message") or record.get("skip_reason") or ""),
        skipped=record.get("verdict") == "skipped",
        notes={str(note["code"]): str(note["text"]) for note in notes if isinstance(note, dict)},
        fault=bool(kind) and not hasattr(errors, kind),
    )
