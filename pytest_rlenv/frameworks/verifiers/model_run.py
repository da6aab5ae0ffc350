"""A model plays a task in the taskset's own environment; its calls go through the rollout's model server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_rlenv.errors import (
    AgentFailed,
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

if TYPE_CHECKING:
    from pytest_rlenv.frameworks.verifiers.framework import VerifiersTask

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
    if trace is None:  # a budget of ours cut its calls off: nothing is scored after that
        raise AgentFailed(
            "Verifiers scores nothing once a call of the model is refused, and a budget was used up",
            hint="see the notes; --rlenv-max-turns is known to Verifiers, and ends a run that is scored",
        ) from failed
    write_rewards(trace, rollout)
