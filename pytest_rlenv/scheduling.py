"""Deal rollouts to xdist workers: the longest first, with the shortest as look-ahead.

A worker fetches its next item before it runs the one it has, so two items are always tied to it. xdist's own
schedulers deal in runs of the collection order, which puts two long rollouts on one worker while others idle.
Here the second of the two is always a short one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

DEFAULT_COST = 0.0
"""Cost of an item of which nothing is known, such as a plain test."""


class Node(Protocol):
    """What a scheduler asks of an xdist worker."""

    @property
    def shutting_down(self) -> bool:
        """True once it was told to end."""
        ...

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        """Queue items by their index in the collection."""
        ...

    def shutdown(self) -> None:
        """End after what is queued."""
        ...


class LongestFirst:
    """A scheduler for ``--dist load`` (the protocol is ``xdist.scheduler.Scheduling``).

    Args:
        workers: how many workers will take part.
        costs: expected seconds by node id; what is not there costs nothing. Ties keep the collection order.
        complain: told when workers collected different items.
    """

    def __init__(self, workers: int, costs: Mapping[str, float], complain: Callable[[str], None]) -> None:
        self._workers = workers
        self._costs = costs
        self._complain = complain
        self._collections: dict[Node, list[str]] = {}
        self._queued: dict[Node, list[int]] = {}
        self._collection: list[str] | None = None
        self._unsent: deque[int] = deque()
        """Indices, the costliest first."""

    @property
    def nodes(self) -> list[Node]:
        """The workers that take part."""
        return list(self._queued)

    @property
    def collection_is_completed(self) -> bool:
        """True when all workers have told what they collected."""
        return len(self._collections) >= self._workers

    @property
    def tests_finished(self) -> bool:
        """True when nothing is left but what the workers hold as look-ahead."""
        return (
            self.collection_is_completed
            and not self._unsent
            and all(len(queued) < 2 for queued in self._queued.values())
        )

    @property
    def has_pending(self) -> bool:
        """True when anything is unsent or queued."""
        return bool(self._unsent) or any(self._queued.values())

    def add_node(self, node: Node) -> None:
        """Take a worker in."""
        self._queued[node] = []

    def add_node_collection(self, node: Node, collection: Sequence[str]) -> None:
        """Take note of what a worker collected; a late one that replaces a dead worker must agree."""
        if self._collection is not None and list(collection) != self._collection:
            self._complain("a worker that was started later collected other items than the first ones")
            return
        self._collections[node] = list(collection)

    def schedule(self) -> None:
        """Begin, or give a worker that joined later its share."""
        if self._collection is None:
            first, *others = self._collections.values()
            if any(other != first for other in others):
                self._complain("the workers collected different items: nothing is run")
                return
            self._collection = first
            order = sorted(range(len(first)), key=lambda index: -self._cost(index))
            self._unsent = deque(order)
        for node in self.nodes:  # each one first, so that few items spread over all workers
            self._send(node, up_to=1)
        for node in self.nodes:
            self._feed(node)

    def mark_test_complete(self, node: Node, item_index: int, duration: float = 0) -> None:
        """Take note of an item's end and send the worker its next."""
        self._queued[node].remove(item_index)
        self._feed(node)

    def mark_test_pending(self, item: str) -> None:
        """Run an item again that was under way when its worker died."""
        if self._collection is None:
            raise ValueError("nothing is scheduled yet")
        self._put_back([self._collection.index(item)])
        for node in self.nodes:
            self._feed(node)

    def remove_pending_tests_from_node(self, node: Node, indices: Sequence[int]) -> None:
        """Refuse: nothing is ever taken back from a worker that lives."""
        raise NotImplementedError

    def remove_node(self, node: Node) -> str | None:
        """Forget a worker; return the item that it died under, if any. The other one is dealt again."""
        queued = self._queued.pop(node)
        if not queued or self._collection is None:
            return None
        self._put_back(queued[1:])
        for other in self.nodes:
            self._feed(other)
        return self._collection[queued[0]]

    def _feed(self, node: Node) -> None:
        """Have a worker hold two items, one long and one short; end it when there is no more."""
        self._send(node, up_to=2)
        if not self._unsent and len(self._queued[node]) < 2 and node in self._collections:
            node.shutdown()

    def _send(self, node: Node, *, up_to: int) -> None:
        if node.shutting_down or node not in self._collections:
            return
        queued = self._queued[node]
        while len(queued) < up_to and self._unsent:
            long_next = not queued or self._is_short(queued[0])
            index = self._unsent.popleft() if long_next else self._unsent.pop()
            queued.append(index)
            node.send_runtest_some([index])

    def _is_short(self, index: int) -> bool:
        """Return whether an item costs no more than what is left at the cheap end."""
        return not self._unsent or self._cost(index) <= self._cost(self._unsent[-1])

    def _put_back(self, indices: Sequence[int]) -> None:
        self._unsent = deque(sorted([*self._unsent, *indices], key=lambda index: (-self._cost(index), index)))

    def _cost(self, index: int) -> float:
        if self._collection is None:
            return DEFAULT_COST
        return self._costs.get(self._collection[index], DEFAULT_COST)
