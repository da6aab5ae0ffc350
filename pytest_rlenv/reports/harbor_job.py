"""A run's rollouts as a job of Harbor 0.26, so that ``harbor view RUN`` shows them.

The job is the folder ``rollouts``; each folder in it is a trial. ``config.json`` is there from the start, so
that the viewer opens a run that goes on or was killed; ``result.json`` is written at the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pytest_rlenv.reports.harbor_trial import job_id, trial_config, trial_outcome, trial_result
from pytest_rlenv.run_folder import RECORD

TOTALS = ("n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd")
"""What Harbor adds up over trials."""


class HarborJob:
    """Leaves a run's rollouts as a job.

    Args:
        folder: the rollouts' folder.
        run: the run's word.
        agents: the agents' words.
        model: what they use, if the user named it.
    """

    def __init__(self, folder: Path, run: str, agents: Sequence[str], model: str | None) -> None:
        self._folder = folder
        self._run = run
        self._agents = agents
        self._model = model
        self._begin = datetime.now(timezone.utc)
        self._stats = _Stats()

    def begin(self) -> None:
        """Leave what the job is. Raises ``OSError``, as all of these do."""
        self._folder.mkdir(parents=True, exist_ok=True)
        agents = [
            {"name": name, **({"model_name": self._model} if self._model else {})} for name in self._agents
        ]
        # its parent's name is the run's, and it is that folder which the viewer is given
        config = {"schema_version": 1, "job_name": self._folder.name, "agents": agents}
        _write(self._folder / "config.json", config)

    def add(self, record: Mapping[str, Any]) -> None:
        """Count a rollout."""
        self._stats.add(record)

    def refresh(self) -> None:
        """There is nothing to be brought up to date."""

    def finish(self) -> None:
        """Leave the numbers over all trials."""
        now = datetime.now(timezone.utc).isoformat()
        result = {
            "schema_version": 1,
            "id": job_id(self._run),
            "started_at": self._begin.isoformat(),
            "updated_at": now,
            "finished_at": now,
            "n_total_trials": self._stats.total,
            "stats": self._stats.as_json(),
        }
        _write(self._folder / "result.json", result)


def leave_trial(folder: Path, record: Mapping[str, Any], run: str) -> None:
    """Leave a rollout's record in its folder: in our form, and as a trial of Harbor's.

    Args:
        folder: the rollout's.
        record: without secrets.
        run: the run's word.

    Raises:
        OSError: it cannot be written.
    """
    _write(folder / RECORD, {"run": run, **record})
    _write(folder / "config.json", trial_config(record, folder.name, run))
    _write(folder / "result.json", trial_result(record, folder, run))


class _Stats:
    """Numbers over trials as Harbor counts them: trials with a valid reward, and exceptions, may overlap."""

    def __init__(self) -> None:
        self.total = 0
        self._errored = 0
        self._retries = 0
        self._evals: dict[str, dict[str, Any]] = {}
        self._rewards: dict[str, list[float]] = {}
        self._used: dict[str, float] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        trial = Path(str(record.get("logs") or record["task"])).name
        found = trial_outcome(record)
        self.total += 1
        self._retries += len(record.get("tries") or ())
        names = [record["agent"], *([record["model"]] if record.get("model") else []), record["environment"]]
        key = "__".join(map(str, names))
        stats = self._evals.setdefault(
            key, {"n_trials": 0, "n_errors": 0, "reward_stats": {}, "exception_stats": {}}
        )
        if found["reward_valid"]:
            stats["n_trials"] += 1
            for name, value in found["verifier_result"]["rewards"].items():
                stats["reward_stats"].setdefault(name, {}).setdefault(str(value), []).append(trial)
            if record.get("reward") is not None:
                self._rewards.setdefault(key, []).append(record["reward"])
        for used in (found["agent_result"], *(step["agent_result"] for step in found["step_results"] or ())):
            for key in TOTALS:
                if used and key in used:
                    self._used[key] = self._used.get(key, 0) + used[key]
        kinds = _exceptions(found)
        for kind in sorted(kinds):
            stats["exception_stats"].setdefault(kind, []).append(trial)
        if kinds:
            stats["n_errors"] += 1
            self._errored += 1

    def as_json(self) -> dict[str, Any]:
        evals = {}
        for key, stats in self._evals.items():
            rewards = self._rewards.get(key)
            metrics = [{"mean": sum(rewards) / len(rewards)}] if rewards else []
            evals[key] = {**stats, "metrics": metrics}
        return {
            "n_completed_trials": self.total,
            "n_errored_trials": self._errored,
            "n_retries": self._retries,
            **self._used,
            "evals": evals,
        }


def _exceptions(trial: Mapping[str, Any]) -> set[str]:
    infos: Iterable[Mapping[str, Any] | None] = (
        trial["exception_info"],
        *(step["exception_info"] for step in trial["step_results"] or ()),
    )
    return {info["exception_type"] for info in infos if info}


def _write(path: Path, data: Mapping[str, Any]) -> None:
    partial = path.with_name(f".{path.name}.part")
    partial.write_text(json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    partial.replace(path)
