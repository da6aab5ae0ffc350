"""The order of items: whatever comes next, nothing was kept set up for it that it is not in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.jobs.steps import Step, longest_first


class FakeNode:
    """A node as pytest's, as far as the order of items goes."""

    def __init__(self, name: str, parent: FakeNode | None = None) -> None:
        self.name, self.parent = name, parent
        self.nodeid = f"{parent.nodeid}::{name}" if parent else name

    def listchain(self) -> list[FakeNode]:
        return [*(self.parent.listchain() if self.parent else []), self]

    def getparent(self, _: object) -> FakeNode:
        """Return the module: the child of the root."""
        return self.listchain()[1]


def items_of(tree: list[list[int]]) -> list[Any]:
    """Return items of modules, tasks and agents: a number of agents for each task of each module."""
    root = FakeNode("root")
    found = []
    for m, tasks in enumerate(tree):
        module = FakeNode(f"m{m}", root)
        for t, agents in enumerate(tasks):
            parent = FakeNode(f"t{t}", module) if agents > 1 else module
            found += [FakeNode(f"a{a}" if agents > 1 else f"t{t}", parent) for a in range(agents)]
    return found


TREES = st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=4), min_size=1, max_size=3)


@given(st.lists(TREES, min_size=1, max_size=3), st.randoms(use_true_random=False), st.integers(0, 5))
def test_each_item_runs_once_and_fits_on_what_is_set_up(trees: list[Any], random: Any, ahead: int) -> None:
    root = FakeNode("root")  # one for all, as in a session
    groups = [items_of(tree) for tree in trees]
    for module in {item.getparent(None) for items in groups for item in items}:
        module.parent = root
    steps = [Step(items) for items in groups]
    stack: list[Any] = []
    last = None
    for number, (step, items) in enumerate(zip(steps, groups, strict=True)):
        under_way = items[:ahead]
        for item in under_way:
            step.begun(item)
        ran = []
        while step:
            random.shuffle(under_way)
            for _ in range(random.randint(0, len(under_way))):
                step.ended(under_way.pop())
            item = step.choose(last)
            if item is None:
                continue
            step.take(item)
            ran.append(item)
            assert all(node in item.listchain() for node in stack), "previous item was not torn down properly"
            left = next((each for each in steps[number:] if each), None)
            nextitem = left.farthest_from(item) if left else None
            assert nextitem is not item
            stack = [n for n in item.listchain() if nextitem and n in nextitem.listchain()]
            last = item
        assert sorted(map(id, ran)) == sorted(map(id, items))
    assert stack == []


def test_items_of_one_module_stay_together_where_they_can() -> None:
    one, two, three = items_of([[1, 1], [1]])
    step = Step([one, two, three])
    for item in (one, two, three):
        step.begun(item)
    for item in (three, one, two):
        step.ended(item)
    assert step.choose(one) is one
    step.take(one)
    assert step.choose(one) is two
    step.take(two)
    assert step.choose(two) is three


def test_what_has_ended_comes_before_what_must_be_run_here() -> None:
    here, ended, under_way = items_of([[1, 1, 1]])
    step = Step([here, ended, under_way])
    step.begun(ended)
    step.begun(under_way)
    assert step.choose(None) is here
    step.ended(ended)
    assert step.choose(None) is ended
    for item in (ended, here):
        step.take(item)
    assert step.choose(None) is None
    step.ended(here)  # in its own turn
    assert step.choose(None) is None


@pytest.mark.parametrize(
    ("costs", "order"),
    [
        ({}, ["root::m0::t0", "root::m0::t1", "root::m1::t0", "root::m0::t2", "root::m1::t1"]),
        (
            {"root::m0::t2": 3, "root::m0::t1": 2, "root::m1::t1": 9},
            ["root::m0::t2", "root::m0::t1", "root::m1::t1", "root::m0::t0", "root::m1::t0"],
        ),
    ],
)
def test_the_longest_first_in_the_places_of_their_environment(
    costs: dict[str, float], order: list[str]
) -> None:
    a, b, c, d, e = items_of([[1, 1, 1], [1, 1]])
    assert [item.nodeid for item in longest_first([a, b, d, c, e], costs)] == order
