"""Parts of a run: each task in exactly one, and all about as long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.sharding.shards import Shard, deal

COSTS = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.text(max_size=4)),
    st.one_of(st.none(), st.floats(0, 1e6)),
    max_size=40,
)


@pytest.mark.parametrize(("text", "shard"), [("1/1", Shard(1, 1)), (" 3 / 12 ", Shard(3, 12))])
def test_a_part_is_read(text: str, shard: Shard) -> None:
    assert Shard.parse(text) == shard
    assert Shard.parse(str(shard)) == shard


@pytest.mark.parametrize("text", ["", "2", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1.5/2"])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no part"):
        Shard.parse(text)


@given(COSTS, st.integers(1, 9))
def test_every_task_is_in_one_part_whatever_the_order(
    costs: dict[tuple[str, str], float | None], count: int
) -> None:
    parts = deal(costs, count)
    assert parts.keys() == costs.keys()
    assert set(parts.values()) <= set(range(1, count + 1))
    assert deal(dict(reversed(costs.items())), count) == parts


@given(COSTS, st.integers(1, 9))
def test_no_part_is_longer_than_another_by_more_than_a_task(
    costs: dict[tuple[str, str], float | None], count: int
) -> None:
    known = {task: cost for task, cost in costs.items() if cost is not None}
    parts = deal(known, count)
    loads = [sum(cost for task, cost in known.items() if parts[task] == n) for n in range(1, count + 1)]
    slack = sum(known.values()) / 1000 + 1e-3  # what tasks of no cost are taken to cost
    assert max(loads) - min(loads) <= max(known.values(), default=0.0) + slack


def test_tasks_of_which_nothing_is_known_are_dealt_one_by_one() -> None:
    parts = deal({("e", f"t{i}"): None for i in range(10)}, 3)
    counts = [list(parts.values()).count(number) for number in (1, 2, 3)]
    assert sorted(counts) == [3, 3, 4]


def test_a_task_that_is_not_known_is_taken_for_one_in_the_middle() -> None:
    costs = {("e", "long"): 100.0, ("e", "a"): 10.0, ("e", "b"): 10.0, ("e", "new"): None}
    parts = deal(costs, 2)
    assert [task for _, task in costs if parts["e", task] == parts["e", "long"]] == ["long"]


def test_of_however_many_parts_the_first_have_a_task_each() -> None:
    tasks = {("e", f"t{i}"): None for i in range(3)}
    assert sorted(deal(tasks, 10**12).values()) == [1, 2, 3]
    assert deal({}, 10**12) == {}
