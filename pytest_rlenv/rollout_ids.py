"""Which rollouts a task has, and what each is called below it: by its agent, its attempt, both or neither."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pytest_rlenv.agents.loading import agent_names
from pytest_rlenv.errors import SpecError

SEPARATOR = "::"


class RolloutId(NamedTuple):
    """One of a task's rollouts.

    Attributes:
        agent: as the user named it, such as ``package.module:Solver``.
        agent_name: the agent's word in ids and records, such as ``Solver``.
        attempt: its number, from 1.
        levels: its names below the task in a node id; none where the task has one rollout only.
    """

    agent: str
    agent_name: str
    attempt: int
    levels: tuple[str, ...]

    def is_called(self, name: str) -> bool:
        """Return whether ``name``, what follows the task in an id, means this rollout, among others maybe."""
        both = f"{self.agent_name}{SEPARATOR}{self.attempt}"
        return name in ("", self.agent_name, str(self.attempt), both)


def rollouts_of_a_task(agents: Sequence[str], attempts: int) -> list[RolloutId]:
    """Return the rollouts of a task, by agent and then by attempt.

    Args:
        agents: as the user named them; with more than one, each is a level of the id.
        attempts: of each agent; with more than one, each is the last level of the id.
    """
    names = agent_names(agents)
    return [
        RolloutId(
            agent,
            name,
            attempt,
            ((name,) if len(names) > 1 else ()) + ((str(attempt),) if attempts > 1 else ()),
        )
        for agent, name in names.items()
        for attempt in range(1, attempts + 1)
    ]


def split_levels(levels: Sequence[str]) -> tuple[str | None, int]:
    """Return the agent's name, if there is one, and the attempt that the last levels of a node id tell."""
    left = list(levels)
    attempt = int(left.pop()) if left and left[-1].isdecimal() else 1
    return (left[0] if left else None), attempt


def check_name(name: str, rollouts: Sequence[RolloutId], *, where: str) -> None:
    """See that what follows a task in an id is one of its rollouts.

    Args:
        name: what follows.
        rollouts: those that this run has of each task.
        where: the whole id, for the message.

    Raises:
        SpecError: it is none of this run's.
    """
    if any(each.is_called(name) for each in rollouts):
        return
    agents = sorted({each.agent_name for each in rollouts})
    agent, _, rest = name.partition(SEPARATOR)
    if agent in agents and rest:
        agent = rest
    if agent.isdecimal():
        raise SpecError(
            f"not found: {where}: this run has no attempt {agent}",
            hint=f"its attempts are 1 to {max(each.attempt for each in rollouts)}: --rlenv-attempts says how "
            "many",
        )
    raise SpecError(
        f"not found: {where}: agent {agent!r} is not part of this run",
        hint=f"name it with --rlenv-agent; this run has {', '.join(agents)}",
    )
