"""An episode as an agent may use it: by one thread at a time, within the agent's time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from pytest_rlenv.agents.ending import AgentTimedOut
from pytest_rlenv.agents.episode import Call, Episode, Tool
from pytest_rlenv.errors import Stage, StageTimeout
from pytest_rlenv.prompt_template import fill_template

T = TypeVar("T")

REST = 5.0
"""Seconds for a call of the environment's to return once the agent has ended."""


@dataclass(frozen=True)
class Words:
    """What the user has agents told beside the task's own words.

    Attributes:
        extra: texts after them.
        template: the words around all of it.
    """

    extra: Sequence[str] = ()
    template: str | None = None

    def around(self, instruction: str) -> str:
        """Return an instruction with them."""
        text = "\n\n".join(part for part in (instruction, *self.extra) if part)
        return fill_template(self.template, text) if self.template else text

    def around_last(self, messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return messages with them in the last one of the user's that is text; without one, in a new one."""
        if not self.extra and self.template is None:
            return messages
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if message.get("role") == "user" and isinstance(message.get("content"), str):
                told = {**message, "content": self.around(message["content"])}
                return [*messages[:index], told, *messages[index + 1 :]]
        return [*messages, {"role": "user", "content": self.around("")}] if messages else messages


class WatchedEpisode(Episode):
    """Passes an agent's calls on to an episode, until its time is up or it is taken away.

    What the episode raises is remembered: an agent that catches everything cannot hide that the environment
    broke.

    Args:
        episode: the framework's.
        deadline: on the monotonic clock; ``None`` is no limit.
        words: what the user has agents told.
    """

    def __init__(self, episode: Episode, deadline: float | None, words: Words | None = None) -> None:
        self._episode = episode
        self._deadline = deadline
        self._words = words or Words()
        self._one = threading.Lock()
        self._revoked = False
        self._broken: Exception | None = None

    # ---- for whoever has it played

    def revoke(self) -> None:
        """Refuse every later call."""
        self._revoked = True

    @contextmanager
    def its_own_errors(self) -> Iterator[None]:
        """Raise at the end what the environment raised, rather than what the agent made of that."""
        try:
            yield
        except Exception as error:
            if self._broken is not None and error is not self._broken:
                raise self._broken from None
            raise
        if self._broken is not None:
            raise self._broken

    def check_at_rest(self) -> None:
        """See that nobody is in a call any more: what comes next is the framework's alone.

        Raises:
            StageTimeout: a call has not returned.
        """
        if not self._one.acquire(timeout=REST):
            raise StageTimeout(
                "the environment has not answered a call of the agent's, whose time is up", stage=Stage.AGENT
            )
        self._one.release()

    # ---- for the agent

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """What the conversation begins with."""
        return self._words.around_last(self._episode.messages)

    @property
    def tools(self) -> Sequence[Tool]:
        """What can be called."""
        return self._episode.tools

    @property
    def done(self) -> bool:
        """True once the environment takes nothing more."""
        return self._episode.done

    @property
    def action_schema(self) -> Mapping[str, Any] | None:
        """JSON Schema of an action, for environments that are stepped."""
        return self._episode.action_schema

    @property
    def observation(self) -> Mapping[str, Any] | None:
        """What the environment showed last, for those."""
        return self._episode.observation

    def call(self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "") -> str:
        """Call a tool."""
        return self._pass_on(lambda: self._episode.call(tool, arguments, call_id=call_id))

    def say(self, text: str, *, reasoning: str = "") -> str | None:
        """Say something to the environment."""
        return self._pass_on(lambda: self._episode.say(text, reasoning=reasoning))

    def remark(self, text: str, *, reasoning: str = "") -> None:
        """Have the environment hear what is said beside calls."""
        self._pass_on(lambda: self._episode.remark(text, reasoning=reasoning))

    def announce(self, calls: Sequence[Call]) -> None:
        """Have the environment hear which calls follow; nothing is done yet, so this is never too late."""
        with self._one:
            if not self._revoked:
                self._episode.announce(calls)

    def act(self, action: Mapping[str, Any]) -> Mapping[str, Any]:
        """Take an action."""
        return self._pass_on(lambda: self._episode.act(action))

    def _pass_on(self, call: Callable[[], T]) -> T:
        with self._one:
            if self._broken is not None:
                raise self._broken
            self._check_time()
            try:
                result = call()
            except AgentTimedOut:
                self._revoked = True
                raise
            except Exception as error:
                if not self._revoked:
                    self._broken = error
                raise
            if self._revoked:
                raise AgentTimedOut
            return result

    def _check_time(self) -> None:
        if self._revoked or (self._deadline is not None and time.monotonic() >= self._deadline):
            raise AgentTimedOut
