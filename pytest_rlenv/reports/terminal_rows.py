"""What did not pass, for the terminal: failures one by one, errors and skips by cause, commonest first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pytest_rlenv.reports.aggregate import Result
from pytest_rlenv.reports.columns import fit, padded, width_of
from pytest_rlenv.verdict import Outcome, number

SHOWN = {Outcome.FAILED: 50, Outcome.ERROR: 25, Outcome.SKIPPED: 10}
"""Failures, and causes of errors and skips, that are shown per environment, without ``-v``."""
EXAMPLES = 3
"""Tasks that are named of those with the same cause, without ``-v``."""

WORDS = {Outcome.FAILED: "FAILED", Outcome.ERROR: "ERROR", Outcome.SKIPPED: "SKIPPED"}
_WORD = 9
"""Columns of the first word."""
_NAME = 40
"""Columns of a task's name at most."""
_TASK = 8
"""Columns of a task's id that are worth what is put behind them."""
_VARYING = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{12,}\b|\d+(?:\.\d+)?")

Group = Sequence[Result]
"""Results that are shown together: of one outcome, with one cause."""


class Row(NamedTuple):
    """A line of the summary, in parts.

    Attributes:
        outcome: gives its first word; ``None`` for a line that goes on.
        text: the rest.
    """

    outcome: Outcome | None
    text: str


class Name(NamedTuple):
    """What to call a rollout: its task, and what tells it from others of the task."""

    task: str
    rest: str

    @property
    def whole(self) -> str:
        """All of it, in one line."""
        return fit(self.task + self.rest, width_of(self.task + self.rest))

    def within(self, columns: int) -> str:
        """Return it in so many columns: the task is cut, as the rest is all that tells two of them apart."""
        left = columns - width_of(self.rest)
        return fit(self.task, left) + self.rest if left >= _TASK else fit(self.task + self.rest, columns)


def rows_of(results: Sequence[Result], *, width: int, verbose: bool) -> tuple[list[Row], int]:
    """Return the lines of what did not pass, and how many rollouts are in none of them.

    Args:
        results: of one environment.
        width: columns of a line.
        verbose: show all, and every task's name.
    """
    names = _names(results)
    groups = {outcome: _groups(results, outcome) for outcome in WORDS}
    shown = [g for outcome, each in groups.items() for g in each[: None if verbose else SHOWN[outcome]]]
    widest = max((width_of(names[id(group[0])].whole) for group in shown if len(group) == 1), default=0)
    columns = min(widest, _NAME, width // 3)
    rows: list[Row] = []
    for group in shown:
        rows += _lines(group, names, columns, room=width - _WORD, verbose=verbose)
    everything = sum(len(group) for each in groups.values() for group in each)
    return rows, everything - sum(map(len, shown))


def _groups(results: Sequence[Result], outcome: Outcome) -> list[Group]:
    """Return results of one outcome: failures by themselves, others with those of the same cause."""
    found = sorted((r for r in results if r.verdict is outcome), key=lambda r: (r.task, r.agent, r.attempt))
    if outcome is Outcome.FAILED:
        return [[result] for result in found]
    by_cause: dict[str, list[Result]] = {}
    for result in found:
        by_cause.setdefault(_cause(result), []).append(result)
    return sorted(by_cause.values(), key=lambda group: -len(group))


def _cause(result: Result) -> str:
    """Return the message less what differs from task to task: its name, numbers and ids."""
    return _VARYING.sub("#", result.message.replace(result.task, "#"))


def _lines(group: Group, names: dict[int, Name], columns: int, *, room: int, verbose: bool) -> Iterator[Row]:
    first = group[0]
    if len(group) == 1:
        reward = "-" if first.reward is None else number(first.reward)
        text = f"{padded(names[id(first)].within(columns), columns)} {reward:>6}  {first.message}"
        yield Row(first.verdict, fit(text, room))
        return
    yield Row(first.verdict, fit(f"{len(group)} x {first.message}", room))
    if verbose:
        yield from (Row(None, fit(f"    {names[id(result)].whole}", room)) for result in group)
        return
    yield Row(None, f"    {_examples([names[id(result)] for result in group], room - 4)}")


def _examples(names: Sequence[Name], room: int) -> str:
    """Return the first names, whole where one fits at all, and how many there are beside them."""
    shown = [names[0].within(room - width_of(_more(len(names) - 1)))]
    for name in names[1:EXAMPLES]:
        longer = ", ".join([*shown, name.whole])
        if width_of(longer + _more(len(names) - len(shown) - 1)) > room:
            break
        shown.append(name.whole)
    return ", ".join(shown) + _more(len(names) - len(shown))


def _more(count: int) -> str:
    return f", and {count} more" if count else ""


def _names(results: Sequence[Result]) -> dict[int, Name]:
    """Return what to call each: its task, with the agent and the attempt where there are several."""
    agents = len({result.agent for result in results}) > 1
    attempts = any(result.attempt > 1 for result in results)
    return {
        id(result): Name(
            result.task,
            (f" ({result.agent})" if agents else "") + (f" #{result.attempt}" if attempts else ""),
        )
        for result in results
    }
