"""A model plays a task in the taskset's own environment; its calls go through the rollout's model server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_rlenv.agents.ending import Stop
from pytest_rlenv.errors import (
    AgentFailed,
    BudgetExceeded,
    ModelAccessDenied,
    ModelNotFound,
    ModelRequestInvalid,
    ModelUnavailable,
    RlenvError,
    Stage,
)
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.model_phase import answering
from pytest_rlenv.frameworks.verifiers.limits import kill_after
from pytest_rlenv.frameworks.verifiers.outcome import Trace, choose_trace, write_rewards, write_times
from pytest_rlenv.frameworks.verifiers.process import TasksetProcess
from pytest_rlenv.frameworks.verifiers.trajectory import leave_trajectory
from pytest_rlenv.rollout import Rollout

if TYPE_CHECKING:
    from pytest_rlenv.frameworks.verifiers.framework import VerifiersTask

_STOPS = frozenset(stop.value for stop in Stop)
_BUDGETS = frozenset(stop.value for stop in (Stop.TURN_LIMIT, Stop.TOKEN_BUDGET, Stop.COST_BUDGET))
_MODEL = (AgentFailed, ModelAccessDenied, ModelNotFound, ModelRequestInvalid, ModelUnavailable)


def run_model(task: VerifiersTask, context: RolloutContext, process: TasksetProcess) -> None:
    """Play one episode, and write its rewards into the record.

    Raises:
        RlenvError: there is no reward.
    """
    model, settings, rollout = context.model, context.settings, context.rollout
    assert model is not None  # the agent needs one
    process.expect_containers()  # a harness may want one though the task does not
    model.open_here()
    endpoint = model.endpoint(from_box=False)
    request = {
        **task.request(context),
        "model": {"url": endpoint.openai_base_url, "key": endpoint.key, "name": endpoint.model},
        "sampling": {},
        "harness": settings.verifiers_harness,
        "seat": settings.verifiers_seat,
        "max_turns": settings.max_turns,
        "budgets": any(
            each is not None for each in (settings.max_turns, settings.max_tokens, settings.max_rollout_cost)
        ),
    }
    failed: RlenvError | None = None
    trace: Trace | None = None
    with answering(model, context.agent, rollout, public=True):
        answer = process.ask(
            "run", request, limit=kill_after(request["limits"], several=True), stage=Stage.AGENT
        )
        task.describe(answer["runtime"], context, process)
        for each in answer["traces"]:
            write_times(each, rollout)
        leave_trajectory(context.folder, context.agent.name, answer["seat"])
        try:
            trace = choose_trace(answer, answer["seat"], rollout)
        except _MODEL as error:  # the model's server knows better whose fault that is
            failed = error
            raise
    if trace is None:
        raise _not_scored(rollout) from failed
    write_rewards(trace, rollout)


def _not_scored(rollout: Rollout) -> RlenvError:
    """Return the error for an agent that a limit ended in such a way that Verifiers did not score it.

    Its calls say which limit that was: the note of it has been written.
    """
    stop = next(note for note in reversed(rollout.notes) if note.code in _STOPS)
    message = f"{stop.text}; Verifiers scored nothing, as a call was refused"
    if stop.code in _BUDGETS:
        return BudgetExceeded(
            message, hint="a budget ends a run that is scored where its agents ask one thing at a time"
        )
    return AgentFailed(message, hint="the harness broke over it; another one may end by itself")
