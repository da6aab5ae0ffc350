"""The model while an agent acts: it answers then and only then, and its calls say how the agent ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_rlenv.agents.protocol import Agent, Stop
from pytest_rlenv.errors import (
    AgentFailed,
    ModelAccessDenied,
    ModelNotFound,
    ModelRequestInvalid,
    ModelUnavailable,
)
from pytest_rlenv.frameworks.agent_endings import ActingRecord

if TYPE_CHECKING:
    from pytest_rlenv.model_proxy.endings import Turn
    from pytest_rlenv.model_proxy.proxy import ModelProxy

_STOPS = frozenset(stop.value for stop in Stop)
_OF_THE_AGENT = (AgentFailed, ModelAccessDenied, ModelNotFound, ModelRequestInvalid, ModelUnavailable)


@contextmanager
def answering(
    model: ModelProxy | None, agent: Agent, record: ActingRecord, *, public: bool
) -> Iterator[None]:
    """Let the model answer while an agent acts, and write what it took into the record.

    Args:
        model: its server; ``None`` for an agent that has none.
        agent: who acts.
        record: where it is written.
        public: True if the agent's network is the whole world.

    Raises:
        ModelUnavailable, ModelAccessDenied, ModelNotFound, ModelRequestInvalid, ReplayDiverged: the agent had
            no chance. AgentFailed: it never called its model.
    """
    if model is None:
        yield
        return
    model.begin(hosted_tools=public)
    failed: Exception | None = None
    try:
        yield
    except _OF_THE_AGENT as error:
        failed = error
    finally:
        model.end()
        turn = model.take_turn()
        if turn.all:  # what was counted is truer than what an agent says of itself
            record.usage = {**record.usage, **turn.usage.as_record()}
        for code, text in turn.notes():
            record.note(code, text)
    _judge(turn, agent, record, failed)


def _judge(turn: Turn, agent: Agent, record: ActingRecord, failed: Exception | None) -> None:
    failure = turn.failure(agent.name)
    if failure is not None:
        raise failure from failed
    stop = turn.stop()
    if stop is not None:
        # an agent may know by itself, or break over it: either way it is judged by what it did
        if not any(note.code == stop.stop.value for note in record.notes):
            record.note(stop.stop.value, stop.text)
        return
    if failed is not None:
        raise failed
    # an agent that is only offered a model, as any command is, may do without; so may one that gave up
    gave_up = any(note.code in _STOPS for note in record.notes)
    if not turn.all and type(agent).needs_model and not gave_up:
        raise AgentFailed(
            f"agent {agent.name} ended without having called its model, so it never ran",
            hint="see its logs: does it use the endpoint's address and key?",
        )
