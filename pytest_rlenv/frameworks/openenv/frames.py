"""What a server of OpenEnv's says on its WebSocket, read strictly: an odd answer is an error, never a reward.

Its frames are ``{"type": ..., "data": ...}``. Python's ``NaN`` in a reward is null on the wire of OpenEnv
0.10, and ``NaN`` on that of servers that people write by hand; neither is a reward.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_rlenv.errors import EnvironmentFailed
from pytest_rlenv.frameworks.rewards import finite_reward, json_kind, shown

MOST_CHARS = 1000
"""Characters of what a server says that a message has."""
_CODE_CHARS = 80

EXECUTION_ERROR = "EXECUTION_ERROR"
VALIDATION_ERROR = "VALIDATION_ERROR"
CAPACITY_REACHED = "CAPACITY_REACHED"
OF_THE_REQUEST = frozenset({VALIDATION_ERROR, "INVALID_JSON", "UNKNOWN_TYPE"})
"""Codes that say that what was sent is wrong; the session goes on."""
OF_THE_SERVER = frozenset({CAPACITY_REACHED, "FACTORY_ERROR", "SESSION_ERROR"})
"""Codes after which there is no session."""


@dataclass(frozen=True)
class Frame:
    """An observation, as a reset or a step is answered.

    Attributes:
        observation: what the environment shows.
        reward: what the step earned; ``None`` if it was not graded.
        done: True if the episode is over.
        boolean: True if the reward came as true or false.
    """

    observation: Mapping[str, Any]
    reward: float | None = None
    done: bool = False
    boolean: bool = False


class ErrorFrame(Exception):
    """The server answered with an error.

    Args:
        code: its word for it, such as ``EXECUTION_ERROR``.
        message: what it says.
        data: all of the frame's content.
    """

    def __init__(self, code: str, message: str, data: Mapping[str, Any]) -> None:
        self.code = brief(code, _CODE_CHARS)
        self.message = brief(message)
        self.data = data
        super().__init__(f"{self.code}: {self.message}")

    @property
    def of_the_request(self) -> bool:
        """True if what was sent is wrong."""
        return self.code in OF_THE_REQUEST

    @property
    def problems(self) -> str:
        """What is wrong with an action, place by place, as far as the server says."""
        errors = self.data.get("errors")
        if not isinstance(errors, list):
            return ""
        told = []
        for each in errors[:8]:
            if isinstance(each, Mapping):
                place = each.get("loc")
                where = ".".join(str(part) for part in place) if isinstance(place, list) else ""
                told.append(f"{where or 'the action'}: {each.get('msg') or each.get('type')}")
        return brief("; ".join(told))


@dataclass(frozen=True)
class Answer:
    """A frame of any type.

    Attributes:
        type: ``observation``, ``state`` and others.
        data: its content.
    """

    type: str
    data: Mapping[str, Any] = field(default_factory=dict)


def read_answer(text: str | bytes) -> Answer:
    """Read one frame.

    Raises:
        ErrorFrame: it is an error.
        EnvironmentFailed: it is no frame.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EnvironmentFailed(f"the server's answer is not JSON: {error}: {shown(_text(text))}") from None
    kind = content.get("type") if isinstance(content, dict) else None
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(kind, str) or not isinstance(data, dict):
        raise EnvironmentFailed(f"the server's answer is no frame with type and data: {shown(_text(text))}")
    if kind == "error":
        raise ErrorFrame(str(data.get("code") or "no code"), str(data.get("message") or ""), data)
    return Answer(kind, data)


def read_observation(answer: Answer, doing: str) -> Frame:
    """Read the answer to a reset or a step.

    Args:
        answer: the frame.
        doing: what it is the answer to, for messages.

    Raises:
        EnvironmentFailed: it is no observation.
        RewardInvalid: its reward is neither a finite number nor null.
    """
    if answer.type != "observation":
        raise EnvironmentFailed(f"the server answered {doing} with a frame of type {shown(answer.type)}")
    observation = answer.data.get("observation")
    if not isinstance(observation, dict):
        raise EnvironmentFailed(f"the observation after {doing} is {json_kind(observation)}, not an object")
    done = answer.data.get("done", False)
    if not isinstance(done, bool):
        raise EnvironmentFailed(f"`done` after {doing} is {_kind(done)}, not true or false")
    reward = answer.data.get("reward")
    if reward is None:
        return Frame(observation, None, done)
    number = finite_reward(reward, f"the reward of {doing}", booleans=True)
    return Frame(observation, number, done, isinstance(reward, bool))


def brief(text: str, most: int = MOST_CHARS) -> str:
    """Return what a server says for a message: the beginning of it, where it says much."""
    return text if len(text) <= most else f"{text[:most]}[... {len(text) - most} characters cut]"


def _kind(value: Any) -> str:
    return repr(value) if isinstance(value, (int, float)) else json_kind(value)


def _text(text: str | bytes) -> str:
    return text if isinstance(text, str) else text.decode(errors="replace")
