"""A session as an agent plays it: with tools and one last word, or step by step."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pytest_rlenv.agents.ending import AgentTimedOut
from pytest_rlenv.agents.episode import Episode, Tool
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
        self._count = 0
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

    def call(self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "") -> str:
        """Call a tool."""
        if self._ended:
            return "the episode has ended"
        self._count += 1
        call = function_call(tool, arguments, call_id or f"call_{self._count}")
        with self._within_time():
            return self._called(call, self._left())

    def say(self, text: str, *, reasoning: str = "") -> str | None:
        """Say something."""
        if self._ended:
            return None
        self._count += 1
        with self._within_time():
            return self._said(text, reasoning)

    def remark(self, text: str, *, reasoning: str = "") -> None:
        """Hear what is said beside the calls that follow: it is part of the response."""
        thought = [thinking(reasoning, self._count)] if reasoning else []
        self._beside += [*thought, *([message(text, self._count)] if text else [])]

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
        thoughts = [thinking(thought, self._count)] if thought else []
        return self._with_remarks([*thoughts, message(text, self._count)])


class ToolEpisode(RowEpisode):
    """Calls of tools, until something is said: that is the answer.

    Args:
        calls: so many calls are taken, where the row has them one by one; ``None`` is any number.
        once: True for rows that ask for the next action alone: what is called then is noted, not done.
    """

    def __init__(
        self,
        session: Session,
        row: Mapping[str, Any],
        deadline: float | None,
        *,
        calls: int | None = None,
        once: bool = False,
    ) -> None:
        super().__init__(session, row, deadline)
        self._most = calls
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
        self._ended = self._most is not None and self._count >= self._most
        return output

    def _said(self, text: str, thought: str) -> str | None:
        self._session.output += self._items(text, thought)
        self._ended = True
        return None


class StepEpisode(RowEpisode):
    """Steps: each call and each thing said is one, and the server shows what came of it.

    Args:
        steps: so many are taken.
    """

    def __init__(self, session: Session, row: Mapping[str, Any], deadline: float | None, steps: int) -> None:
        super().__init__(session, row, deadline)
        self._most = steps
        if session.observation:
            self._messages = [*self._messages, {"role": "user", "content": session.observation}]

    def _called(self, call: Item, limit: float | None) -> str:
        content = self._step(self._with_remarks([call]), limit)
        info = content.get("info")
        outputs = info.get("tool_outputs") if isinstance(info, dict) else None
        for each in outputs if isinstance(outputs, list) else ():
            if isinstance(each, dict) and each.get("call_id") == call["call_id"]:
                return str(each.get("output"))
        return self._session.observation

    def _said(self, text: str, thought: str) -> str | None:
        self._step(self._items(text, thought), self._left())
        return None if self._ended else self._session.observation

    def _step(self, items: Sequence[Item], limit: float | None) -> Mapping[str, Any]:
        content = self._session.step(items, limit=limit)
        self._ended = self._session.ended or self._count >= self._most
        return content
