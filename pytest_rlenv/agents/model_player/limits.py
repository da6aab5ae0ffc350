"""What a model that plays an episode is held to."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_rlenv.agents.conversing.limits import ConversationLimits, Patience

__all__ = ["Limits", "Patience"]


@dataclass(frozen=True)
class Limits(ConversationLimits):
    """Of one episode.

    Attributes:
        result_chars: characters of what one call returns that the model is shown: beginning and end.
    """

    result_chars: int = 60_000
