"""What a model is held to, and how patient a client is with its server."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class ConversationLimits:
    """Of one run of an agent.

    Attributes:
        turns: replies of the model.
        tokens: tokens of all requests and replies together; ``None`` is no limit.
        context_tokens: tokens of one request. Before it would be longer, the oldest outputs are left out.
        reply_seconds: seconds to wait for one reply.
    """

    turns: int = 100
    tokens: int | None = None
    context_tokens: int = 120_000
    reply_seconds: float = 600.0


@dataclass(frozen=True)
class Patience:
    """How often a request is made again that was refused for the moment, and after how long.

    Attributes:
        tries: requests at most for one reply.
        first_tries: likewise while a server that cannot be reached has never answered: it may not be there.
        first: seconds before the second of them; each later pause is twice as long.
        longest: seconds of a pause at most, whatever the server asks for.
    """

    tries: int = 8
    first_tries: int = 4
    first: float = 1.0
    longest: float = 60.0

    def pause(self, number: int, asked: float | None) -> float:
        """Return the seconds to wait after the ``number``-th failure; the server may ask for more."""
        own = min(self.first * 2.0 ** (number - 1), self.longest)
        own *= random.uniform(0.75, 1.0)  # many agents that were refused at once are not to come back at once
        return min(max(own, asked or 0.0), self.longest)
