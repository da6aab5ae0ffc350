"""A stored rollout in Harbor's terms; that Harbor reads it so is tested with Harbor itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_rlenv.reports.harbor_job import HarborJob, leave_trial
from pytest_rlenv.reports.harbor_trial import trial_result

ERROR = {
    "type": "SandboxFailed",
    "stage": "start",
    "kind": "infra",
    "message": "gone",
    "hint": "",
    "detail": "",
}


def record(**fields: Any) -> dict[str, Any]:
    return {
        "node": "rlenv:org/repo::fix-it",
        "environment": "org/repo",
        "task": "fix-it",
        "agent": "oracle",
        "verdict": "passed",
        "outcome": "passed",
        "rewards": {"reward": 1.0},
        "reward": 1.0,
        "seconds": 3.5,
        "started_at": "2026-01-02T03:04:05Z",
        "logs": "rollouts/fix-it__0",
        **fields,
    }


def trial(**fields: Any) -> dict[str, Any]:
    return trial_result(record(**fields), Path("/runs/x/rollouts/fix-it__0"), "word")


@pytest.mark.parametrize(
    ("fields", "kind", "valid", "retry"),
    [
        ({}, None, True, None),
        ({"error": ERROR, "reward": None}, "SandboxFailed", False, True),
        (
            {"error": {**ERROR, "kind": "task"}, "rewards": None, "reward": None},
            "SandboxFailed",
            False,
            False,
        ),
        (
            {"rewards": None, "reward": None, "verdict": "skipped", "message": "no GPU"},
            "RolloutSkipped",
            False,
            False,
        ),
        ({"notes": [{"code": "agent-timeout", "text": "60 s"}]}, "AgentTimeoutError", True, False),
        ({"notes": [{"code": "agent-exit", "text": "exited 3"}]}, "NonZeroAgentExitCodeError", True, False),
        ({"notes": [{"code": "task-warning", "text": "odd"}]}, None, True, None),
    ],
)
def test_a_reward_is_valid_or_there_is_an_exception_that_says_it_is_none(
    fields: dict[str, Any], kind: str | None, valid: bool, retry: bool | None
) -> None:
    found = trial(**fields)
    assert found["reward_valid"] is valid
    assert (found["verifier_result"] is not None) is valid
    info = found["exception_info"]
    if kind is None:
        assert info is None
    else:
        assert info["exception_type"] == kind
        assert info["policy_override"]["has_valid_reward"] is valid
        assert info["policy_override"]["should_retry"] is retry


def test_the_phases_follow_upon_each_other() -> None:
    found = trial(stages={"load": 0.5, "build": 1.0, "agent": 1.0, "collect": 0.25, "verify": 0.5})
    assert found["environment_setup"] == {
        "started_at": "2026-01-02T03:04:05+00:00",
        "finished_at": "2026-01-02T03:04:06.500000+00:00",
    }
    assert found["agent_setup"] is None
    assert found["agent_execution"]["started_at"] == "2026-01-02T03:04:06.500000+00:00"
    assert found["verifier"]["started_at"] == "2026-01-02T03:04:07.750000+00:00"
    assert found["finished_at"] == "2026-01-02T03:04:08.500000+00:00"


def test_a_task_of_the_hub_is_one_of_a_git_repository() -> None:
    found = trial(revision="0123abcd", model="vendor/m-1", verifier_level="separate")
    assert found["task_id"] == {
        "git_url": "https://huggingface.co/datasets/org/repo",
        "git_commit_id": "0123abcd",
        "path": "fix-it",
    }
    assert found["agent_info"]["model_info"] == {"name": "m-1", "provider": "vendor"}
    assert found["verifier_environment_mode"] == "separate"
    assert trial()["task_id"] == {"path": "org/repo/fix-it"}


def test_what_an_agent_used_is_what_harbor_calls_it() -> None:
    usage = {"input_tokens": 100, "completion_tokens": 20, "cost_usd": 0.5, "turns": 3, "cache_tokens": True}
    assert trial(usage=usage)["agent_result"] == {
        "n_input_tokens": 100,
        "n_output_tokens": 20,
        "cost_usd": 0.5,
        "metadata": usage,
    }


def test_a_job_adds_up_its_trials(tmp_path: Path) -> None:
    job = HarborJob(tmp_path / "rollouts", "word", ["oracle"], "vendor/m")
    job.begin()
    config = json.loads((tmp_path / "rollouts/config.json").read_text())
    assert config["agents"] == [{"name": "oracle", "model_name": "vendor/m"}]
    job.add(record(usage={"cost_usd": 0.5}))
    job.add(record(usage={"cost_usd": 0.25}, rewards={"reward": 0.0}, reward=0.0, logs="rollouts/other"))
    job.add(record(error=ERROR, reward=None, tries=[{"error": ERROR}], logs=None))
    job.finish()
    stats = json.loads((tmp_path / "rollouts/result.json").read_text())["stats"]
    assert (stats["n_completed_trials"], stats["n_errored_trials"], stats["n_retries"]) == (3, 1, 1)
    assert stats["cost_usd"] == 0.75
    (numbers,) = stats["evals"].values()
    assert numbers["metrics"] == [{"mean": 0.5}]
    assert numbers["reward_stats"] == {"reward": {"1.0": ["fix-it__0"], "0.0": ["other"]}}
    assert numbers["exception_stats"] == {"SandboxFailed": ["fix-it"]}


def test_a_rollouts_folder_has_both_forms(tmp_path: Path) -> None:
    leave_trial(tmp_path, record(), "word")
    assert json.loads((tmp_path / "rlenv.json").read_text()) == {"run": "word", **record()}
    assert json.loads((tmp_path / "result.json").read_text())["trial_name"] == tmp_path.name
    assert {path.name for path in tmp_path.iterdir()} == {"rlenv.json", "result.json", "config.json"}
