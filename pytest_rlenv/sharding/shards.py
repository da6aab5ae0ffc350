"""Parts of a run for several machines: every task in exactly one, and all parts about as long.

Each machine deals out the tasks by itself, so nothing may count that differs between them: not what one of
them has run before, nor what it has fetched.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

Task = tuple[str, str]
"""An environment's name and a task's id."""


@dataclass(frozen=True)
class Shard:
    """One part of a run: which of how many, from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``2/5``.

        Raises:
            ValueError: it is of another form, or there is no such part.
        """
        match = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
        shard = cls(int(match[1]), int(match[2])) if match else cls(0, 0)
        if not 1 <= shard.number <= shard.of:
            raise ValueError(f"{text!r} is no part, as 1/3 or 3/3 is")
        return shard

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def deal(costs: Mapping[Task, float | None], count: int) -> dict[Task, int]:
    """Return the number of the part that each task is in.

    The costliest tasks are dealt first, each to the part that has the least so far.

    Args:
        costs: what a task's rollouts cost together, in whatever unit; ``None`` where that is not known: such
            a task is taken for one in the middle.
        count: how many parts there are.
    """
    known = [cost for cost in costs.values() if cost is not None]
    usual = median(known) if known else 1.0
    # a task without cost would be dealt to the same part as the last; each adds something, if only itself
    least = usual / 1000 or 1.0
    filled = {task: max(usual if cost is None else cost, least) for task, cost in costs.items()}
    # of more parts than tasks the last stay empty, however many there are
    parts = [(0.0, number) for number in range(1, min(count, len(filled)) + 1)]
    found = {}
    for task in sorted(filled, key=lambda task: (-filled[task], task)):
        load, number = heapq.heappop(parts)
        found[task] = number
        heapq.heappush(parts, (load + filled[task], number))
    return found
