"""Find an agent's class by its name, by ``NAME:variant``, by ``module:Class`` or ``module:function``."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.agents.words import unquoted
from pytest_rlenv.errors import SpecError
from pytest_rlenv.importing import load_object
from pytest_rlenv.text import text_of

BUILT_IN = {
    "oracle": "pytest_rlenv.agents.oracle:OracleAgent",
    "nop": "pytest_rlenv.agents.nop:NopAgent",
    "canary": "pytest_rlenv.agents.canary:CanaryAgent",
    "check": "pytest_rlenv.agents.check:CheckAgent",
    "bash": "pytest_rlenv.agents.bash.agent:BashAgent",
    "model": "pytest_rlenv.agents.model_player.agent:ModelPlayer",
    "replay": "pytest_rlenv.agents.replay.agent:ReplayAgent",
    "cmd": "pytest_rlenv.agents.command_line.custom:CommandAgent",
    "harbor": "pytest_rlenv.agents.harbor.agent:HarborAgent",
    "opencode": "pytest_rlenv.agents.command_line.known:OpenCode",
    "claude-code": "pytest_rlenv.agents.command_line.known:ClaudeCode",
    "codex": "pytest_rlenv.agents.command_line.known:Codex",
    "gemini-cli": "pytest_rlenv.agents.command_line.known:GeminiCli",
    "qwen-coder": "pytest_rlenv.agents.command_line.known:QwenCoder",
    "mini-swe-agent": "pytest_rlenv.agents.command_line.known:MiniSweAgent",
    "aider": "pytest_rlenv.agents.command_line.known:Aider",
    "goose": "pytest_rlenv.agents.command_line.known:Goose",
    "openhands": "pytest_rlenv.agents.command_line.known:OpenHands",
}
"""Where the class of each agent that comes with this package is."""

GROUP = "pytest_rlenv.agents"
"""Entry points of this group are agents of other packages, by name."""

_PLAIN = re.compile(r"[\w.+-]+")
_OPTION = "--rlenv-agent"


class Named(NamedTuple):
    """An agent as the user named it.

    Attributes:
        name: its name, or the import path ``module:Class``.
        variant: what follows a name after a colon; empty for none.
    """

    name: str
    variant: str


def split_agent(agent: str) -> Named:
    """Return which part of ``NAME:variant`` is which; ``module:Class`` is a name as a whole.

    A known name comes before a module of that name.
    """
    head, colon, rest = agent.partition(":")
    if colon and (head in BUILT_IN or head in _installed()):
        return Named(head, unquoted(rest))
    return Named(agent, "")


def load_agent(agent: str) -> type[Agent]:
    """Return the class of an agent.

    Args:
        agent: a name of :data:`BUILT_IN` or of an entry point, each maybe with ``:variant``; or
            ``module:Class`` for your own subclass of :class:`Agent`, or ``module:function`` for a function
            that plays episodes.

    Raises:
        SpecError: there is no such agent, what was found is not one, or it has no variants.
    """
    name, variant = split_agent(agent)
    found = _load(name)
    if not isinstance(found, type) and not isinstance(found, Agent) and callable(found):
        from pytest_rlenv.agents.function_player import player_around

        found = player_around(found, option=f"{_OPTION} {agent}")
    if not (isinstance(found, type) and issubclass(found, Agent)):
        raise SpecError(
            f"{_OPTION} {agent}: {found!r} is not an agent",
            hint="name a subclass of pytest_rlenv.agents.protocol.Agent, or a function that plays episodes",
        )
    if variant and not found.variants:
        raise SpecError(f"{_OPTION} {agent}: agent {name} has no variants", hint=f"say {name} alone")
    return found


def agent_names(agents: Sequence[str]) -> dict[str, str]:
    """Return the word for each agent in ids and records: ``Solver`` for ``package.module:Solver``.

    Of ``NAME:variant`` both are kept, but for a variant that is no plain word, such as a path or a command.
    Two agents of the same word keep their whole text. No agent is imported.
    """
    short = {agent: _word(agent) for agent in agents}
    taken = Counter(short.values())
    return {agent: name if taken[name] == 1 else agent for agent, name in short.items()}


def version_with_variant(version: str | None, variant: str) -> str | None:
    """Return an agent's version with what its name in records does not say of its variant.

    A resumed run, and a comparison of two, must tell ``replay:one`` from ``replay:other``.
    """
    if not variant or _PLAIN.fullmatch(variant):
        return version
    return f"{version or 0}+{hashlib.sha256(variant.encode()).hexdigest()[:8]}"


def _word(agent: str) -> str:
    if ":" not in agent:
        return agent
    name, variant = split_agent(agent)
    if variant:
        return agent if _PLAIN.fullmatch(variant) else name
    return name.rpartition(":")[2]


def _load(name: str) -> object:
    if name in BUILT_IN:
        return load_object(BUILT_IN[name], option=_OPTION)
    if ":" in name:
        return load_object(name, option=_OPTION)
    if (point := _installed().get(name)) is not None:
        return _load_installed(point)
    if name in ("'", '"'):
        raise SpecError(
            f"{_OPTION}: a quote ({name}) that is not closed", hint='such as cmd:"my-agent --fast"'
        )
    known = ", ".join(dict.fromkeys([*BUILT_IN, *_installed()]))
    raise SpecError(
        f"{_OPTION} {name}: no such agent",
        hint=f"choose {known}, or your own as module:Class or module:function",
    )


def _load_installed(point: EntryPoint) -> object:
    try:
        return point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a stranger's module may raise anything, SystemExit too
        raise SpecError(
            f"{_OPTION} {point.name}: cannot load {point.value!r}: {type(error).__name__}: {text_of(error)}",
            hint=f"it is the entry point {point.name!r} of the group {GROUP}",
        ) from error


@cache
def _installed() -> Mapping[str, EntryPoint]:
    """Return the agents of other packages. Ours come first: no package may take their names."""
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in BUILT_IN}
