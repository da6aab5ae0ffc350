"""The scheduler, simulated: every item runs exactly once, whatever happens, and long ones start early."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.scheduling import LongestFirst


class FakeNode:
    """A worker as xdist's: it runs an item once it knows the next one, or that there is none."""

    def __init__(self) -> None:
        self.queue: list[int] = []
        self.shutting_down = False
        self.begun: float | None = None

    def send_runtest_some(self, indices: list[int]) -> None:
        assert not self.shutting_down
        self.queue += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def can_run(self) -> bool:
        return len(self.queue) >= 2 or (bool(self.queue) and self.shutting_down)


class Simulation:
    def __init__(self, costs: list[float], workers: int) -> None:
        self.ids = [f"rlenv:e::t{n}" for n in range(len(costs))]
        self.costs = costs
        self.complaints: list[str] = []
        known = dict(zip(self.ids, costs, strict=True))
        self.scheduler = LongestFirst(workers, known, self.complaints.append)
        self.runs: list[int] = []
        self.crashed: list[str] = []
        self.now = 0.0
        self.ends: dict[FakeNode, float] = {}
        for _ in range(workers):
            self.join()

    def join(self) -> None:
        node = FakeNode()
        self.scheduler.add_node(node)
        self.scheduler.add_node_collection(node, self.ids)
        if self.scheduler.collection_is_completed:
            self.scheduler.schedule()

    def play(self, crash_at: tuple[int, ...] = ()) -> float:
        """Run to the end; the n-th item to end takes its worker down with it. Return the makespan."""
        for _ in range(10 * len(self.ids) + 10):
            for node in self.scheduler.nodes:
                if node not in self.ends and node.can_run:
                    self.ends[node] = self.now + self.costs[node.queue[0]]
            if not self.ends:
                break
            node = min(self.ends, key=lambda node: self.ends[node])
            self.now = self.ends.pop(node)
            item = node.queue.pop(0)
            if len(self.runs) + len(self.crashed) in crash_at:
                crashed = self.scheduler.remove_node(node)
                assert crashed == self.ids[item]
                self.crashed.append(crashed)
                self.join()
            else:
                self.runs.append(item)
                self.scheduler.mark_test_complete(node, item)
        return self.now


@pytest.mark.parametrize("count", [0, 1, 2, 3, 24])
@pytest.mark.parametrize("workers", [1, 2, 4, 12])
@pytest.mark.parametrize("crash_at", [(), (0,), (0, 1), (2, 3, 5)])
def test_every_item_ends_once(count: int, workers: int, crash_at: tuple[int, ...]) -> None:
    game = Simulation([float(n % 5) for n in range(count)], workers)
    game.play(crash_at)
    assert sorted(game.runs + [game.ids.index(name) for name in game.crashed]) == list(range(count))
    assert game.scheduler.tests_finished
    assert not game.scheduler.has_pending
    assert game.complaints == []


@given(
    st.lists(st.floats(0, 100), max_size=40),
    st.integers(1, 8),
    st.sets(st.integers(0, 39), max_size=4),
)
def test_whatever_the_costs(costs: list[float], workers: int, crash_at: set[int]) -> None:
    game = Simulation(costs, workers)
    game.play(tuple(crash_at))
    assert sorted(game.runs + [game.ids.index(name) for name in game.crashed]) == list(range(len(costs)))


def test_few_items_spread_over_all_workers() -> None:
    assert Simulation([1.0] * 4, 4).play() == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_two_long_items_are_never_behind_each_other(seed: int) -> None:
    costs = [10.0, 10.0, *[1.0] * 6]
    random.Random(seed).shuffle(costs)
    assert Simulation(costs, 4).play() <= 12.0


def test_a_heavy_tail_ends_near_the_bound() -> None:
    costs = [10.0, 6.0, 4.0, *[1.0] * 21, 0.5, 0.5]
    bound = max(10.0, sum(costs) / 4)
    assert Simulation(costs, 4).play() <= bound * 1.15


def test_nothing_known_keeps_the_collection_order() -> None:
    game = Simulation([0.0] * 6, 1)
    game.play()
    assert game.runs == list(range(6))


def test_workers_that_disagree_run_nothing() -> None:
    complaints: list[str] = []
    scheduler = LongestFirst(2, {}, complaints.append)
    nodes = [FakeNode(), FakeNode()]
    for node, ids in zip(nodes, (["a"], ["b"]), strict=True):
        scheduler.add_node(node)
        scheduler.add_node_collection(node, ids)
    scheduler.schedule()
    assert complaints
    assert [node.queue for node in nodes] == [[], []]
    assert scheduler.tests_finished
