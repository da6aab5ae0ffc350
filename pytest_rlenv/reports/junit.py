"""JUnit properties of a rollout. Values are text; what there is not is absent, a reward above all."""

from __future__ import annotations

from pytest_rlenv.execution import Judged
from pytest_rlenv.rollout import Rollout, reward_of


def properties(judged: Judged) -> list[tuple[str, str]]:
    """Return the properties in a fixed order."""
    rollout = judged.rollout
    error = rollout.error
    values: dict[str, object | None] = {
        "rlenv.repo": rollout.environment,
        "rlenv.revision": rollout.revision,
        "rlenv.task": rollout.task,
        "rlenv.task_digest": rollout.task_digest,
        "rlenv.framework": rollout.framework,
        "rlenv.agent": rollout.agent,
        "rlenv.agent_version": rollout.agent_version,
        "rlenv.model": rollout.model,
        "rlenv.attempt": rollout.attempt,
        "rlenv.sandbox": rollout.sandbox,
        "rlenv.image": rollout.image,
        "rlenv.verifier": rollout.verifier_level,
        "rlenv.verifier_image": rollout.verifier_image,
        "rlenv.expected": judged.expectation.describe(),
        "rlenv.verdict": judged.verdict.outcome.value,
        "rlenv.reward": rollout.reward,
        "rlenv.error": error.type if error else None,
        "rlenv.error_kind": error.kind.value if error else None,
        "rlenv.error_stage": error.stage.value if error else None,
        "rlenv.logs": rollout.logs,
        "rlenv.seconds": rollout.seconds,
    }
    if error is None:
        values |= {f"rlenv.reward.{key}": value for key, value in (rollout.rewards or {}).items()}
    values |= {f"rlenv.seconds.{stage.value}": seconds for stage, seconds in rollout.stages.items()}
    values |= {f"rlenv.usage.{key}": value for key, value in rollout.usage.items()}
    if rollout.checks is not None:
        values |= {"rlenv.checks.passed": rollout.checks.passed, "rlenv.checks.failed": rollout.checks.failed}
    for step in rollout.steps:
        values[f"rlenv.step.{step.name}"] = reward_of(step.rewards, rollout.reward_key)
    values |= _notes(rollout)
    return [(name, str(value)) for name, value in values.items() if value is not None]


def _notes(rollout: Rollout) -> dict[str, str]:
    """Return notes by code; several of one code are one property, a line each."""
    texts: dict[str, list[str]] = {}
    for note in rollout.notes:
        texts.setdefault(f"rlenv.note.{note.code}", []).append(note.text)
    return {name: "\n".join(lines) for name, lines in texts.items()}
