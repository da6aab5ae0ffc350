"""Find an agent's class by name or by ``module:Class``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.errors import SpecError
from pytest_rlenv.importing import load_object

BUILT_IN = {
    "oracle": "pytest_rlenv.agents.oracle:OracleAgent",
    "nop": "pytest_rlenv.agents.nop:NopAgent",
}


def load_agent(name: str) -> type[Agent]:
    """Return the class of an agent.

    Args:
        name: ``oracle``, ``nop``, or ``module:Class`` for your own subclass of :class:`Agent`.

    Raises:
        SpecError: there is no such agent, or what was found is not one.
    """
    path = BUILT_IN.get(name, name)
    if ":" not in path:
        known = ", ".join(BUILT_IN)
        raise SpecError(
            f"--rlenv-agent {name}: no such agent", hint=f"choose {known}, or your own class as module:Class"
        )
    found = load_object(path, option="--rlenv-agent")
    if not (isinstance(found, type) and issubclass(found, Agent)):
        raise SpecError(
            f"--rlenv-agent {name}: {found!r} is not an agent",
            hint="name a subclass of pytest_rlenv.agents.protocol.Agent",
        )
    return found


def agent_names(agents: Sequence[str]) -> dict[str, str]:
    """Return the word for each agent in ids and records: ``Solver`` for ``package.module:Solver``.

    Two classes of the same name keep their whole path. No agent is imported.
    """
    short = {agent: agent.rpartition(":")[2] for agent in agents}
    taken = Counter(short.values())
    return {agent: name if taken[name] == 1 else agent for agent, name in short.items()}
