"""A function as an agent: it is shown what the environment shows, and returns what to do."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol

from pytest_rlenv.agents.ending import AgentOutcome, AgentStopped, Stop
from pytest_rlenv.agents.episode import Episode, EpisodeContext, Player
from pytest_rlenv.agents.episode_log import EpisodeLog
from pytest_rlenv.agents.moves import ACT, Json, Moves, shown
from pytest_rlenv.errors import AgentFailed, SpecError
from pytest_rlenv.text import text_of

CALLED_WITH = "(observation, action_schema, tools)"
_TOOL_KEYS = frozenset({"tool", "arguments"})
_SHOWN = 100


class Policy(Protocol):
    """Such a function.

    Called with what the environment showed last, the JSON Schema of an action (``None`` where there are tools
    instead) and the tools (``name``, ``description``, ``parameters``). Returns an action; where there are
    tools ``{"tool": NAME, "arguments": {...}}``, or a text to say; ``None`` to end.
    """

    def __call__(self, observation: Json, action_schema: Json | None, tools: list[Json], /) -> object:
        """Return what to do next."""
        ...


class FunctionPlayer(Player):
    """Plays by asking a function for each move."""

    function: ClassVar[Policy]
    moves: ClassVar[int] = 10_000
    """So many are made at most, as an environment may have no end and its task no limit."""

    def play(self, episode: Episode, context: EpisodeContext) -> AgentOutcome:
        """Ask and act until the episode is over, or the function returns ``None``."""
        moves = Moves(episode)
        schema = dict(episode.action_schema) if moves.acts and episode.action_schema else None
        tools = (
            [] if moves.acts else [vars(tool) | {"parameters": dict(tool.parameters)} for tool in moves.tools]
        )
        observation = _first(episode, context, moves)
        log = EpisodeLog(context, self.name, self.version, context.instruction or shown(observation))
        made = 0
        while not episode.done:
            if made == self.moves:
                raise AgentStopped(
                    f"limit of {made} moves reached",
                    Stop.TURN_LIMIT,
                    outcome=AgentOutcome(usage={"moves": made}),
                )
            asked = type(self).function(observation, schema, tools)
            if asked is None:
                break
            made += 1
            if isinstance(asked, str) and not moves.acts:
                answer = _say(asked, episode, log)
                if answer is None:
                    break
                observation = answer
            else:
                observation = self._move(asked, moves, log, episode)
        return AgentOutcome(usage={"moves": made})

    def _move(self, asked: object, moves: Moves, log: EpisodeLog, episode: Episode) -> Json:
        plain = self._checked(asked, moves)
        if moves.acts:
            call_id = log.call(ACT, moves.arguments_of(plain))
            seen = dict(episode.act(plain))
            log.came(call_id, shown(seen), done=episode.done)
            return seen
        tool, arguments = plain["tool"], plain.get("arguments") or {}
        call_id = log.call(tool, arguments)
        text = moves.make(tool, arguments, call_id=call_id)
        log.came(call_id, text, done=episode.done)
        return {"tool": tool, "result": text}

    def _checked(self, asked: object, moves: Moves) -> Json:
        """Return what the function returned as plain JSON data.

        Raises:
            AgentFailed: it is no move.
        """
        wanted = "an action, a dict" if moves.acts else 'a text, or {"tool": NAME, "arguments": {...}}'
        if inspect.iscoroutine(asked):
            asked.close()  # Python would warn that nobody awaited it
        if not isinstance(asked, Mapping):
            raise self._wrong(asked, f"expected {wanted}, or None to end")
        try:
            plain: Json = json.loads(json.dumps(dict(asked), allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise self._wrong(asked, f"which JSON cannot hold: {text_of(error)}") from None
        if moves.acts:
            return plain
        arguments = plain.get("arguments") or {}
        fits = (
            isinstance(plain.get("tool"), str) and isinstance(arguments, dict) and plain.keys() <= _TOOL_KEYS
        )
        if not fits:
            raise self._wrong(asked, f"expected {wanted}, or None to end")
        return plain

    def _wrong(self, returned: object, why: str) -> AgentFailed:
        text = text_of(repr(returned))
        text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        return AgentFailed(f"agent {self.name}: it returned {text} ({type(returned).__name__}), {why}")


def player_around(function: Callable[..., object], *, option: str) -> type[FunctionPlayer]:
    """Return a class of agents that play by a function.

    Args:
        function: called as :class:`Policy` says.
        option: how the user named it, for messages.

    Raises:
        SpecError: it cannot be called so.
    """
    name = str(getattr(function, "__name__", type(function).__name__))
    hint = (
        f"a function as agent is `def {name}{CALLED_WITH}` and returns an action, or None to end; "
        "an agent with more to it is a subclass of pytest_rlenv.agents.episode.Player"
    )
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise SpecError(f"{option}: {name} is async; an agent must not be", hint=hint)
    if inspect.isgeneratorfunction(function):
        raise SpecError(f"{option}: {name} has a `yield`; an agent must return each move", hint=hint)
    try:
        signature = inspect.signature(function)
    except (
        ValueError,
        TypeError,
    ):  # written in C, or what it says of itself is wrong: tried when it is called
        signature = None
    if signature is not None:
        try:
            signature.bind(None, None, None)
        except TypeError:
            raise SpecError(
                f"{option}: {name}{signature} cannot be called with {CALLED_WITH}", hint=hint
            ) from None
    version = getattr(function, "version", None)
    return type(
        name,
        (FunctionPlayer,),
        {"name": name, "function": staticmethod(function), "version": version, "__doc__": function.__doc__},
    )


def _first(episode: Episode, context: EpisodeContext, moves: Moves) -> Json:
    """Return what the function is shown at first."""
    if moves.acts:
        return dict(episode.observation or {})
    messages = [dict(message) for message in episode.messages]
    return {"messages": messages or [{"role": "user", "content": context.instruction}]}


def _say(text: str, episode: Episode, log: EpisodeLog) -> Json | None:
    log.said(text)
    answer = episode.say(text)
    if answer is None:
        return None
    log.answered(answer)
    return {"text": answer}
