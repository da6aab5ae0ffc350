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
_MIRRORED = {">=": "<=", "<=": ">=", ">": "<", "<": ">"}
_EXPECTATION = re.compile(r"\s*(?P<key>[^<>=]*?)\s*(?P<op>>=|<=|==|>|<)\s*(?P<value>\S+)\s*")
_BETWEEN = re.compile(
    r"\s*(?P<first>[^<>=\s]+)\s*(?P<op1>>=|<=|>|<)"
    r"\s*(?P<key>[^<>=\s](?:[^<>=]*[^<>=\s])?)"
    r"\s*(?P<op2>>=|<=|>|<)\s*(?P<last>[^<>=\s]+)\s*"
)

Bound = tuple[str, float]
"""An operator and what the reward is compared with by it."""


@dataclass(frozen=True)
class Expectation:
    """What a reward must be for the rollout to pass.

    Attributes:
        operator: ``>=``, ``<=``, ``>``, ``<`` or ``==``.
        value: what the reward is compared with.
        upper: of two bounds the upper one, with ``<=`` or ``<``; the first two are the lower one then.
        key: the named reward to judge; ``None`` is the main one.
        reward_range: lowest and highest reward that the task declares as possible; ``None`` is any.
        source: who set it, for messages.
    """

    operator: str = ">="
    value: float = 1.0
    key: str | None = None
    reward_range: tuple[float, float] | None = None
    source: str = "default"
    upper: Bound | None = None

    @classmethod
    def parse(cls, text: str, *, source: str) -> Expectation:
        """Read ``>= 0.55``, ``<= 0.6``, ``accuracy >= 0.9`` or ``0.4 <= accuracy <= 0.6``.

        Between two bounds ``reward`` stands for the reward that is judged anyway, whatever it is called.

        Raises:
            SpecError: the text is of another form, a number is not finite, or no reward can meet it.
        """
        if between := _BETWEEN.fullmatch(text):
            key = None if between["key"] == MAIN_REWARD_KEY else between["key"]
            lower = _MIRRORED[between["op1"]], _finite(between["first"])
            upper = between["op2"], _finite(between["last"])
            if lower[0] in ("<", "<="):  # 0.6 >= reward >= 0.4
                lower, upper = upper, lower
            return cls._between(lower, upper, key, text=text, source=source)
        match = _EXPECTATION.fullmatch(text)
        value = _finite(match["value"]) if match else None
        if match is None or value is None:
            raise _no_expectation(text, source)
        return cls(match["op"], value, match["key"] or None, source=source)

    @classmethod
    def _between(
        cls,
        lower: tuple[str, float | None],
        upper: tuple[str, float | None],
        key: str | None,
        *,
        text: str,
        source: str,
    ) -> Expectation:
        (above, low), (below, high) = lower, upper
        if above not in (">", ">=") or below not in ("<", "<=") or low is None or high is None:
            raise _no_expectation(text, source)
        if low > high or (low == high and (above, below) != (">=", "<=")):
            raise SpecError(f"{source}: no reward can meet {text!r}", hint="the lower bound comes first")
        return cls(above, low, key, source=source, upper=(below, high))

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """What the reward must meet: one bound or two."""
        first = (self.operator, self.value)
        return (first,) if self.upper is None else (first, self.upper)

    def broken(self, reward: float) -> Bound | None:
        """Return the bound that the reward does not meet, ``None`` if it meets all."""
        return next((bound for bound in self.bounds if not _HOLDS[bound[0]](reward, bound[1])), None)

    def holds(self, reward: float) -> bool:
        """Return whether the reward meets it."""
        return self.broken(reward) is None

    def describe(self) -> str:
        """Return it in words, such as ``>= 1.0`` or ``0.4 <= reward <= 0.6``; they can be parsed again."""
        if self.upper is not None:
            below, high = self.upper
            name = self.key or MAIN_REWARD_KEY
            return f"{number(self.value)} {_MIRRORED[self.operator]} {name} {below} {number(high)}"
        name = f"{self.key} " if self.key else ""
        return f"{name}{self.operator} {number(self.value)}"


def _finite(text: str) -> float | None:
    """Return a text as a number, ``None`` if it is none or not a finite one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _no_expectation(text: str, source: str) -> SpecError:
    return SpecError(
        f"{source}: {text!r} is not an expectation",
        hint='write ">= 0.55", "< 1", "== 0", "accuracy >= 0.9" or "0.4 <= reward <= 0.6"',
    )


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
    """Return the verdict. Pure: the same rollout always gets the same one."""
    if rollout.skip_reason is not None:
        return Verdict(Outcome.SKIPPED, rollout.skip_reason)
    if rollout.error is not None:
        return Verdict(Outcome.ERROR, rollout.error.message, rollout.error)
    try:
        reward = _reward_to_judge(rollout, expectation)
    except RlenvError as error:
        return Verdict(Outcome.ERROR, error.message, ErrorInfo.of(error))
    broken = expectation.broken(reward)
    if broken is None:
        return Verdict(Outcome.PASSED)
    return Verdict(Outcome.FAILED, _failure(rollout, expectation, reward, broken))


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


def _failure(rollout: Rollout, expectation: Expectation, reward: float, broken: Bound) -> str:
    name = rollout.reward_key or MAIN_REWARD_KEY
    holds, value = broken
    text = f"{name} {number(reward)} {_OPPOSITE[holds]} {number(value)}"
    if holds in ("<", "<=") and rollout.agent == "nop":
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
