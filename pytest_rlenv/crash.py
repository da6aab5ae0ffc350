"""The record of a rollout whose worker process died under it."""

from __future__ import annotations

from typing import Any

from pytest_rlenv.arguments import PREFIX
from pytest_rlenv.errors import WorkerDied
from pytest_rlenv.rollout import ErrorInfo, Rollout
from pytest_rlenv.run import Run
from pytest_rlenv.verdict import Outcome


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
        sandbox=run.settings.sandbox,
        error=ErrorInfo.of(error),
    )
    return {
        "node": nodeid,
        **rollout.as_record(),
        "verdict": Outcome.ERROR.value,
        "message": error.message,
    }
