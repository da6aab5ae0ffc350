"""What the harness holds a model to."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_rlenv.agents.conversing.limits import ConversationLimits, Patience

__all__ = ["Limits", "Patience"]


@dataclass(frozen=True)
class Limits(ConversationLimits):
    """Of one run of the agent: one step of a task.

    Attributes:
        command_seconds: seconds for a command that asks for no other time.
        longest_command: seconds that a command may ask for.
        output_bytes: bytes of a command's output that the model is shown: its beginning and its end.
    """

    command_seconds: int = 120
    longest_command: int = 1800
    output_bytes: int = 16_000
