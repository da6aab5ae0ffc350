"""Write the folder of a run as runs leave it: records, facts, and the folders of rollouts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FACTS: dict[str, Any] = {
    "schema_version": 1,
    "run": "4f1c09d2ab77",
    "started_at": "2026-11-02T13:03:11.000+00:00",
    "finished_at": "2026-11-02T13:15:44.000+00:00",
    "pytest_rlenv": "0.1.0",
    "settings": {"repos": ["org/repo"], "agent": ["oracle"], "threshold": 1.0, "allow_unscored": False},
    "machine": {"platform": "Linux-6.1-x86_64", "architecture": "x86_64", "python": "3.11.7", "cpus": "2"},
    "sandbox": "docker (engine 28.2 at unix:///var/run/docker.sock)",
    "exit_code": 1,
    "environments": [{"name": "org/repo", "revision": COMMIT}],
}
STAGES = {"load": 0.01, "build": 2.5, "start": 0.4, "agent": 12.0, "verify": 3.0, "collect": 0.1, "stop": 0.2}


def passed(task: str, *, agent: str = "oracle", attempt: int = 1, **fields: Any) -> dict[str, Any]:
    """Return the record of a rollout that passed, unless the fields say otherwise."""
    reward = fields.pop("reward", 1.0)
    found: dict[str, Any] = {
        "run": FACTS["run"],
        "node": f"rlenv:org/repo::{task}::{agent}::{attempt}",
        "worker": "main",
        "schema_version": 1,
        "environment": "org/repo",
        "revision": COMMIT,
        "framework": "harbor",
        "task": task,
        "task_digest": "sha256:38fbfe90",
        "agent": agent,
        "agent_version": "0.1.0",
        "model": None,
        "attempt": attempt,
        "sandbox": "docker",
        "rewards": None if reward is None else {"reward": reward},
        "reward": reward,
        "error": None,
        "notes": [],
        "stages": STAGES,
        "seconds": 18.21,
        "started_at": "2026-11-02T13:03:12.000+00:00",
        "usage": {},
        "steps": [],
        "tries": [],
        "logs": f"rollouts/{task}__{agent}{attempt}",
        "verdict": "passed",
        "message": "",
        "expected": ">= 1.0",
        "expected_by": "threshold",
        "outcome": "passed",
    }
    return found | fields


def failed(task: str, reward: float = 0.4, **fields: Any) -> dict[str, Any]:
    """Return the record of a rollout whose reward is too low."""
    said = {"verdict": "failed", "outcome": "failed", "message": f"reward {reward} < 1.0"}
    return passed(task, reward=reward, **(said | fields))


def broken(task: str, **fields: Any) -> dict[str, Any]:
    """Return the record of a rollout without a reward."""
    error = {
        "type": "RewardMissing",
        "stage": "verify",
        "kind": "task",
        "message": "no reward: the verifier left neither reward.txt nor reward.json in /logs/verifier",
        "hint": "the verifier exited 1; see its output",
        "detail": "E   AssertionError: no such column: total",
    } | fields.pop("error", {})
    said = {"verdict": "error", "outcome": "error", "message": error["message"], "error": error}
    return passed(task, reward=None, **(said | fields))


def write_run(folder: Path, records: Iterable[Mapping[str, Any]], facts: Mapping[str, Any] = FACTS) -> Path:
    """Write a run's folder and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(facts))
    with (folder / "results.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(each) + "\n" for each in records)
    return folder


def leave(run: Path, of: Mapping[str, Any], files: Mapping[str, str | bytes]) -> Path:
    """Write files into the folder of a rollout and return it."""
    folder = run / str(of["logs"])
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder
