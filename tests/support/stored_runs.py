"""Stored runs, made for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_rlenv.reports.stored import StoredRun


def record(task: str, reward: float | None = 1.0, **fields: Any) -> dict[str, Any]:
    """Return a rollout's record: of a reward of ``None`` it is an error."""
    agent, attempt = fields.get("agent", "oracle"), fields.get("attempt", 1)
    verdict = "error" if reward is None else "passed" if reward >= 1 else "failed"
    made = {
        "run": "before",
        "node": f"rlenv:org/repo::{task}::{agent}::{attempt}",
        "schema_version": 1,
        "environment": "org/repo",
        "framework": "harbor",
        "task": task,
        "task_digest": f"sha256:{task}",
        "agent": agent,
        "attempt": attempt,
        "sandbox": "docker",
        "verdict": verdict,
        "reward": reward,
        "rewards": None if reward is None else {"reward": reward},
        "expected": ">= 1.0",
        "expected_by": "default",
        "message": "",
        "seconds": 1.0,
        "outcome": verdict,
    }
    if reward is None:
        made["error"] = {"type": "RewardMissing", "stage": "verify", "kind": "task", "message": "no reward"}
    return made | fields


def run_of(*records: dict[str, Any], **facts: Any) -> StoredRun:
    return StoredRun(None, facts, list(records))


def rewards(values: Sequence[float | None], **fields: Any) -> StoredRun:
    """Return a run of one rollout for each reward."""
    return run_of(*(record(f"task-{i:03}", value, **fields) for i, value in enumerate(values)))


def write_run(folder: Path, run: StoredRun, **facts: Any) -> Path:
    """Write a run as it is stored and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(each) + "\n" for each in run.records)
    (folder / "results.jsonl").write_text(lines)
    stored = {"schema_version": 1, "run": folder.name, "pytest_rlenv": "0.0", "settings": {}}
    (folder / "run.json").write_text(json.dumps(stored | run.facts | facts))
    return folder
