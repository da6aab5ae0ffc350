"""A session as an agent plays it: with tools and one last word, or step by step."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pytest_rlenv.agents.ending import AgentTimedOut
from pytest_rlenv.agents.episode import Call, Episode, Tool
from pytest_rlenv.errors import StageTimeout
from pytest_rlenv.frameworks.nemo_gym.conversation import Message, messages_of, tools_of
from pytest_rlenv.frameworks.nemo_gym.responses import (
    Item,
    function_call,
    function_output,
    message,
)
from pytest_rlenv.frameworks.nemo_gym.responses import reasoning as thinking
from pytest_rlenv.frameworks.nemo_gym.session import Session

STEPS = 10
"""Steps of a gymnasium server, where its config does not say, as NeMo Gym's own agent has it."""


class RowEpisode(Episode):
    """What both kinds of episode have in common.

    Args:
        session: of the row, begun.
        row: the row.
        deadline: on the monotonic clock, when the agent's time is up.

    Raises:
        TaskInvalid, Unsupported: the row's request is of a form that agents cannot be given.
    """

    def __init__(self, session: Session, row: Mapping[str, Any], deadline: float | None) -> None:
        self._session = session
        self._messages = messages_of(row)
        self._tools = tools_of(row)
        self._deadline = deadline
        self._ended = False
        self._replies = 0
        """What was said, and calls: those of one reply count as one."""
        self._ids = 0
        self._coming: list[Item] = []
        """Calls of the reply that are yet to be made."""
        self._beside: list[Item] = []
        """What was said or thought beside calls that are yet to come."""

    @property
    def messages(self) -> Sequence[Message]:
        """The row's messages."""
        return self._messages

    @property
    def tools(self) -> Sequence[Tool]:
        """The row's tools."""
        return self._tools

    @property
    def done(self) -> bool:
        """True once it takes nothing more."""
        return self._ended

    def announce(self, calls: Sequence[Call]) -> None:
        """Hear which calls make up the next reply."""
        self._coming = []
        if not self._ended:
            self._open_reply(calls)

    def call(self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "") -> str:
        """Call a tool: the next of those announced, or a reply of its own."""
        if not self._coming or self._coming[0]["name"] != tool:
            self._coming = []
            if self._ended:
                return "the episode has ended"
            self._open_reply([Call(tool, arguments, call_id)])
        call = self._coming.pop(0)
        with self._within_time():
            return self._called(call, self._left())

    def say(self, text: str, *, reasoning: str = "") -> str | None:
        """Say something."""
        if self._ended:
            return None
        self._open_reply([])
        with self._within_time():
            return self._said(text, reasoning)

    def remark(self, text: str, *, reasoning: str = "") -> None:
        """Hear what is said beside the calls that follow: it is part of the response."""
        self._ids += 1
        thought = [thinking(reasoning, self._ids)] if reasoning else []
        self._beside += [*thought, *([message(text, self._ids)] if text else [])]

    def _open_reply(self, calls: Sequence[Call]) -> None:
        self._replies += 1
        self._coming = []
        for call in calls:
            self._ids += 1
            self._coming.append(function_call(call.tool, call.arguments, call.call_id or f"call_{self._ids}"))

    @abstractmethod
    def _called(self, call: Item, limit: float | None) -> str: ...

    @abstractmethod
    def _said(self, text: str, thought: str) -> str | None: ...

    def _left(self) -> float | None:
        return None if self._deadline is None else max(0.1, self._deadline - time.monotonic())

    @contextmanager
    def _within_time(self) -> Iterator[None]:
        """Tell an agent whose time is up while the server works from a server that hangs."""
        try:
            yield
        except StageTimeout:
            if self._deadline is not None and time.monotonic() >= self._deadline:
                raise AgentTimedOut from None
            raise

    def _with_remarks(self, items: Sequence[Item]) -> list[Item]:
        """Return what is put out now, with what was said beside it."""
        beside, self._beside = self._beside, []
        return [*beside, *items]

    def _items(self, text: str, thought: str) -> list[Item]:
        self._ids += 1
        thoughts = [thinking(thought, self._ids)] if thought else []
        return self._with_remarks([*thoughts, message(text, self._ids)])


class ToolEpisode(RowEpisode):
    """Calls of tools, until something is said: that is the answer.

    Args:
        replies: so many are taken, as NeMo Gym's own agent does; ``None`` is any number.
        once: True for rows that ask for the next action alone: what is called then is noted, not done.
    """

    def __init__(
        self,
        session: Session,
        row: Mapping[str, Any],
        deadline: float | None,
        *,
        replies: int | None = None,
        once: bool = False,
    ) -> None:
        super().__init__(session, row, deadline)
        self._most = replies
        self._once = once
        self._over = False

    @property
    def done(self) -> bool:
        """True once it takes nothing more, or nothing more is asked for."""
        return self._ended or self._over

    def _called(self, call: Item, limit: float | None) -> str:
        if self._once:  # further calls of the same answer belong to it
            self._session.output += self._with_remarks([call])
            self._over = True
            return ""
        output = self._session.call(call["name"], call["arguments"], limit=limit)
        self._session.output += [*self._with_remarks([call]), function_output(call["call_id"], output)]
        self._ended = not self._coming and self._most is not None and self._replies >= self._most
        return output

    def _said(self, text: str, thought: str) -> str | None:
        self._session.output += self._items(text, thought)
        self._ended = True
        return None


class StepEpisode(RowEpisode):
    """Steps: each reply is one, with all its calls, and the server shows what came of it.

    Args:
        steps: so many are taken.
    """

    def __init__(self, session: Session, row: Mapping[str, Any], deadline: float | None, steps: int) -> None:
        super().__init__(session, row, deadline)
        self._most = steps
        self._stepped = 0
        self._shown: list[str] = []
        """What came of each call of the reply that is yet to be made."""
        if session.observation:
            self._messages = [*self._messages, {"role": "user", "content": session.observation}]

    def _called(self, call: Item, limit: float | None) -> str:
        if self._stepped < self._replies:
            calls = [call, *self._coming]
            content = self._step(self._with_remarks(calls), limit)
            self._shown = _shown_of(calls, content, self._session.observation)
        return self._shown.pop(0)

    def _said(self, text: str, thought: str) -> str | None:
        self._step(self._items(text, thought), self._left())
        return None if self._ended else self._session.observation

    def _step(self, items: Sequence[Item], limit: float | None) -> Mapping[str, Any]:
        self._stepped = self._replies
        content = self._session.step(items, limit=limit)
        self._ended = self._session.ended or self._replies >= self._most
        return content


def _shown_of(calls: Sequence[Item], content: Mapping[str, Any], observation: str) -> list[str]:
    """Return what a step shows of each call: its own output, and the observation with the last."""
    info = content.get("info")
    outputs = info.get("tool_outputs") if isinstance(info, dict) else None
    by_id = {
        str(each.get("call_id")): str(each.get("output"))
        for each in (outputs if isinstance(outputs, list) else ())
        if isinstance(each, dict)
    }
    shown = [by_id.get(call["call_id"], "") for call in calls]
    shown[-1] = "\n\n".join(part for part in (shown[-1], observation) if part)
    return shown
