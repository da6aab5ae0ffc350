"""How an agent ended and what that means, whatever it acts on: a box, or an episode.

An agent that ran out of time, gave up or exited non-zero is judged by what it did; the reason is a note. An
agent that broke is an error: there is nothing to judge.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from pydantic import JsonValue

from pytest_rlenv.agents.ending import AgentOutcome, AgentStopped, AgentTimedOut, Stop
from pytest_rlenv.agents.outcomes import check_outcome, clean_notes, clean_usage
from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.agents.running import GRACE, Escaped, LeftBehind, call_within
from pytest_rlenv.errors import AgentFailed, RlenvError, Stage, Unsupported
from pytest_rlenv.rollout import CommandRecord, Note
from pytest_rlenv.sandboxes.model import Completed
from pytest_rlenv.text import clean, text_of
from pytest_rlenv.verdict import number

DETAIL_LINES = 15
"""Lines of an agent's traceback that an error keeps."""
SHOWN_PLACES = 5
"""Places in an agent's usage that a note names."""


class ActingRecord(Protocol):
    """Where it is written how an agent acted: the record of a rollout, or of one of its steps."""

    notes: list[Note]
    usage: dict[str, JsonValue]
    agent_command: CommandRecord | None

    def note(self, code: str, text: str) -> None:
        """Add a note."""
        ...


def act(
    agent: Agent,
    call: Callable[[], AgentOutcome | None],
    record: ActingRecord,
    limit: float | None,
    *,
    cut_off: Callable[[], None],
    method: str = "run",
    how: str = "was killed",
) -> None:
    """Let an agent act, and write how it ended into the record.

    Args:
        agent: who.
        call: calls it.
        record: where it is written.
        limit: seconds that it has; ``None`` is no limit.
        cut_off: makes sure that an agent whose time is up changes nothing any more.
        method: of the agent's that is called, for messages.
        how: what becomes of one whose time is up, for the note.

    Raises:
        AgentFailed: it raised something that is neither its time-out nor :class:`AgentStopped`, or returned
            what is no outcome.
        RlenvError, Unsupported: what it acts on raised it.
    """
    try:
        outcome = call_within(call, None if limit is None else limit + GRACE)
    except (AgentTimedOut, LeftBehind) as late:
        cut_off()
        record.note("agent-timeout", f"the agent ran out of time ({number(limit or 0)} s) and {how}")
        completed = getattr(late, "completed", None)
        record.agent_command = (
            record_of(completed) if isinstance(completed, Completed) else CommandRecord(timed_out=True)
        )
    except AgentStopped as stop:
        kind = getattr(stop, "kind", None)
        code = kind.value if isinstance(kind, Stop) else Stop.GAVE_UP.value
        record.note(code, f"the agent stopped: {text_of(getattr(stop, 'reason', stop))}")
        write_outcome(check_outcome(getattr(stop, "outcome", None), agent.name, method), record)
    except RlenvError:
        raise
    except Unsupported as lack:
        raise Unsupported(text_of(lack)) from lack
    except Escaped as escaped:
        raise broke(agent, escaped.error, Stage.AGENT) from escaped.error
    except Exception as error:
        raise broke(agent, error, Stage.AGENT) from error
    else:
        write_outcome(check_outcome(outcome, agent.name, method), record)


def write_outcome(outcome: AgentOutcome | None, record: ActingRecord) -> None:
    """Write what an agent reports into the record, made safe to store."""
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


def broke(agent: Agent, error: BaseException, stage: Stage) -> AgentFailed:
    """Return the error for an agent that raised one, with the lines of its own traceback."""
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


def record_of(completed: Completed) -> CommandRecord:
    """Return the stored form of how a command ended."""
    return CommandRecord(
        exit_code=completed.exit_code,
        timed_out=completed.timed_out,
        seconds=round(completed.seconds, 4),
        output_bytes=completed.output_bytes,
    )


def note_memory(completed: Completed, who: str, record: ActingRecord) -> None:
    """Note that the box ran out of memory, which an exit code hides as often as it shows it."""
    if completed.oom_killed:
        record.note("out-of-memory", f"a process was killed for lack of memory while the {who} ran")


def _own_frames(error: BaseException) -> TracebackType | None:
    """Return the traceback from the agent's own code on: ours says nothing to its author."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__", "").startswith("pytest_rlenv."):
        frames = frames.tb_next
    return frames
