"""The items of a session as steps: within one, items may run in any order, as their rollouts end."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import cast

import pytest

from pytest_rlenv.collection import RolloutItem
from pytest_rlenv.jobs.before import lasting_fixtures

ALL_ROLLOUTS = "rollouts"
"""The step of items that share nothing: those of all environments."""


class Step:
    """Items that may run in any order. Each is taken once.

    Args:
        items: in the order of the collection.
    """

    def __init__(self, items: Iterable[pytest.Item]) -> None:
        self._in_turn = dict.fromkeys(items)
        """Items whose rollout was not begun: it runs in their turn."""
        self._ended: dict[pytest.Item, None] = {}
        """Items whose rollout has ended, in that order."""
        self._below: dict[object, dict[object, None]] = {}
        """What of each collector's children was not taken yet."""
        for item in self._in_turn:
            for parent, child in pairwise(item.listchain()):
                self._below.setdefault(parent, {})[child] = None

    def __bool__(self) -> bool:
        return bool(self._below)

    def begun(self, item: pytest.Item) -> None:
        """Take note that an item's rollout is under way: its turn comes when that has ended."""
        self._in_turn.pop(item, None)

    def ended(self, item: pytest.Item) -> None:
        """Take note that an item's rollout has ended."""
        if item in self._below.get(item.parent, ()):
            self._ended[item] = None

    def choose(self, last: pytest.Item | None) -> pytest.Item | None:
        """Return the item to run next; ``None`` if all that are left have their rollouts under way.

        Args:
            last: the one before. One of the same module is preferred, as pytest prints these on one line.
        """
        if self._ended:
            module = last.getparent(pytest.Module) if last else None
            together = (item for item in self._ended if item.getparent(pytest.Module) is module)
            return next(together, None) or next(iter(self._ended))
        return next(iter(self._in_turn), None)

    def take(self, item: pytest.Item) -> None:
        """Take an item out."""
        self._in_turn.pop(item, None)
        self._ended.pop(item, None)
        for parent, child in reversed(list(pairwise(item.listchain()))):
            children = self._below[parent]
            del children[child]
            if children:
                break
            del self._below[parent]

    def farthest_from(self, item: pytest.Item) -> pytest.Item:
        """Return the item in here that shares the fewest collectors with one that is not.

        pytest is told of the next item so that it keeps the set-up of collectors that both are in. Which one
        will be next is not known yet; with this one, nothing is kept that another might not be in.
        """
        chain: list[object] = list(item.listchain())
        for node, child in pairwise(chain):
            other = next((each for each in self._below[node] if each is not child), None)
            if other is not None:
                return self._some_item(other)
        raise LookupError(f"nothing is left beside {item.nodeid}")

    def _some_item(self, node: object) -> pytest.Item:
        while node in self._below:
            node = next(iter(self._below[node]))
        return cast("pytest.Item", node)


def steps_of(
    items: Sequence[pytest.Item], may_move: Callable[[pytest.Item], bool]
) -> list[list[pytest.Item]]:
    """Return the items of each step of a session, in order.

    Args:
        items: all items.
        may_move: whether an item may run before or after its neighbours at all.
    """
    return [list(group) for _, group in groupby(items, lambda item: _kind(item, may_move))]


def longest_first(items: Sequence[pytest.Item], costs: Mapping[str, float]) -> list[pytest.Item]:
    """Return items with the costliest first in the places that each environment or module has.

    Args:
        items: in the order of the collection, which breaks ties.
        costs: expected seconds by node id; what is not there costs nothing.
    """
    places: dict[object, list[int]] = {}
    for index, item in enumerate(items):
        places.setdefault(item.getparent(pytest.Module), []).append(index)
    ordered = list(items)
    for indices in places.values():
        by_cost = sorted((items[index] for index in indices), key=lambda item: -costs.get(item.nodeid, 0.0))
        for index, item in zip(indices, by_cost, strict=True):
            ordered[index] = item
    return ordered


def _kind(item: pytest.Item, may_move: Callable[[pytest.Item], bool]) -> Hashable:
    """Return what neighbours must have in common to change places; nothing is like an item that may not move.

    With fixtures of a module or class, only items of one parent may: else these would be set up repeatedly.
    """
    if not isinstance(item, pytest.Function) or not may_move(item):
        return id(item)
    lasting = lasting_fixtures(item)
    callspec = getattr(item, "callspec", None)
    chosen: Mapping[str, object] = callspec.params if callspec is not None else {}
    if any(each.params is not None or each.argname in chosen for each in lasting):
        return id(item)
    if isinstance(item, RolloutItem) and all(each.scope == "session" for each in lasting):
        return ALL_ROLLOUTS
    return id(item.parent)
