"""Which rollouts of two runs belong together: the same task, unchanged, with the same agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

from pytest_rlenv.errors import SpecError
from pytest_rlenv.verdict import Expectation, Outcome

Record = Mapping[str, Any]
AskedFor = Callable[[Record], bool]
"""Tells of a record that only the baseline has whether the run was to have it, too."""

_BELOW = ("<", "<=")
ERROR = "error"
SAME = 1e-9
"""Rewards that differ by no more are the same."""


def everything(_: Record) -> bool:
    """Return that a run was asked for all that the baseline has: a stored run does not say otherwise."""
    return True


class Status(str, Enum):
    """What became of a task from the baseline to the run."""

    BROKEN = "broken"
    FIXED = "fixed"
    CHANGED = "changed"
    """Its reward moved, and its verdict is the same."""
    UNCHANGED = "unchanged"
    NEW = "new"
    GONE = "gone"
    UNSELECTED = "unselected"
    """Only the baseline has it, and the run was not asked for it."""
    EXCLUDED = "excluded"
    """It is in both, and cannot be compared."""


class Key(NamedTuple):
    """What is paired. The model is only a part of it where a run has several for one agent."""

    environment: str
    task: str
    agent: str
    model: str | None


@dataclass(frozen=True)
class Side:
    """One run's rollouts of a task and an agent.

    Attributes:
        records: all of them, as they are stored.
    """

    records: tuple[Record, ...]

    @cached_property
    def scored(self) -> tuple[Record, ...]:
        """Those with a reward that counts: no error, no skip, none in quarantine."""
        return tuple(each for each in self.records if _scored(each))

    @property
    def passed(self) -> int:
        """How many of the scored ones passed."""
        return sum(each["verdict"] == Outcome.PASSED.value for each in self.scored)

    @property
    def passes(self) -> bool:
        """Whether most of the scored ones passed."""
        return 2 * self.passed > len(self.scored)

    @property
    def reward(self) -> float | None:
        """Their mean reward."""
        return fmean(each["reward"] for each in self.scored) if self.scored else None

    @property
    def digests(self) -> frozenset[str]:
        """The contents of the task, as far as they are known."""
        return frozenset(each["task_digest"] for each in self.records if each.get("task_digest"))

    @property
    def why_unscored(self) -> str:
        """Why none of them is scored."""
        if any(each.get("quarantine") for each in self.records):
            return "in quarantine"
        error = any(each["verdict"] == Outcome.ERROR.value for each in self.records)
        return ERROR if error else "skipped"


@dataclass(frozen=True)
class Pair:
    """A task and an agent in both runs, or in one.

    Attributes:
        key: which.
        before, after: the baseline's rollouts and the run's; ``None`` where there are none.
        status: what became of it.
        reason: why it is excluded.
        difference: how far its mean reward moved, above 0 for the better; 0 unless it was compared.
    """

    key: Key
    before: Side | None
    after: Side | None
    status: Status
    reason: str = ""
    difference: float = 0.0

    @property
    def became_error(self) -> bool:
        """Whether the baseline scored it, and an error is all that the run has of it."""
        if self.before is None or self.after is None or not self.before.scored or self.after.scored:
            return False
        return self.after.why_unscored == ERROR

    @property
    def compared(self) -> bool:
        """Whether it tells anything of the agent."""
        return self.before is not None and self.after is not None and self.status is not Status.EXCLUDED


def pair(baseline: Sequence[Record], run: Sequence[Record], asked_for: AskedFor = everything) -> list[Pair]:
    """Pair the rollouts of two runs.

    Args:
        baseline: records of one run.
        run: records of the other.
        asked_for: tells of what only the baseline has whether the run was to have it, too.

    Returns:
        One for each task and agent of either, by environment, agent and task.
    """
    with_model = _several_models(baseline) or _several_models(run)
    before, after = _sides(baseline, with_model), _sides(run, with_model)
    keys = sorted({*before, *after}, key=lambda key: (key.environment, key.agent, key.model or "", key.task))
    return [_pair(key, before.get(key), after.get(key), asked_for) for key in keys]


def lower_is_better(records: Iterable[Record]) -> bool:
    """Return whether the rewards are expected to stay below something, as those of ``nop`` are."""
    return any(_expectation(each).operator in _BELOW for each in records)


def _pair(key: Key, before: Side | None, after: Side | None, asked_for: AskedFor) -> Pair:
    if before is None:
        return Pair(key, None, after, Status.NEW)
    if after is None:
        wanted = any(map(asked_for, before.records))
        return Pair(key, before, None, Status.GONE if wanted else Status.UNSELECTED)
    if reason := _reason_to_exclude(before, after):
        return Pair(key, before, after, Status.EXCLUDED, reason)
    difference = _score(after) - _score(before)
    if before.passes != after.passes:
        status = Status.FIXED if after.passes else Status.BROKEN
    else:
        status = Status.UNCHANGED if abs(difference) <= SAME else Status.CHANGED
    return Pair(key, before, after, status, difference=difference)


def _reason_to_exclude(before: Side, after: Side) -> str:
    if before.digests and after.digests and before.digests != after.digests:
        return "the task has changed"
    unscored = {"baseline": before, "run": after}
    reasons = {name: side.why_unscored for name, side in unscored.items() if not side.scored}
    if len(set(reasons.values())) == 1 and len(reasons) == 2:
        return f"{reasons['run']} in both"
    return " and ".join(f"{reason} in the {name}" for name, reason in reasons.items())


def _score(side: Side) -> float:
    """Return the mean of what is the higher the better."""
    return fmean(_score_of(each) for each in side.scored)


def _score_of(record: Record) -> float:
    expected = _expectation(record)
    if expected.upper is not None or expected.operator == "==":
        # neither a higher nor a lower reward is the better
        return float(record["verdict"] == Outcome.PASSED.value)
    reward = float(record["reward"])
    return -reward if expected.operator in _BELOW else reward


def _expectation(record: Record) -> Expectation:
    try:
        return Expectation.parse(record.get("expected") or "", source="a stored record")
    except SpecError:
        return Expectation()


def _scored(record: Record) -> bool:
    judged = record["verdict"] in (Outcome.PASSED.value, Outcome.FAILED.value)
    return judged and record.get("reward") is not None and not record.get("quarantine")


def _sides(records: Sequence[Record], with_model: bool) -> dict[Key, Side]:
    found: dict[Key, list[Record]] = {}
    for each in records:
        model = each.get("model") if with_model else None
        found.setdefault(Key(each["environment"], each["task"], each["agent"], model), []).append(each)
    return {key: Side(tuple(several)) for key, several in found.items()}


def _several_models(records: Sequence[Record]) -> bool:
    models: dict[str, set[str | None]] = {}
    for each in records:
        models.setdefault(each["agent"], set()).add(each.get("model"))
    return any(len(several) > 1 for several in models.values())
