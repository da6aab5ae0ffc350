"""An episode of a task of text: who plays it reads the prompt and gives an answer, which is scored."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_rlenv.agents.episode import Episode, Player, Tool
from pytest_rlenv.errors import AgentFailed, Unsupported
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.playing import play
from pytest_rlenv.frameworks.verifiers.limits import stage_limits

if TYPE_CHECKING:
    from pytest_rlenv.frameworks.verifiers.framework import VerifiersTask


class AnswerEpisode(Episode):
    """One question, one answer.

    Args:
        row: the task's data.
    """

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._messages = _messages(row)
        self.answer: str | None = None

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """The prompt."""
        return self._messages

    @property
    def tools(self) -> Sequence[Tool]:
        """None."""
        return ()

    @property
    def done(self) -> bool:
        """True once there is an answer."""
        return self.answer is not None

    def call(self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "") -> str:
        """Say that there is no such tool."""
        return f"there is no tool {tool!r}: this task has none"

    def say(self, text: str, *, reasoning: str = "") -> str | None:
        """Take the answer."""
        self.answer = text
        return None


def play_answer(task: VerifiersTask, player: Player, context: RolloutContext) -> None:
    """Have a player answer, and the answer scored.

    Raises:
        Unsupported: the task wants more than an answer.
        AgentFailed: it gave none.
    """
    if task.row.container:
        raise Unsupported(
            f"agent {player.name} answers in words, and the task wants work in a container "
            f"({task.row.container}): use oracle, nop or model"
        )
    if task.row.tools:
        raise Unsupported(
            f"agent {player.name} answers in words, and the task has tools: use oracle, nop or model"
        )
    episode = AnswerEpisode(task.row.row)
    if not episode.messages:
        raise Unsupported("the task has no prompt to answer: use oracle, nop or model")
    limit = stage_limits(task.row.row, context.timeout_multiplier)["agent"]
    play(player, episode, context, deadline=time.monotonic() + limit, framework="Verifiers")
    if episode.answer is None:
        raise AgentFailed(f"agent {player.name} ended without an answer")
    with task.interpreter(context) as process:
        task.score("answer", {"text": episode.answer}, context, process)


def _messages(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if system := row.get("system_prompt"):
        found.append({"role": "system", "content": system})
    prompt = row.get("prompt")
    if isinstance(prompt, str):
        return [*found, {"role": "user", "content": prompt}]
    return [*found, *(dict(message) for message in prompt or ())]
