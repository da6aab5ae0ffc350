"""What a scripted model says: replies, and errors in their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ToolCall:
    """A tool that the model wants used."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """What the model says to one request.

    Attributes:
        stop: ``stop``, ``tools``, ``length`` or ``refusal``; by default what fits the rest.
        cached_tokens: those of the input tokens that were read from a cache.
        cost: in US dollars, as some providers tell it; only on the wire of chat completions.
    """

    text: str = ""
    tools: tuple[ToolCall, ...] = ()
    stop: str = ""
    input_tokens: int = 100
    output_tokens: int = 20
    cached_tokens: int = 0
    cost: float | None = None

    @property
    def why(self) -> str:
        return self.stop or ("tools" if self.tools else "stop")


@dataclass(frozen=True)
class Failure:
    """An error that the server answers with; a status of 0 cuts the connection instead."""

    status: int
    message: str = "no"
    code: str = ""
    retry_after: str = ""


def use(name: str, **arguments: Any) -> Reply:
    """Return the reply that uses one tool."""
    return Reply(tools=(ToolCall(name, arguments),))


def context_exceeded() -> Failure:
    return Failure(400, "This model's maximum context length is 100 tokens.", "context_length_exceeded")
