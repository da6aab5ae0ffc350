"""How an agent ends: what it reports, or why it ended before it was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pytest_rlenv.sandboxes.model import Completed


@dataclass(frozen=True)
class AgentOutcome:
    """What an agent reports when it ends by itself.

    Attributes:
        exit_code: of the program that it ran, where there is one; not 0 is a note, never a verdict.
        completed: the whole record of that program, where there is one.
        usage: tokens, cost in US dollars, turns: plain JSON values.
        notes: what is worth knowing beside the verdict, by a word with one meaning: ``replay-diverged``.
    """

    exit_code: int | None = None
    completed: Completed | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


class AgentTimedOut(Exception):
    """The agent's time is up. Raised by :meth:`AgentBox.run`; an agent need not catch it.

    Args:
        completed: what the command that was cut short printed, where one was running.
    """

    def __init__(self, completed: Completed | None = None) -> None:
        super().__init__("the agent's time is up")
        self.completed = completed


class Stop(str, Enum):
    """Why an agent ended before it was done. The value is the code of the note in the record."""

    GAVE_UP = "agent-stopped"
    """It says so itself."""
    TURN_LIMIT = "turn-limit"
    TOKEN_BUDGET = "token-budget"
    COST_BUDGET = "cost-budget"
    REFUSAL = "refusal"
    """The model, or its provider's filter, would not answer."""
    CONTEXT_EXCEEDED = "context-exceeded"
    """What there is to say no longer fits into the model's context."""


class AgentStopped(Exception):
    """The agent gave up or was stopped by a limit of its own; the verifier still judges what it did.

    Args:
        reason: one line, such as ``refused`` or ``turn limit of 50 reached``.
        kind: what sort of reason that is.
        outcome: what the agent reports all the same.
    """

    def __init__(
        self, reason: str, kind: Stop = Stop.GAVE_UP, *, outcome: AgentOutcome | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.kind = kind
        self.outcome = outcome
