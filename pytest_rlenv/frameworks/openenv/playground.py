"""One episode under way: its session, its rewards so far, and what an error frame means there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_rlenv.errors import EnvironmentFailed, RlenvError, SelectionIgnored
from pytest_rlenv.frameworks.openenv.frames import ErrorFrame, Frame, brief
from pytest_rlenv.frameworks.openenv.scoring import Score
from pytest_rlenv.frameworks.openenv.server import Server
from pytest_rlenv.frameworks.openenv.session import Session

LONGEST_EPISODE_ID = 128
NOT_CHOOSING = ("seed", "injected_state")
"""Arguments of a reset that do not say which task is played."""


class Playground:
    """An episode that has begun.

    Args:
        session: with a server.
        server: which.
        begin: the answer to the reset.
        rule: which of the steps' rewards counts.
    """

    def __init__(self, session: Session, server: Server, begin: Frame, rule: str) -> None:
        self.session = session
        self.server = server
        self.begin = begin
        self.score = Score(rule, begin)

    def step(self, action: Mapping[str, Any]) -> Frame:
        """Take an action that counts; raises as :meth:`Session.step` does."""
        frame = self.session.step(action)
        self.score.steps.append(frame)
        return frame

    def ask(self, action: Mapping[str, Any]) -> Frame:
        """Take an action that is none of the agent's, such as a list of the tools."""
        return self.session.step(action)

    def failed(self, error: ErrorFrame, doing: str) -> RlenvError:
        """Return the error for an error frame that nobody but the environment is to blame for."""
        return failed(error, doing, self.server)


def failed(error: ErrorFrame, doing: str, server: Server) -> EnvironmentFailed:
    """Return the error for an error frame that nobody but the environment is to blame for."""
    told = f"{error.message}{': ' if error.problems else ''}{error.problems}"
    return EnvironmentFailed(
        f"the environment answered {doing} with {error.code}: {told}", detail=server.tail()
    )


def check_selection(
    asked: Mapping[str, Any], state: Mapping[str, Any], observation: Mapping[str, Any]
) -> tuple[bool, str]:
    """See that the environment plays the task that it was asked for, which it need not have understood.

    Args:
        asked: the arguments of the reset.
        state: what the environment says of itself after it.
        observation: what the reset was answered with.

    Returns:
        Whether anything that was asked for is said at all, and what is wrong with the episode's name.

    Raises:
        SelectionIgnored: it plays another one.
    """
    said = False
    for key, wanted in asked.items():
        if key in NOT_CHOOSING or key == "episode_id":
            continue
        for place, shown in (("state", state), ("the observation", observation)):
            if key not in shown or isinstance(wanted, (dict, list)):
                continue
            said = True
            if not _same(wanted, shown[key]):
                raise SelectionIgnored(
                    brief(f"reset was asked for {key} = {wanted!r}")
                    + brief(f", but {place} says {shown[key]!r}"),
                    hint="an environment drops arguments of reset that it does not know: is the name right?",
                )
    name = asked.get("episode_id")
    echoed = state.get("episode_id")
    wrong = (
        "" if name is None or echoed == name else f"state has episode_id {brief(repr(echoed))}, not {name!r}"
    )
    return said, wrong


def _same(wanted: Any, shown: Any) -> bool:
    return wanted == shown or (not isinstance(shown, (dict, list)) and str(wanted) == str(shown))
