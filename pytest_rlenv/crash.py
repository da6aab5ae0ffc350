"""Records of rollouts that left none: the worker died, or the set-up never came to the rollout."""

from __future__ import annotations

from typing import Any

from pytest_rlenv.arguments import PREFIX
from pytest_rlenv.errors import Kind, RlenvError, Stage, WorkerDied
from pytest_rlenv.execution import Planned
from pytest_rlenv.rollout import ErrorInfo, Rollout
from pytest_rlenv.run import Run
from pytest_rlenv.verdict import Outcome


def unrun_record(planned: Planned, nodeid: str, outcome: Outcome, message: str, kind: str) -> dict[str, Any]:
    """Return the record of a rollout that was not run, or was cut off before it could be recorded.

    Args:
        planned: what was to run.
        nodeid: its item.
        outcome: error or skipped.
        message: why, in a line.
        kind: the class of the exception.
    """
    error = ErrorInfo(type=kind, stage=Stage.WORKER, kind=Kind.INFRA, message=message)
    rollout = Rollout(
        environment=planned.task.environment.name,
        revision=planned.task.environment.revision,
        framework=planned.task.ref.framework,
        task=planned.task.id,
        agent=planned.agent_name,
        error=error if outcome is Outcome.ERROR else None,
        skip_reason=message if outcome is Outcome.SKIPPED else None,
    )
    return {"node": nodeid, **rollout.as_record(), "verdict": outcome.value, "message": message}


def crash_record(nodeid: str, what: str, run: Run) -> dict[str, Any]:
    """Return the record: all that is known of the rollout is its node id.

    Args:
        nodeid: ``rlenv:ENV::task`` or ``rlenv:ENV::task::agent``, or the same below a ``*.rlenv.toml`` file.
        what: xdist's words for what happened.
        run: the run as the controller knows it.
    """
    where, task, *agent = nodeid.split("::")
    environment = where.removeprefix(PREFIX)
    known = next((found for found in run.environments if found.name == environment), None)
    ref = next((found for found in known.tasks if found.id == task), None) if known else None
    error = WorkerDied(
        f"{what}: its rollout has no result",
        hint="was the process killed for lack of memory, or by a time limit? Its containers are removed",
    )
    rollout = Rollout(
        environment=environment,
        revision=known.revision if known else None,
        framework=ref.framework if ref else "harbor",
        task=task,
        agent=agent[0] if agent else run.settings.agent[0],
        sandbox=_sandbox_name(run),
        error=ErrorInfo.of(error),
    )
    return {
        "node": nodeid,
        **rollout.as_record(),
        "verdict": Outcome.ERROR.value,
        "message": error.message,
    }


def _sandbox_name(run: Run) -> str:
    """Return what records call the run's sandbox, as far as this process can tell."""
    try:
        return run.sandbox.name
    except RlenvError:
        return run.settings.sandbox
