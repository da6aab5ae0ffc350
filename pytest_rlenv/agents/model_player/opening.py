"""What is said before the model's first turn, in the conversation and in the trajectory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_rlenv.agents.conversing.session import Session
from pytest_rlenv.agents.episode import Episode, EpisodeContext
from pytest_rlenv.agents.moves import Moves, shown
from pytest_rlenv.trajectory.writing import GrowingTrajectory

ACTING = """\
You act in an environment by calling the tool `act`: each call is one action, and its result is what the
environment shows next. Nobody reads what you say beside that. Go on until the episode is over."""
BEGIN = "Use the tools until there is nothing more to be done."
"""What the user says where nobody has said anything: servers want a message of theirs."""

_SOURCES = {"system": "system", "developer": "system", "user": "user", "assistant": "agent"}


def opening_messages(episode: Episode, context: EpisodeContext, moves: Moves) -> Sequence[Mapping[str, Any]]:
    """Return the messages that a conversation begins with.

    Those of the episode, where it has some; else the task in words, and what the environment shows at first.
    How an environment is stepped is explained.
    """
    messages = list(episode.messages)
    if not messages:
        told = [context.instruction] if context.instruction else []
        if episode.observation is not None:
            told.append(f"The environment shows:\n{shown(episode.observation)}")
        messages = [{"role": "user", "content": "\n\n".join(told)}] if told else []
    if moves.acts:
        messages = _with_system(messages)
    if not any(message.get("role") == "user" for message in messages):
        messages.append({"role": "user", "content": BEGIN})
    return messages


def _with_system(messages: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return messages that begin with how to act; some servers take one message of the system at most."""
    first = messages[0] if messages else {}
    if first.get("role") == "system" and isinstance(first.get("content"), str):
        return [{**first, "content": f"{first['content']}\n\n{ACTING}"}, *messages[1:]]
    return [{"role": "system", "content": ACTING}, *messages]


def open_with(messages: Sequence[Mapping[str, Any]], session: Session, file: GrowingTrajectory) -> None:
    """Put messages into a new conversation as they are, and into its trajectory in words."""
    for message in messages:
        session.conversation.add(dict(message))
        source = _SOURCES.get(str(message.get("role")), "system")
        earlier = {"llm_call_count": 0, "is_copied_context": True} if source == "agent" else {}
        file.add(source=source, message=words_of(message), extra=_extra(message), **earlier)


def words_of(message: Mapping[str, Any]) -> str:
    """Return a message's text; what is no text, such as an image, is named by its kind."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(_part(part) for part in content)
    return content if isinstance(content, str) else ""


def _part(part: object) -> str:
    if isinstance(part, Mapping):
        text = part.get("text")
        return text if isinstance(text, str) else f"[{part.get('type', 'part')}]"
    return str(part)


def _extra(message: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what of a message a trajectory's step has no field for: it is of an earlier conversation."""
    more = {key: value for key, value in message.items() if key not in ("role", "content")}
    if message.get("role") not in ("system", "user"):
        more["role"] = message.get("role")
    return more or None
