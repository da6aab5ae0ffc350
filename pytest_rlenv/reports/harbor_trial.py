"""A stored rollout as a trial of Harbor 0.26: what its viewer and its analysers read from ``result.json``.

A trial without a reward has an ``exception_info`` in its place, of a policy that says that there is none: no
reader can take it for a 0.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_rlenv.reports.junit_case import full_text, one_line

Record = Mapping[str, Any]

_NAMESPACE = uuid.UUID("4f0d62f7-5d3a-4d0e-9d43-3f7f6a1c2b5e")
_HUB = "https://huggingface.co/"
_NOTES = {"agent-timeout": "AgentTimeoutError", "agent-exit": "NonZeroAgentExitCodeError"}
"""Notes that are exceptions to Harbor, ones with which a reward is valid."""
_PHASES = {
    "environment_setup": ("load", "build", "start", "healthcheck"),
    "agent_setup": ("agent_setup",),
    "agent_execution": ("agent",),
    "collect": ("collect",),
    "verifier": ("verify",),
}
"""Harbor's phases in their order, and which stages each is made of."""
_USAGE = {
    "n_input_tokens": ("n_input_tokens", "input_tokens", "prompt_tokens"),
    "n_cache_tokens": ("n_cache_tokens", "cache_tokens", "cached_tokens"),
    "n_output_tokens": ("n_output_tokens", "output_tokens", "completion_tokens"),
    "cost_usd": ("cost_usd",),
}


@lru_cache(maxsize=8)
def job_id(run: str) -> str:
    """Return the id of a run as a job of Harbor's."""
    return str(uuid.uuid5(_NAMESPACE, run))


def trial_config(record: Record, trial: str, run: str) -> dict[str, Any]:
    """Return what Harbor would have been asked for.

    Args:
        record: a rollout's.
        trial: the name of its folder.
        run: the run's word.
    """
    agent = {"name": record["agent"], "model_name": record.get("model")}
    return {
        "schema_version": 1,
        "task": _task(record),
        "trial_name": trial,
        "agent": {key: value for key, value in agent.items() if value},
        "job_id": job_id(run),
    }


def trial_result(record: Record, folder: Path, run: str) -> dict[str, Any]:
    """Return the trial.

    Args:
        record: a rollout's.
        folder: its folder, which is the trial's.
        run: the run's word.
    """
    config = trial_config(record, folder.name, run)
    task = config["task"]
    phases = _timings(record)
    steps = record.get("steps") or ()
    return {
        **trial_outcome(record),
        "schema_version": 1,
        "id": str(uuid.uuid5(_NAMESPACE, f"{run} {record['node']} {folder.name}")),
        "task_name": record["task"],
        "trial_name": folder.name,
        "trial_uri": folder.resolve().as_uri(),
        "task_id": {key: value for key, value in task.items() if key != "source"},
        "source": record["environment"],
        "task_checksum": record.get("task_digest") or "",
        "config": config,
        "agent_info": {
            "name": record["agent"],
            "version": record.get("agent_version") or "unknown",
            "model_info": _model(record.get("model")),
        },
        "verifier_environment_mode": None if steps else _mode(record),
        "started_at": record.get("started_at"),
        "finished_at": _finished(record),
        "environment_setup": phases["environment_setup"],
        "agent_setup": phases["agent_setup"],
        "agent_execution": None if steps else phases["agent_execution"],
        "verifier": None if steps else phases["verifier"],
    }


def trial_outcome(record: Record) -> dict[str, Any]:
    """Return what of a trial goes into the numbers over all of them."""
    steps = record.get("steps") or ()
    rewards = _rewards(record)
    return {
        "agent_result": None if steps else _usage(record),
        "verifier_result": rewards,
        "exception_info": _exception(record),
        "step_results": [_step(step, record) for step in steps] or None,
        "reward_valid": rewards is not None,
    }


def _task(record: Record) -> dict[str, Any]:
    name, revision = str(record["environment"]), record.get("revision")
    if revision:
        git = {"git_url": _address(name), "git_commit_id": revision, "path": record["task"]}
        return {**git, "source": name}
    return {"path": f"{name}/{record['task']}", "source": name}


def _address(name: str) -> str:
    return f"{_HUB}{name}" if name.startswith("spaces/") else f"{_HUB}datasets/{name}"


def _model(model: str | None) -> dict[str, Any] | None:
    if not model:
        return None
    provider, slash, name = model.partition("/")
    return {"name": name, "provider": provider} if slash else {"name": model, "provider": None}


def _rewards(record: Record) -> dict[str, Any] | None:
    rewards = record.get("rewards")
    return {"rewards": rewards} if rewards and not record.get("error") else None


def _mode(record: Record) -> str | None:
    level = record.get("verifier_level")
    return None if not level else "separate" if level == "separate" else "shared"


def _exception(record: Record) -> dict[str, Any] | None:
    error = record.get("error")
    if error:
        return _info(
            error["type"], one_line(record), full_text(record), record, retry=error["kind"] == "infra"
        )
    if _rewards(record) is None:
        return _info("RolloutSkipped", one_line(record), "", record, retry=False)
    return _noted(record.get("notes") or (), record)


def _noted(notes: Iterable[Mapping[str, Any]], record: Record) -> dict[str, Any] | None:
    for note in notes:
        if name := _NOTES.get(note["code"]):
            return _info(name, note["text"], "", record, retry=False, valid=True)
    return None


def _info(
    name: str, message: str, trace: str, record: Record, *, retry: bool, valid: bool = False
) -> dict[str, Any]:
    policy = {"should_retry": retry, "should_grade": valid, "has_valid_reward": valid}
    return {
        "exception_type": name,
        "exception_message": message,
        "exception_traceback": trace,
        "occurred_at": _finished(record) or record.get("started_at"),
        "policy_override": policy,
        "policy": policy,
    }


def _usage(record: Record) -> dict[str, Any] | None:
    usage = record.get("usage") or {}
    if not usage:
        return None
    found: dict[str, Any] = {}
    for field, names in _USAGE.items():
        value = next((usage[name] for name in names if _is_amount(usage.get(name))), None)
        if value is not None:
            found[field] = float(value) if field == "cost_usd" else int(value)
    return {**found, "metadata": dict(usage)}


def _is_amount(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _step(step: Record, record: Record) -> dict[str, Any]:
    error = step.get("error")
    rewards = step.get("rewards")
    exception = None
    if error:
        message = f"{error['type']} [{error['stage']}]: {error['message']}"
        exception = _info(
            error["type"], message, error.get("detail", ""), record, retry=error["kind"] == "infra"
        )
    return {
        "step_name": step["name"],
        "agent_result": _usage(step),
        "verifier_result": {"rewards": rewards} if rewards and not error else None,
        "exception_info": exception or _noted(step.get("notes") or (), record),
    }


def _timings(record: Record) -> dict[str, dict[str, str] | None]:
    """Return when each phase began and ended, as if one followed upon the other: only lengths are known."""
    stages = record.get("stages") or {}
    moment = _time(record.get("started_at"))
    found: dict[str, dict[str, str] | None] = dict.fromkeys(_PHASES)
    for phase, parts in _PHASES.items():
        if moment is None or not any(part in stages for part in parts):
            continue
        end = moment + timedelta(seconds=sum(stages.get(part, 0.0) for part in parts))
        found[phase] = {"started_at": moment.isoformat(), "finished_at": end.isoformat()}
        moment = end
    return found


def _finished(record: Record) -> str | None:
    moment = _time(record.get("started_at"))
    seconds = float(record.get("seconds") or 0.0)
    return None if moment is None else (moment + timedelta(seconds=seconds)).isoformat()


def _time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")) if isinstance(text, str) else None
    except ValueError:
        return None
