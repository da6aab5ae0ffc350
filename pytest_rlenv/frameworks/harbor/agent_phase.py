"""The agent's part of a rollout: set-up, run and a look at its logs, each within its limit."""

from __future__ import annotations

from pytest_rlenv.agents.outcomes import check_outcome, check_prepared, clean_notes, clean_usage
from pytest_rlenv.agents.protocol import Agent, AgentContext, AgentTimedOut
from pytest_rlenv.agents.running import GRACE, Escaped, LeftBehind, call_within
from pytest_rlenv.errors import RlenvError, Stage, StageTimeout, Unsupported
from pytest_rlenv.frameworks.agent_endings import act, broke
from pytest_rlenv.rollout import StepRecord
from pytest_rlenv.sandboxes.protocol import Box
from pytest_rlenv.text import text_of
from pytest_rlenv.verdict import number

FINISH_LIMIT = 60.0
"""Seconds for an agent to read its logs."""


def has_own(agent: Agent, method: str) -> bool:
    """Return whether an agent does something in a method that most agents leave as it is."""
    return getattr(getattr(agent, method), "__func__", None) is not getattr(Agent, method)


def prepare_agent(agent: Agent, context: AgentContext, box: Box, limit: float | None) -> None:
    """Let the agent set itself up.

    Raises:
        StageTimeout: it did not finish within ``limit`` seconds.
        AgentFailed: it raised, whatever it was; the agent never ran.
    """
    try:
        returned = call_within(lambda: agent.prepare(context), None if limit is None else limit + GRACE)
    except (AgentTimedOut, LeftBehind):
        context.box.revoke()
        raise StageTimeout(
            f"agent {agent.name}: set-up did not finish within {number(limit or 0)} s",
            stage=Stage.AGENT_SETUP,
        ) from None
    except RlenvError:
        raise
    except Unsupported as lack:
        raise Unsupported(text_of(lack)) from lack
    except Escaped as escaped:
        raise broke(agent, escaped.error, Stage.AGENT_SETUP) from escaped.error
    except Exception as error:
        raise broke(agent, error, Stage.AGENT_SETUP) from error
    check_prepared(returned, agent.name)


def run_agent(agent: Agent, context: AgentContext, box: Box, record: StepRecord, limit: float | None) -> None:
    """Let the agent act, and write how it ended into the record.

    A timed-out agent is dead, with everything that it started, when this returns.

    Raises:
        AgentFailed, SandboxFailed: as :func:`~pytest_rlenv.frameworks.agent_endings.act`.
    """

    def cut_off() -> None:
        context.box.revoke()
        box.quiesce()

    try:
        act(agent, lambda: agent.run(context), record, limit, cut_off=cut_off)
    finally:
        context.box.revoke()


def finish_agent(agent: Agent, context: AgentContext, record: StepRecord) -> None:
    """Let the agent make of its logs what it will; what goes wrong is a note, since all is told already."""
    if not has_own(agent, "finish"):
        return
    try:
        outcome = check_outcome(call_within(lambda: agent.finish(context), FINISH_LIMIT), agent.name)
    except LeftBehind:
        record.note("agent-logs", f"the agent did not read its logs within {number(FINISH_LIMIT)} s")
        return
    except Escaped as escaped:
        record.note("agent-logs", f"the agent raised {text_of(escaped)} over its logs")
        return
    except Exception as error:
        told = f"{type(error).__name__}: {text_of(error)}"
        record.note("agent-logs", f"the agent's logs could not be read: {told}")
        return
    if outcome is not None:
        usage, _ = clean_usage(outcome.usage)
        record.usage = {**usage, **record.usage}
        for code, text in clean_notes(outcome.notes):
            record.note(code, text)
