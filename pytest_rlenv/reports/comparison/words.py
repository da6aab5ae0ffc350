"""A comparison in words: the sentences and rows that every form of it shows."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_rlenv.reports.comparison.compared import AgentChange, Comparison
from pytest_rlenv.reports.comparison.pairing import Pair, Side, Status
from pytest_rlenv.reports.statistics.paired import Change
from pytest_rlenv.verdict import number

LISTED = (Status.BROKEN, Status.FIXED, Status.CHANGED, Status.NEW, Status.GONE, Status.EXCLUDED)
"""What became of tasks, in the order in which they are listed."""


def conclusion(change: AgentChange) -> str:
    """Return what follows for one agent, with what could have been seen where nothing was."""
    effect = change.effect
    moved = "rose" if change.lower_is_better else "fell"
    fall = "rise" if change.lower_is_better else "fall"
    if effect.verdict is Change.REGRESSION:
        return f"the mean reward {moved} by {-effect.difference:.3f}, more than chance explains"
    if effect.verdict is Change.NO_REGRESSION:
        return f"no sign of a {fall}, and one of {effect.margin:g} or more is ruled out"
    able = f"{count(effect.tasks, 'task')} with {attempts(change)}"
    if effect.detectable is None:
        seen = f"{able} can show no {fall}, however great"
    else:
        seen = f"{able} can show one of {effect.detectable:.3f} or more"
    return f"a {fall} of up to {max(-effect.low, 0.0):.3f} is not ruled out; {seen}"


def attempts(change: AgentChange) -> str:
    """Return how many attempts the tasks have."""
    fewest, most = change.attempts
    return count(most, "attempt") if fewest == most else f"{fewest} to {most} attempts"


def not_compared(comparison: Comparison) -> Iterator[str]:
    """Yield what the numbers leave out, a line each."""
    excluded = comparison.excluded
    if excluded:
        reasons = ", ".join(f"{many} {reason}" for reason, many in excluded.most_common())
        yield f"{count(excluded.total(), 'pair')} not compared: {reasons}"
    if lost := comparison.lost_attempts:
        yield f"{count(lost, 'attempt')} without a reward left out of compared tasks"
    only = {"run": Status.NEW, "baseline": Status.GONE}
    counts = {where: (len(comparison.of(status)), status.value) for where, status in only.items()}
    if parts := [f"only in the {where}: {many} {word}" for where, (many, word) in counts.items() if many]:
        yield "; ".join(parts)
    if comparison.of(Status.UNSELECTED):
        yield unselected(comparison)


def unselected(comparison: Comparison) -> str:
    """Return how much of the baseline the run was not asked for."""
    left = len(comparison.of(Status.UNSELECTED))
    before = [each.key for each in comparison.pairs if each.before is not None]
    agents = {(key.agent, key.model) for key in before}
    what = "tasks" if len(agents) == 1 else "pairs of task and agent"
    return f"{left} of the baseline's {len(before)} {what} {'was' if left == 1 else 'were'} not selected"


def counted(comparison: Comparison) -> str:
    """Return how many tasks became what, such as ``2 broken, 1 fixed, 37 unchanged``."""
    ends = (*LISTED, Status.UNCHANGED, Status.UNSELECTED)
    counts = ((len(comparison.of(status)), status.value) for status in ends)
    return ", ".join(f"{many} {name}" for many, name in counts if many) or "no tasks"


def nothing_paired(comparison: Comparison) -> str:
    """Return why there is no number at all."""
    before, after = _agents(comparison, Status.GONE, Status.UNSELECTED), _agents(comparison, Status.NEW)
    text = "nothing could be compared"
    if before and after and before != after:
        text += f": the baseline has agent {', '.join(before)}, the run {', '.join(after)}"
        if len(before) == len(after) == 1:
            text += f" (python -m pytest_rlenv compare --agent {before[0]}={after[0]} ... compares them)"
    return text


def moved(pair: Pair) -> str:
    """Return how a pair's reward moved, such as ``1.0 -> 0.0``."""
    return f"{_reward(pair.before)} -> {_reward(pair.after)}"


def passed(pair: Pair) -> str:
    """Return how many attempts passed, such as ``3/4 -> 1/4``; empty where there is one only."""
    sides = [side for side in (pair.before, pair.after) if side is not None]
    if all(len(side.scored) <= 1 for side in sides):
        return ""
    return " -> ".join(
        "-" if side is None else f"{side.passed}/{len(side.scored)}" for side in (pair.before, pair.after)
    )


def names(comparison: Comparison) -> dict[int, str]:
    """Return what to call each pair, by identity: its task, and what else tells it from others."""
    environments = {each.key.environment for each in comparison.pairs}
    agents = {(each.key.agent, each.key.model) for each in comparison.pairs}
    found = {}
    for each in comparison.pairs:
        key = each.key
        name = f"{key.environment}::{key.task}" if len(environments) > 1 else key.task
        agent = f"{key.agent}, {key.model}" if key.model else key.agent
        found[id(each)] = f"{name} ({agent})" if len(agents) > 1 else name
    return found


def p_value(p: float) -> str:
    """Return a p as people write it."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def count(many: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{many} {what}" if many == 1 else f"{many} {what}s"


def _reward(side: Side | None) -> str:
    if side is None or side.reward is None:
        return "-"
    return number(round(side.reward, 4))


def _agents(comparison: Comparison, *statuses: Status) -> list[str]:
    return sorted({each.key.agent for status in statuses for each in comparison.of(status)})
