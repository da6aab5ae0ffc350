"""A comparison for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import NamedTuple

from pytest_rlenv.reports.comparison import words
from pytest_rlenv.reports.comparison.compared import AgentChange, Comparison
from pytest_rlenv.reports.comparison.pairing import Pair, Status
from pytest_rlenv.reports.statistics.paired import Change

SHOWN = 20
"""Rows of a kind that are shown, unless all are asked for."""
NAME = 24
"""Characters of a task's name that are shown however narrow it is."""
REWARD = 16
"""Characters of two rewards and an arrow."""
TRIED = 19
"""Characters of how many attempts passed, with what parts them from the rewards."""

COLOURS = {
    Change.REGRESSION: "red",
    Change.INCONCLUSIVE: "yellow",
    Change.NO_REGRESSION: "green",
}


class Line(NamedTuple):
    """A line with its colour; an empty one is none."""

    text: str
    colour: str = ""


def lines(
    comparison: Comparison, *, width: int = 80, every: bool = False, brief: bool = False
) -> Iterator[Line]:
    """Yield a comparison's lines.

    Args:
        comparison: what to show.
        width: characters that a line may take: names of tasks are cut, sentences are wrapped.
        every: show all rows.
        brief: show only what follows for each agent.
    """
    if brief:
        for change in comparison.agents:
            text = f"{change.name}: {change.effect.verdict.value}: {words.conclusion(change)}"
            yield Line(text, COLOURS[change.effect.verdict])
        if not comparison.agents:
            yield _nothing(comparison)
        if comparison.of(Status.UNSELECTED):
            yield Line(words.unselected(comparison))
        return
    yield Line(f"baseline  {comparison.baseline}")
    yield Line(f"run       {comparison.run}")
    yield from (Line(f"note      {text}", "yellow") for text in comparison.problems)
    yield from (Line(f"differs   {text}") for text in comparison.differences)
    for change in comparison.agents:
        yield Line("")
        yield from _agent(change, width)
    if not comparison.agents:
        yield Line("")
        yield _nothing(comparison)
    below = [*map(Line, words.not_compared(comparison)), *_rows(comparison, width=width, every=every)]
    if below:
        yield Line("")
    yield from below


def _nothing(comparison: Comparison) -> Line:
    return Line(f"{comparison.verdict.value}: {words.nothing_paired(comparison)}", "yellow")


def _agent(change: AgentChange, width: int) -> Iterator[Line]:
    effect = change.effect
    level = f"{effect.level:.0%}".replace("%", " %")
    yield Line(f"{change.name}: {words.count(effect.tasks, 'task')}, {words.attempts(change)} each")
    difference = change.mean_after - change.mean_before
    low, high = (-effect.high, -effect.low) if change.lower_is_better else (effect.low, effect.high)
    yield Line(
        f"    mean reward  {change.mean_before:.3f} -> {change.mean_after:.3f}   {difference:+.3f} "
        f"({level}: {low:+.3f} to {high:+.3f})  {words.p_value(effect.p)}"
    )
    yield Line(
        f"    passed       {change.passing_before} -> {change.passing_after}   "
        f"{change.fixed} fixed, {change.broken} broken  {words.p_value(change.p_verdicts)}"
    )
    said = f"{effect.verdict.value}: {words.conclusion(change)}"
    for text in wrap(said, max(width, NAME), initial_indent="    ", subsequent_indent="      "):
        yield Line(text, COLOURS[effect.verdict])


def _rows(comparison: Comparison, *, width: int, every: bool) -> Iterator[Line]:
    called = words.names(comparison)
    listed = [status for status in words.LISTED if comparison.of(status)]
    shown = {status: comparison.of(status)[: None if every else SHOWN] for status in listed}
    rows = [each for pairs in shown.values() for each in pairs]
    right = REWARD + TRIED * any(map(words.passed, rows))
    longest = max((len(called[id(each)]) for each in rows), default=0)
    room = min(longest, max(NAME, width - len("EXCLUDED ") - len("  ") - right))
    for status in listed:
        for each in shown[status]:
            colour = "red" if status is Status.BROKEN else "green" if status is Status.FIXED else ""
            yield Line(
                f"{status.value.upper():<9}{_cut(called[id(each)], room)}  {_end(each)}".rstrip(), colour
            )
        more = len(comparison.of(status)) - len(shown[status])
        if more:
            yield Line(f"... and {more} more {status.value}")


def _end(pair: Pair) -> str:
    if pair.status is Status.EXCLUDED:
        return pair.reason
    if pair.status is Status.GONE:
        return ""
    tried = words.passed(pair)
    return f"{words.moved(pair):<{REWARD}}  {f'passed {tried}' if tried else ''}"


def _cut(name: str, room: int) -> str:
    return f"{name:<{room}}" if len(name) <= room else name[: room - 3] + "..."
