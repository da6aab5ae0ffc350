"""What a program's own log tells of it, gathered step by step into an ATIF document.

A log is a stranger's text, and may be cut off: what does not fit is left out, and nothing raises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal

from pytest_rlenv.text import clean
from pytest_rlenv.trajectory.model import (
    WRITTEN,
    AgentInfo,
    FinalMetrics,
    Metrics,
    Observation,
    Result,
    Step,
    ToolCall,
    Trajectory,
)
from pytest_rlenv.trajectory.writing import totals

_MILLISECONDS = 1e11
"""From this number on, a time is one in milliseconds since 1970, not in seconds."""

_TOTALS = {
    "input_tokens": "total_prompt_tokens",
    "output_tokens": "total_completion_tokens",
    "cached_tokens": "total_cached_tokens",
    "cost_usd": "total_cost_usd",
}
"""Keys of an agent's usage, and what they are called in a trajectory."""


@dataclass
class _Draft:
    source: Literal["system", "user", "agent"]
    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    metrics: Metrics | None = None
    model: str | None = None
    at: str | None = None

    def step(self, number: int) -> Step:
        return Step(
            step_id=number,
            source=self.source,
            timestamp=self.at,
            message="\n\n".join(self.texts),
            model_name=self.model,
            reasoning_content="\n\n".join(self.reasoning) or None,
            tool_calls=self.calls or None,
            observation=Observation(results=self.results) if self.results else None,
            metrics=self.metrics,
        )


class Transcript:
    """Steps as they are read.

    Attributes:
        session: the program's own word for its session, where it has one.
        usage: what the program says that all of it has used, by the keys of an agent's usage.
        errors: what the program says went wrong, one line each.
    """

    def __init__(self) -> None:
        self.session = ""
        self.usage: dict[str, int | float] = {}
        self.errors: list[str] = []
        self._drafts: list[_Draft] = []

    @property
    def is_empty(self) -> bool:
        """True if there is no step yet."""
        return not self._drafts

    @property
    def has_agent_steps(self) -> bool:
        """True if the agent has said or done anything."""
        return any(draft.source == "agent" for draft in self._drafts)

    def say(self, source: Literal["system", "user"], message: object, *, at: object = None) -> None:
        """Add what the system or the user said."""
        self._drafts.append(_Draft(source, [words(message)], at=time_of(at)))

    def turn(self, *, model: object = None, at: object = None) -> None:
        """Begin a step of the agent; what follows belongs to it."""
        self._drafts.append(_Draft("agent", model=words(model) or None, at=time_of(at)))

    def text(self, message: object) -> None:
        """Add what the agent said."""
        if told := words(message):
            self._agents().texts.append(told)

    def reasoning(self, message: object) -> None:
        """Add what the agent thought."""
        if told := words(message):
            self._agents().reasoning.append(told)

    def call(self, call_id: object, name: object, arguments: object) -> None:
        """Add a tool that the agent called."""
        draft = self._agents()
        made_up = f"call_{len(self._drafts)}_{len(draft.calls) + 1}"
        given = arguments if isinstance(arguments, dict) else {"input": arguments}
        draft.calls.append(
            ToolCall(
                tool_call_id=words(call_id) or made_up,
                function_name=words(name) or "tool",
                arguments={words(key): _plain(value) for key, value in given.items()},
            )
        )

    def result(self, call_id: object, content: object, *, failed: bool = False) -> None:
        """Add what came back from a call; from an unknown one it belongs to the agent's last step."""
        wanted = words(call_id)
        extra = {"is_error": True} if failed else None
        for draft in reversed(self._drafts):
            if any(call.tool_call_id == wanted for call in draft.calls):
                draft.results.append(Result(source_call_id=wanted, content=words(content), extra=extra))
                return
        draft = self._agents()
        draft.results.append(Result(content=words(content), extra=extra))

    def metrics(
        self, prompt: object = None, completion: object = None, cached: object = None, cost: object = None
    ) -> None:
        """Say what the agent's last step has used; ``prompt`` with what came from a cache."""
        found = Metrics(
            prompt_tokens=count(prompt),
            completion_tokens=count(completion),
            cached_tokens=count(cached),
            cost_usd=amount(cost) or None,  # to a program without prices all costs nothing
        )
        if found != Metrics():
            self._agents().metrics = found

    def document(self, agent: AgentInfo, instruction: str) -> Trajectory:
        """Return it all as a trajectory. It begins with the instruction, if the program does not tell it."""
        drafts = list(self._drafts)
        if not any(draft.source == "user" for draft in drafts):
            drafts.insert(0, _Draft("user", [clean(instruction)]))
        steps = [draft.step(number) for number, draft in enumerate(drafts, 1)]
        return Trajectory(
            schema_version=WRITTEN,
            session_id=self.session or None,
            agent=agent,
            steps=steps,
            final_metrics=self._final(steps),
        )

    def used(self) -> dict[str, int | float]:
        """Return the usage: as the program says, else the sums over the steps.

        A cost of nothing is left out: that is what programs say of a model whose prices they do not know.
        """
        sums = totals([draft.step(1) for draft in self._drafts])
        found = {key: getattr(sums, name) for key, name in _TOTALS.items()}
        used = {**{key: value for key, value in found.items() if value is not None}, **self.usage}
        return {key: value for key, value in used.items() if key != "cost_usd" or value}

    def _final(self, steps: list[Step]) -> FinalMetrics:
        used = self.used()
        return FinalMetrics(
            total_prompt_tokens=count(used.get("input_tokens")),
            total_completion_tokens=count(used.get("output_tokens")),
            total_cached_tokens=count(used.get("cached_tokens")),
            total_cost_usd=used.get("cost_usd"),
            total_steps=len(steps),
        )

    def _agents(self) -> _Draft:
        for draft in reversed(self._drafts):
            if draft.source == "agent":
                return draft
        self.turn()
        return self._drafts[-1]


def words(value: object) -> str:
    """Return a message of any shape as text: a string, parts with texts, or JSON as it is."""
    if value is None:
        return ""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return "\n".join(text for part in value if (text := words(part)))
    if isinstance(value, dict):
        for key in ("text", "content", "output"):
            if key in value:
                return words(value[key])
    return clean(str(value))


def count(value: object) -> int | None:
    """Return a number of tokens, ``None`` for what is none."""
    number = amount(value)
    return None if number is None else int(number)


def amount(value: object) -> float | None:
    """Return a finite number that is not negative, ``None`` for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def time_of(value: object) -> str | None:
    """Return a time in ISO 8601 from that, or from seconds or milliseconds since 1970."""
    if isinstance(value, str):
        try:
            datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            return None
        return value
    number = amount(value)
    if number is None:
        return None
    try:
        seconds = number / 1000 if number >= _MILLISECONDS else number
        return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return None


def table(value: object) -> dict[str, Any]:
    """Return a JSON object, an empty one for what is none."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[dict[str, Any]]:
    """Return the objects of a JSON array; what is none has no objects."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {words(key): _plain(each) for key, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
