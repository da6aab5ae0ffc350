"""Records of rollouts that left none: the worker died, or the set-up never came to the rollout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_rlenv.agents.loading import agent_names
from pytest_rlenv.arguments import PREFIX
from pytest_rlenv.errors import Kind, RlenvError, Stage, WorkerDied
from pytest_rlenv.execution import Planned
from pytest_rlenv.reports.messages import error_line
from pytest_rlenv.rollout import ErrorInfo, QuarantineInfo, Rollout
from pytest_rlenv.rollout_ids import SEPARATOR, split_levels
from pytest_rlenv.rollout_model import MODEL_CALLS
from pytest_rlenv.rules.quarantine import skip_text
from pytest_rlenv.run import Run
from pytest_rlenv.verdict import Outcome

if TYPE_CHECKING:
    import pytest


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
        attempt=planned.attempt,
        error=error if outcome is Outcome.ERROR else None,
        skip_reason=message if outcome is Outcome.SKIPPED else None,
    )
    return {"node": nodeid, **rollout.as_record(), "verdict": outcome.value, "message": message}


def crash_record(nodeid: str, what: str, run: Run) -> dict[str, Any]:
    """Return the record: all that is known of the rollout is its node id, and what it left in its folder.

    Args:
        nodeid: ``rlenv:ENV::task`` with the agent and the attempt as further levels, or the same below a
            ``*.rlenv.toml`` file.
        what: xdist's words for what happened.
        run: the run as the controller knows it.
    """
    where, task, *levels = nodeid.split(SEPARATOR)
    agent, attempt = split_levels(levels)
    environment = where.removeprefix(PREFIX)
    known = next((found for found in run.environments if found.name == environment), None)
    ref = next((found for found in known.tasks if found.id == task), None) if known else None
    error = WorkerDied(
        f"{what}: its rollout has no result",
        hint="was the process killed for lack of memory, or by a time limit? Its containers are removed",
    )
    name = agent or next(iter(agent_names(run.settings.agent).values()))
    entry = run.rules.quarantine.entry_for(environment, task, name)
    revision = known.revision if known else None
    left = run.unfinished_dirs(environment, revision, task, name, attempt)
    rollout = Rollout(
        environment=environment,
        revision=revision,
        framework=ref.framework if ref else "harbor",
        task=task,
        agent=name,
        attempt=attempt,
        sandbox=_sandbox_name(run),
        error=ErrorInfo.of(error),
        quarantine=entry.info() if entry else None,
        usage=_usage_in(left),
        logs=left[-1].relative_to(run.identity.run_dir).as_posix() if left else None,
    )
    return {
        "node": nodeid,
        **rollout.as_record(),
        "verdict": Outcome.ERROR.value,
        "message": error.message,
    }


def settle_crash(report: pytest.TestReport, record: dict[str, Any]) -> None:
    """Make a killed worker's report the error of its rollout; or a skip, for one in quarantine."""
    report.when = "setup"
    error = ErrorInfo.model_validate(record["error"])
    report.longrepr = error_line(error)
    if held := record["quarantine"]:
        report.outcome = "skipped"
        why = skip_text(QuarantineInfo.model_validate(held), f"error: {report.longrepr}")
        report.longrepr = (report.location[0], 0, f"Skipped: {why}")


def _usage_in(folders: Sequence[Path]) -> dict[str, Any]:
    """Return what the calls of the model took that a killed worker has left in its rollout's folders."""
    from pytest_rlenv.model_proxy.ledger import Usage, read_calls

    calls = [call for folder in folders for call in read_calls(folder / MODEL_CALLS)]
    return Usage.of(calls).as_record() if calls else {}


def _sandbox_name(run: Run) -> str:
    """Return what records call the run's sandbox, as far as this process can tell."""
    try:
        return run.sandbox.name
    except RlenvError:
        return run.settings.sandbox
