"""An episode as the other side of a conversation with a model."""

from __future__ import annotations

from pytest_rlenv.agents.conversing.replies import Call, Json, Reply
from pytest_rlenv.agents.conversing.session import NOT_RUN, Answer, Shown
from pytest_rlenv.agents.ending import AgentTimedOut
from pytest_rlenv.agents.episode import Call as EpisodeCall
from pytest_rlenv.agents.episode import Episode
from pytest_rlenv.agents.moves import ACT, Moves

NO_WORDS = f"Nobody answers here. Act by calling the tool `{ACT}`, until the episode is over."
_CUT = "\n[... {count} characters left out ...]\n"


class EpisodeSide:
    """Carries out a model's calls in an episode, and has the episode answer what the model says.

    Args:
        episode: what is played.
        moves: what can be done in it.
        result_chars: how much of what a call returns is shown.
    """

    def __init__(self, episode: Episode, moves: Moves, result_chars: int) -> None:
        self._episode = episode
        self._moves = moves
        self._result_chars = result_chars

    @property
    def done(self) -> bool:
        """True once the environment takes nothing more."""
        return self._episode.done

    def beside(self, reply: Reply) -> None:
        """Have the environment hear what the model says beside its calls."""
        if reply.text.strip() or reply.reasoning:
            self._episode.remark(reply.text, reasoning=reply.reasoning)
        self._moves.announce([EpisodeCall(call.name, _written(call), call.id) for call in reply.calls])

    def call(self, call: Call) -> Shown:
        """Make a move; what is wrong with it is said to the model by the environment."""
        came = self._moves.make(call.name, _written(call), call_id=call.id)
        return Shown(shortened(came, self._result_chars), {"done": True} if self.done else {})

    def answer(self, reply: Reply) -> Answer | None:
        """Say the model's words to the environment; where only actions count, remind it of them."""
        if self._moves.acts:
            return Answer(NO_WORDS, "system")
        said = self._episode.say(reply.text, reasoning=reply.reasoning)
        return None if said is None else Answer(shortened(said, self._result_chars))

    def late(self, error: AgentTimedOut) -> Shown:
        """Return what is written down of a call that was cut short."""
        return NOT_RUN


def _written(call: Call) -> Json | str:
    """Return a call's arguments, as text where they are no object."""
    return call.raw if call.arguments is None else call.arguments


def shortened(text: str, most: int) -> str:
    """Return a text that can be sent, with its middle left out if it is too long."""
    text = text.encode("utf-8", errors="replace").decode()
    if len(text) <= most:
        return text
    half = most // 2
    return text[:half] + _CUT.format(count=len(text) - 2 * half) + text[len(text) - half :]
