"""Episodes for tests: guess a number by actions, by tools, or in a talk."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_rlenv.agents.ending import AgentTimedOut
from pytest_rlenv.agents.episode import Call, Episode, Tool
from pytest_rlenv.errors import SandboxFailed

SCHEMA = {
    "title": "Guess",
    "type": "object",
    "properties": {"guess": {"type": "integer"}},
    "required": ["guess"],
}
GUESS = Tool("guess", "Guess the number.", SCHEMA)
LOOK = Tool("look", "See where it is.")


class NumberEpisode(Episode):
    """Ends when the number is guessed, or the steps are used up.

    Args:
        target: the number.
        steps: guesses that there are.
        breaks: True if the environment breaks at the first step.
        hangs: seconds that each step takes.
    """

    def __init__(self, target: int = 7, steps: int = 5, *, breaks: bool = False, hangs: float = 0.0) -> None:
        self.target = target
        self.left = steps
        self.made: list[Any] = []
        self.right = False
        self.heard: list[str] = []
        self.announced: list[list[str]] = []
        self._breaks = breaks
        self._hangs = hangs

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        return ({"role": "user", "content": "Find the number."},)

    @property
    def tools(self) -> Sequence[Tool]:
        return ()

    @property
    def done(self) -> bool:
        return self.right or self.left <= 0

    def call(self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "") -> str:
        raise AssertionError(f"{tool} was called in an episode without tools")

    def say(self, text: str, *, reasoning: str = "") -> str | None:
        self.made.append(text)
        return None

    def remark(self, text: str, *, reasoning: str = "") -> None:
        self.heard.append(text)

    def announce(self, calls: Sequence[Call]) -> None:
        self.announced.append([call.tool for call in calls])

    def _step(self, guess: object) -> str:
        if self._hangs:
            time.sleep(self._hangs)
        if self._breaks:
            raise SandboxFailed("the environment broke")
        self.left -= 1
        if not isinstance(guess, int):
            return "no number"
        self.right = guess == self.target
        return "right" if self.right else "higher" if guess < self.target else "lower"


class Acting(NumberEpisode):
    """By actions."""

    hint = "guess"

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        return ()

    @property
    def action_schema(self) -> Mapping[str, Any]:
        return SCHEMA

    @property
    def observation(self) -> Mapping[str, Any]:
        return {"hint": self.hint}

    def act(self, action: Mapping[str, Any]) -> Mapping[str, Any]:
        self.made.append(dict(action))
        self.hint = self._step(action.get("guess"))
        return self.observation


class Tooled(NumberEpisode):
    """By tools; what is not there or does not fit is told."""

    @property
    def tools(self) -> Sequence[Tool]:
        return (LOOK, GUESS)

    def call(self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "") -> str:
        if self.done:
            return "it is over"
        self.made.append((tool, arguments))
        if tool == "look":
            return f"it is {self.target}"
        if tool != "guess":
            return f"error: no tool {tool}"
        if isinstance(arguments, str):
            return "error: arguments are no JSON object"
        return self._step(arguments.get("guess"))


class Talking(NumberEpisode):
    """With somebody who answers."""

    def say(self, text: str, *, reasoning: str = "") -> str | None:
        self.made.append(text)
        said = self._step(int(text) if text.strip().isdigit() else None)
        return None if self.done else said


class Late(Acting):
    """An environment that says itself that the agent's time is up."""

    def act(self, action: Mapping[str, Any]) -> Mapping[str, Any]:
        raise AgentTimedOut


KINDS: dict[str, type[NumberEpisode]] = {
    "act": Acting,
    "tools": Tooled,
    "talk": Talking,
    "one": NumberEpisode,
}


def rows(**tasks: Mapping[str, Any]) -> str:
    """Return the lines of a file of tasks: with a kind, and what :mod:`.scripted_framework` reads."""
    return "".join(json.dumps({"id": name, **row}) + "\n" for name, row in tasks.items())
