"""The agent's part of a rollout: set-up and run, each within its limit, and what its end means.

An agent that ran out of time, gave up or exited non-zero is judged by what it did; the reason is a note. An
agent that broke is an error: there is nothing to judge.
"""

from __future__ import annotations

import traceback
from types import TracebackType

from pytest_rlenv.agents.outcomes import check_outcome, check_prepared, clean_notes, clean_usage
from pytest_rlenv.agents.protocol import (
    Agent,
    AgentContext,
    AgentOutcome,
    AgentStopped,
    AgentTimedOut,
    Stop,
)
from pytest_rlenv.agents.running import GRACE, Escaped, LeftBehind, call_within
from pytest_rlenv.errors import AgentFailed, RlenvError, Stage, StageTimeout, Unsupported
from pytest_rlenv.rollout import CommandRecord, StepRecord
from pytest_rlenv.sandboxes.model import Completed
from pytest_rlenv.sandboxes.protocol import Box
from pytest_rlenv.text import clean, text_of
from pytest_rlenv.verdict import number

DETAIL_LINES = 15
"""Lines of an agent's traceback that an error keeps."""
FINISH_LIMIT = 60.0
"""Seconds for an agent to read its logs."""
SHOWN_PLACES = 5
"""Places in an agent's usage that a note names."""


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
        raise _broke(agent, escaped.error, Stage.AGENT_SETUP) from escaped.error
    except Exception as error:
        raise _broke(agent, error, Stage.AGENT_SETUP) from error
    check_prepared(returned, agent.name)


def run_agent(agent: Agent, context: AgentContext, box: Box, record: StepRecord, limit: float | None) -> None:
    """Let the agent act, and write how it ended into the record.

    A timed-out agent is dead, with everything that it started, when this returns.

    Raises:
        AgentFailed: it raised something that is neither its time-out nor :class:`AgentStopped`, or returned
            what is no outcome.
        SandboxFailed: the box died meanwhile.
    """
    try:
        outcome = call_within(lambda: agent.run(context), None if limit is None else limit + GRACE)
    except (AgentTimedOut, LeftBehind) as late:
        context.box.revoke()
        box.quiesce()
        record.note("agent-timeout", f"the agent ran out of time ({number(limit or 0)} s) and was killed")
        completed = getattr(late, "completed", None)
        record.agent_command = (
            record_of(completed) if isinstance(completed, Completed) else CommandRecord(timed_out=True)
        )
    except AgentStopped as stop:
        kind = getattr(stop, "kind", None)
        code = kind.value if isinstance(kind, Stop) else Stop.GAVE_UP.value
        record.note(code, f"the agent stopped: {text_of(getattr(stop, 'reason', stop))}")
        _write_outcome(check_outcome(getattr(stop, "outcome", None), agent.name), record)
    except RlenvError:
        raise
    except Unsupported as lack:
        raise Unsupported(text_of(lack)) from lack
    except Escaped as escaped:
        raise _broke(agent, escaped.error, Stage.AGENT) from escaped.error
    except Exception as error:
        raise _broke(agent, error, Stage.AGENT) from error
    else:
        _write_outcome(check_outcome(outcome, agent.name), record)
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


def record_of(completed: Completed) -> CommandRecord:
    """Return the stored form of how a command ended."""
    return CommandRecord(
        exit_code=completed.exit_code,
        timed_out=completed.timed_out,
        seconds=round(completed.seconds, 4),
        output_bytes=completed.output_bytes,
    )


def note_memory(completed: Completed, who: str, record: StepRecord) -> None:
    """Note that the box ran out of memory, which an exit code hides as often as it shows it."""
    if completed.oom_killed:
        record.note("out-of-memory", f"a process was killed for lack of memory while the {who} ran")


def _write_outcome(outcome: AgentOutcome | None, record: StepRecord) -> None:
    if outcome is None:
        return
    record.usage, changed = clean_usage(outcome.usage)
    if changed:
        more = f" and {len(changed) - SHOWN_PLACES} more" if len(changed) > SHOWN_PLACES else ""
        shown = ", ".join(changed[:SHOWN_PLACES])
        record.note("usage-cleaned", f"not plain JSON in the agent's usage, kept as text: {shown}{more}")
    for code, text in clean_notes(outcome.notes):
        record.note(code, text)
    if outcome.completed is not None:
        record.agent_command = record_of(outcome.completed)
        note_memory(outcome.completed, "agent", record)
    elif outcome.exit_code is not None:
        record.agent_command = CommandRecord(exit_code=int(outcome.exit_code))
    if outcome.exit_code:
        record.note("agent-exit", f"the agent exited {outcome.exit_code}")


def _own_frames(error: BaseException) -> TracebackType | None:
    """Return the traceback from the agent's own code on: ours says nothing to its author."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__", "").startswith("pytest_rlenv."):
        frames = frames.tb_next
    return frames


def _broke(agent: Agent, error: BaseException, stage: Stage) -> AgentFailed:
    try:
        told = "".join(traceback.format_exception(error.with_traceback(_own_frames(error))))
    except Exception:  # an exception whose own methods are broken cannot be shown
        told = ""
    lines = clean(told).rstrip().splitlines()
    return AgentFailed(
        f"agent {agent.name} raised {type(error).__name__}: {text_of(error)}",
        hint="raise AgentStopped to end early and be judged",
        detail="\n".join(lines[-DETAIL_LINES:]),
        stage=stage,
    )
