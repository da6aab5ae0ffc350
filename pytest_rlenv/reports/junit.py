"""JUnit properties of a rollout. Values are text; what there is not is absent, a reward above all."""

from __future__ import annotations

from pytest_rlenv.execution import Judged


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
    values |= {f"rlenv.note.{note.code}": note.text for note in rollout.notes}
    return [(name, str(value)) for name, value in values.items() if value is not None]
