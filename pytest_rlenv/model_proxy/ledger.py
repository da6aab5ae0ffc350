"""What was called in a rollout, what it took, and the budgets over it. Safe to use from several threads."""

from __future__ import annotations

import contextlib
import json
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from pytest_rlenv.agents.protocol import Stop
from pytest_rlenv.model_proxy.answers import Tokens
from pytest_rlenv.model_proxy.wires import Wire
from pytest_rlenv.secrets import SECRETS
from pytest_rlenv.usage import COST

_KINDS = ("input", "output", "cached")
"""Kinds of tokens, as a line of the log has them."""


class End(str, Enum):
    """How a call ended."""

    GOOD = "good"
    REFUSED = "refused"
    """The model, or its provider's filter, would not answer."""
    CONTEXT = "context"
    """The request is longer than the model's context."""
    BUDGET = "budget"
    """It was not passed on: a budget is used up."""
    INVALID = "invalid"
    """The provider refuses the request as it is, or we do."""
    DENIED = "denied"
    """The provider does not take the key, or there is no credit behind it."""
    NOT_FOUND = "not-found"
    """The provider has no such model, or there is none at this address."""
    BUSY = "busy"
    """The provider's limit of requests is reached."""
    BROKEN = "broken"
    """The provider does not answer, breaks off, or says that something is wrong with it."""
    DIVERGED = "diverged"
    """It is not the request that was recorded."""
    CUT = "cut"
    """The client went away."""


TROUBLE = frozenset({End.DENIED, End.NOT_FOUND, End.BUSY, End.BROKEN, End.DIVERGED})
"""Ends that no agent is to be blamed for."""


@dataclass(frozen=True)
class Call:
    """One call of the model.

    Attributes:
        wire: in which form.
        end: how it ended.
        status: HTTP status of the answer; 0 if there was none.
        tokens: what it took; ``None`` if that is not known.
        cost: US dollars; ``None`` if that is not known.
        seconds: from the request to the last byte of the answer.
        text: what is to be said of an end that is not good.
        asked_for: the model that the client asked for.
        counts: False for a question about the model, which takes no tokens.
        stop: the budget that was used up, where the call was not passed on for one.
        waited: seconds in which nothing had come when the client went away.
    """

    wire: Wire
    end: End
    status: int = 0
    tokens: Tokens | None = None
    cost: float | None = None
    seconds: float = 0.0
    text: str = ""
    asked_for: str = ""
    counts: bool = True
    stop: Stop | None = None
    waited: float = 0.0

    @property
    def answered(self) -> bool:
        """True if the model answered, though it be with a refusal; what was not let through is no answer."""
        return self.end is End.GOOD or (self.end in (End.REFUSED, End.CONTEXT) and self.status < 400)


class UsedUp(NamedTuple):
    """A budget that is used up."""

    stop: Stop
    text: str


@dataclass(frozen=True)
class Budget:
    """What one rollout may take of its model; ``None`` is no limit.

    Attributes:
        turns: calls that were answered.
        tokens: input and output of all calls together.
        cost: US dollars.
    """

    turns: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def used_up(self, usage: Usage) -> UsedUp | None:
        """Return which budget is used up, if one is."""
        if self.turns is not None and usage.answered >= self.turns:
            return UsedUp(
                Stop.TURN_LIMIT,
                f"the limit of {self.turns} calls of the model is reached (--rlenv-max-turns)",
            )
        tokens = usage.input_tokens + usage.output_tokens
        if self.tokens is not None and tokens >= self.tokens:
            return UsedUp(
                Stop.TOKEN_BUDGET,
                f"the budget of {self.tokens} tokens is used up: {tokens} (--rlenv-max-tokens)",
            )
        if self.cost is not None and usage.cost_usd is not None and usage.cost_usd >= self.cost:
            return UsedUp(
                Stop.COST_BUDGET,
                f"the budget of {self.cost:g} USD is used up: {usage.cost_usd:.4f} USD "
                "(--rlenv-max-rollout-cost)",
            )
        return None


@dataclass(frozen=True)
class Usage:
    """What some calls took together.

    Attributes:
        calls: how many there were, but for those that a budget held back.
        answered: those that the model answered.
        uncounted: those that were answered, or broken off by the agent, and did not say what they took.
        cost_usd: US dollars; ``None`` if that is not known of any call.
    """

    calls: int = 0
    answered: int = 0
    uncounted: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None

    @classmethod
    def of(cls, calls: Sequence[Call]) -> Usage:
        """Return what calls took."""
        counted = [call for call in calls if call.counts and call.end is not End.BUDGET]
        tokens = [call.tokens for call in counted if call.tokens is not None]
        costs = [call.cost for call in counted if call.cost is not None]
        answered = [call for call in counted if call.answered]
        return cls(
            calls=len(counted),
            answered=len(answered),
            uncounted=sum(call.tokens is None for call in counted if call.answered or call.end is End.CUT),
            input_tokens=sum(each.input for each in tokens),
            output_tokens=sum(each.output for each in tokens),
            cached_tokens=sum(each.cached for each in tokens),
            cost_usd=math.fsum(costs) if costs else None,
        )

    def as_record(self) -> dict[str, Any]:
        """Return it as a rollout's record has it."""
        found: dict[str, Any] = {
            "model_calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
        }
        return found if self.cost_usd is None else {**found, COST: round(self.cost_usd, 10)}


class Ledger:
    """The calls of one rollout, in the order in which they ended.

    Args:
        log: a file that gets a line for each; ``None`` for none.
    """

    def __init__(self, log: Path | None = None) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._calls: list[Call] = []

    def add(self, call: Call) -> None:
        """Take note of a call that has ended."""
        with self._lock:
            self._calls.append(call)
            if self._log is not None:
                with contextlib.suppress(OSError), self._log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(_line(len(self._calls), call)) + "\n")

    def calls(self, since: int = 0) -> tuple[Call, ...]:
        """Return the calls but for the first ``since``."""
        with self._lock:
            return tuple(self._calls[since:])

    def __len__(self) -> int:
        with self._lock:
            return len(self._calls)


def _line(number: int, call: Call) -> dict[str, Any]:
    tokens = call.tokens
    found: dict[str, Any] = {
        "call": number,
        "wire": call.wire.value,
        "end": call.end.value,
        "status": call.status,
        "seconds": round(call.seconds, 3),
    }
    if tokens is not None:
        amounts = (tokens.input, tokens.output, tokens.cached)
        found |= {f"{kind}_tokens": amount for kind, amount in zip(_KINDS, amounts, strict=True)}
    if call.cost is not None:
        found[COST] = call.cost
    if not call.counts:
        found["counts"] = False
    if call.asked_for:
        found["asked_for"] = call.asked_for
    if call.text:
        found["text"] = SECRETS.redact(call.text)  # now: a process that is killed redacts nothing any more
    return found


def read_calls(log: Path) -> list[Call]:
    """Return the calls that a ledger's log has, less their texts; a line that is torn is left out."""
    found: list[Call] = []
    try:
        lines = log.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return found
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            found.append(_call(json.loads(line)))
    return found


def _call(line: dict[str, Any]) -> Call:
    tokens = Tokens(*(line[f"{kind}_tokens"] for kind in _KINDS)) if "input_tokens" in line else None
    return Call(
        Wire(line["wire"]),
        End(line["end"]),
        line["status"],
        tokens=tokens,
        cost=line.get(COST),
        counts=line.get("counts", True),
    )
