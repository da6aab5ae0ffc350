"""What the model is told with each request, kept within its context by leaving out the oldest outputs."""

from __future__ import annotations

import json

from pytest_rlenv.agents.conversing.replies import Call, Json, Reply

LEFT_OUT = "[this output was left out to save room]"
FILLED = 0.7
"""How much of the budget is used once outputs were left out: a little each time would spoil every cache."""

_GUESS = 0.3
"""Tokens per character of JSON, before the server has counted any."""
_LEAST, _MOST = 0.2, 1.0
"""Between these a server's count is believed; some do not count what came from a cache."""


class Conversation:
    """The messages so far.

    Args:
        overhead: characters of what goes with every request, such as the tools.
        left_out: what stands in the place of an output that was left out.
    """

    def __init__(self, overhead: int = 0, left_out: str = LEFT_OUT) -> None:
        self.messages: list[Json] = []
        self._sizes: list[int] = []
        self._overhead = overhead
        self._left_out = left_out
        self._per_character = _GUESS

    def say(self, role: str, text: str) -> None:
        """Add a message of ``system`` or ``user``."""
        self._append({"role": role, "content": text})

    def reply(self, reply: Reply) -> None:
        """Add what the model said, and learn from what the server counted for the request before it."""
        counted = reply.usage.input_tokens
        if counted:
            self._per_character = min(max(counted / self._characters(), _LEAST), _MOST)
        self._append(reply.message)

    def result(self, call: Call, text: str) -> None:
        """Add what came of a call."""
        self._append({"role": "tool", "tool_call_id": call.id, "content": text})

    def add(self, message: Json) -> None:
        """Add a message as it is."""
        self._append(message)

    @property
    def tokens(self) -> int:
        """How long the next request will be, about."""
        return int(self._characters() * self._per_character)

    def fit(self, budget: int) -> int:
        """Leave out the oldest outputs until a request of ``budget`` tokens has room to spare.

        What came back last stays: the model has not seen it yet.

        Returns:
            How many were left out. The conversation may be too long all the same.
        """
        if self.tokens <= budget:
            return 0
        left_out = 0
        for index in range(self._last_reply()):
            message = self.messages[index]
            if message["role"] != "tool" or len(message["content"]) <= len(self._left_out):
                continue
            self.messages[index] = {**message, "content": self._left_out}
            self._sizes[index] = _size(self.messages[index])
            left_out += 1
            if self.tokens <= budget * FILLED:
                break
        return left_out

    def _last_reply(self) -> int:
        for index in range(len(self.messages) - 1, -1, -1):
            if self.messages[index]["role"] == "assistant":
                return index
        return 0

    def _characters(self) -> int:
        return max(sum(self._sizes) + self._overhead, 1)

    def _append(self, message: Json) -> None:
        self.messages.append(message)
        self._sizes.append(_size(message))


def _size(message: Json) -> int:
    return len(json.dumps(message, ensure_ascii=False))
