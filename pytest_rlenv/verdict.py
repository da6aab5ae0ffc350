"""THE rule: a rollout and an expectation give passed, failed, error or skipped.

Every report takes its verdict from :func:`judge`; nothing else in the package compares a reward.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from pytest_rlenv.errors import RewardContractBroken, RewardInvalid, RewardMissing, RlenvError, SpecError
from pytest_rlenv.rollout import MAIN_REWARD_KEY, Checks, ErrorInfo, Rollout, StepRecord, reward_of

SHOWN_STEPS = 8
"""Steps that a message names."""
SHOWN_CHECKS = 3
"""Failing checks that a message names."""


class Outcome(str, Enum):
    """The four verdicts."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


_HOLDS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}
_OPPOSITE = {">=": "<", "<=": ">", ">": "<=", "<": ">=", "==": "!="}
_EXPECTATION = re.compile(r"\s*(?P<key>[^<>=]*?)\s*(?P<op>>=|<=|==|>|<)\s*(?P<value>\S+)\s*")


@dataclass(frozen=True)
class Expectation:
    """What a reward must be for the rollout to pass.

    Attributes:
        operator: ``>=``, ``<=``, ``>``, ``<`` or ``==``.
        value: what the reward is compared with.
        key: the named reward to judge; ``None`` is the main one.
        reward_range: lowest and highest reward that the task declares as possible; ``None`` is any.
        source: who set it, for messages.
    """

    operator: str = ">="
    value: float = 1.0
    key: str | None = None
    reward_range: tuple[float, float] | None = None
    source: str = "default"

    @classmethod
    def parse(cls, text: str, *, source: str) -> Expectation:
        """Read ``>= 0.55``, ``<= 0.6`` or ``accuracy >= 0.9``.

        Raises:
            SpecError: the text is of another form, or its number is not finite.
        """
        match = _EXPECTATION.fullmatch(text)
        try:
            value = float(match["value"]) if match else math.nan
        except ValueError:
            value = math.nan
        if match is None or not math.isfinite(value):
            raise SpecError(
                f"{source}: {text!r} is not an expectation",
                hint='write ">= 0.55", "< 1", "== 0" or "accuracy >= 0.9"',
            )
        return cls(match["op"], value, match["key"] or None, source=source)

    def holds(self, reward: float) -> bool:
        """Return whether the reward meets it."""
        return _HOLDS[self.operator](reward, self.value)

    def describe(self) -> str:
        """Return it in words, such as ``>= 1.0``."""
        name = f"{self.key} " if self.key else ""
        return f"{name}{self.operator} {number(self.value)}"


@dataclass(frozen=True)
class Verdict:
    """The verdict on one rollout.

    Attributes:
        outcome: one of the four.
        message: why, in one line; empty when passed.
        error: what went wrong, when the outcome is error.
    """

    outcome: Outcome
    message: str = ""
    error: ErrorInfo | None = None


def expectation_for(*, must_not_score: bool, threshold: float, reward_key: str | None = None) -> Expectation:
    """Return the default rule: reach the threshold, or stay below it for a negative control such as nop."""
    return Expectation("<" if must_not_score else ">=", threshold, reward_key, source="threshold")


def judge(rollout: Rollout, expectation: Expectation) -> Verdict:
    """Return the verdict (design, section 4). Pure: the same rollout always gets the same one."""
    if rollout.skip_reason is not None:
        return Verdict(Outcome.SKIPPED, rollout.skip_reason)
    if rollout.error is not None:
        return Verdict(Outcome.ERROR, rollout.error.message, rollout.error)
    try:
        reward = _reward_to_judge(rollout, expectation)
    except RlenvError as error:
        return Verdict(Outcome.ERROR, error.message, ErrorInfo.of(error))
    if expectation.holds(reward):
        return Verdict(Outcome.PASSED)
    return Verdict(Outcome.FAILED, _failure(rollout, expectation, reward))


def number(value: float) -> str:
    """Return a number as people write it, with as many digits as tell it apart."""
    short = f"{value:g}"
    text = short if float(short) == value else repr(value)
    return text if any(c in text for c in ".en") else text + ".0"


def with_range(expectation: Expectation, reward_range: tuple[float, float] | None) -> Expectation:
    """Return the expectation with the task's declared range."""
    return replace(expectation, reward_range=reward_range) if reward_range else expectation


def _reward_to_judge(rollout: Rollout, expectation: Expectation) -> float:
    if not rollout.rewards:
        raise RewardMissing("the rollout ended without a reward")
    for key, value in rollout.rewards.items():
        if not math.isfinite(value):
            raise RewardInvalid(f"reward {key} is {value}, not a finite number")
    reward = rollout.reward
    if reward is None:
        raise _no_such_key(rollout.rewards, rollout.reward_key)
    if expectation.reward_range is not None:
        low, high = expectation.reward_range
        if not low <= reward <= high:
            raise RewardContractBroken(
                f"reward contract: reward {number(reward)} is outside the range "
                f"[{number(low)}, {number(high)}] that the task declares",
                hint="correct the verifier, or the task's [metadata.rlenv] reward_range",
            )
    return reward


def _no_such_key(rewards: dict[str, float], key: str | None) -> RewardInvalid:
    listed = ", ".join(f"{name} = {number(value)}" for name, value in rewards.items())
    if key is None:
        return RewardInvalid(
            f"several rewards and none is called {MAIN_REWARD_KEY!r}: {listed}",
            hint="choose the one to judge with --rlenv-reward-key",
        )
    return RewardInvalid(
        f"no reward is called {key!r}: {listed}", hint="choose one of these with --rlenv-reward-key"
    )


def _failure(rollout: Rollout, expectation: Expectation, reward: float) -> str:
    name = rollout.reward_key or MAIN_REWARD_KEY
    text = f"{name} {number(reward)} {_OPPOSITE[expectation.operator]} {number(expectation.value)}"
    if expectation.operator in ("<", "<=") and rollout.agent == "nop":
        text = f"doing nothing scores: nop got {text}"
    if expectation.source not in ("default", "threshold"):
        text += f" (expected {expectation.describe()} by {expectation.source})"
    return text + _steps(rollout) + _checks(rollout.checks)


def _steps(rollout: Rollout) -> str:
    """Return what each step earned, such as `` (steps: build 1.0, fix 0.0)``."""
    shown = [_step(step, rollout.reward_key) for step in rollout.steps]
    if len(shown) > SHOWN_STEPS:
        shown[SHOWN_STEPS:] = [f"+{len(shown) - SHOWN_STEPS} more"]
    return f" (steps: {', '.join(shown)})" if shown else ""


def _step(step: StepRecord, key: str | None) -> str:
    reward = reward_of(step.rewards, key)
    earned = f"{step.name} {'-' if reward is None else number(reward)}"
    return f"{earned}; {step.gate}" if step.gate else earned


def _checks(checks: Checks | None) -> str:
    """Return which checks failed, such as ``; 2 of 5 checks failed: test_a, test_b``."""
    if checks is None or not checks.failed:
        return ""
    more = checks.failed - len(checks.failing[:SHOWN_CHECKS])
    names = [*checks.failing[:SHOWN_CHECKS], *([f"+{more} more"] if more and checks.failing else [])]
    count = f"; {checks.failed} of {checks.passed + checks.failed + checks.other} checks failed"
    return f"{count}: {', '.join(names)}" if names else count
