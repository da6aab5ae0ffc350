"""From the steps of a rollout to its reward, as Harbor 0.26 has it, and to one record.

The mean is taken for each key over the steps that were run, a key that a step does not give counting as 0;
``final`` is the last step that was run. A step without a reward leaves the whole rollout without one: here
that is an error that names the step, where Harbor takes the mean of the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pytest_rlenv.frameworks.harbor.checks import MAX_FAILING
from pytest_rlenv.frameworks.harbor.config import StepRewards
from pytest_rlenv.rollout import Checks, Rollout, StepRecord
from pytest_rlenv.usage import total_usage
from pytest_rlenv.verdict import number


def missed_minimum(rewards: Mapping[str, float] | None, minimum: Mapping[str, float]) -> str | None:
    """Return which reward is below a step's minimum, in words; ``None`` if none is.

    Args:
        rewards: what the step's verifier gave.
        minimum: the least reward by key; one that is not given is below any.
    """
    for key, least in minimum.items():
        given = (rewards or {}).get(key)
        if given is None:
            return f"no {key}, which has a min_reward of {number(least)}"
        if given < least:
            return f"{key} {number(given)} < min_reward {number(least)}"
    return None


def total(rewards: Sequence[Mapping[str, float]], strategy: StepRewards | None) -> dict[str, float]:
    """Return the reward of a rollout from those of the steps that were run.

    Args:
        rewards: of each step, at least one.
        strategy: how to make one of them; the mean by default.
    """
    if strategy is StepRewards.FINAL:
        return dict(rewards[-1])
    keys = dict.fromkeys(key for each in rewards for key in each)
    return {key: _mean([each.get(key, 0) for each in rewards]) for key in keys}


def _mean(values: Sequence[float]) -> float:
    """Return the mean as Harbor rounds it, but a finite one also where the sum is none."""
    mean = sum(values) / len(values)
    return mean if math.isfinite(mean) else sum(value / len(values) for value in values)


def write_only_step(rollout: Rollout, record: StepRecord) -> None:
    """Write the one step of a task without steps into the rollout's record."""
    rollout.rewards = record.rewards
    rollout.notes += record.notes
    rollout.agent_command = record.agent_command
    rollout.verifier_command = record.verifier_command
    rollout.verifier_level = record.verifier_level
    rollout.verifier_image = record.verifier_image
    rollout.checks = record.checks
    rollout.usage = record.usage


def write_steps(rollout: Rollout, records: list[StepRecord], strategy: StepRewards | None) -> None:
    """Write the steps that were run into the rollout's record; its reward only if every one has its own."""
    rollout.steps = records
    rollout.verifier_level = _joined(record.verifier_level for record in records)
    rollout.verifier_image = _joined(record.verifier_image for record in records)
    rollout.checks = _all_checks(records)
    rollout.usage = total_usage(record.usage for record in records)
    for record in records:
        for note in record.notes:
            rollout.note(note.code, f"step {record.name}: {note.text}")
    rewards = [record.rewards for record in records if record.rewards is not None]
    if not records or len(rewards) < len(records):
        return
    rollout.rewards = total(rewards, strategy)
    if strategy is not StepRewards.FINAL and any(each.keys() != rewards[0].keys() for each in rewards):
        rollout.note("step-keys-differ", "the steps give different rewards: one that is missing counts as 0")


def _joined(words: Iterable[str | None]) -> str | None:
    return ", ".join(dict.fromkeys(word for word in words if word)) or None


def _all_checks(records: Iterable[StepRecord]) -> Checks | None:
    found = [(record.name, record.checks) for record in records if record.checks]
    if not found:
        return None
    failing = [f"{name}: {check}" for name, checks in found for check in checks.failing]
    statuses: Counter[str] = Counter()
    for _, checks in found:
        statuses.update(checks.statuses)
    return Checks(
        source=_joined(checks.source for _, checks in found) or "",
        passed=sum(checks.passed for _, checks in found),
        failed=sum(checks.failed for _, checks in found),
        other=sum(checks.other for _, checks in found),
        statuses=dict(statuses),
        failing=failing[:MAX_FAILING],
    )
