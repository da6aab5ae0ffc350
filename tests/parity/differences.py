"""When two outcomes are equal, and why they may differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runs import Outcome


@dataclass(frozen=True)
class Row:
    """One task's outcomes beside each other; ``reason`` is empty if they are equal."""

    task: str
    agent: str
    theirs: str
    ours: str
    equal: bool
    reason: str

    @property
    def unexplained(self) -> bool:
        """True for a difference without a reason."""
        return not self.equal and self.reason == UNEXPLAINED


UNEXPLAINED = "NOT EXPLAINED"
_FLOAT_BITS = 1023


def _judged(theirs: Outcome, ours: Outcome) -> bool:
    """True if both have a reward and nothing else, so that the verifiers saw something else."""
    return bool(theirs.rewards) and bool(ours.rewards) and not theirs.error and not ours.error


Rule = tuple[str, Callable[[Outcome, Outcome], bool]]

RULES: tuple[Rule, ...] = (
    (
        "a task without a reference solution is a skip; Harbor counts an exception",
        lambda theirs, ours: ours.skipped and "solution" in ours.message and bool(theirs.error),
    ),
    (
        "more than this machine has is a skip; Harbor gives the box what there is",
        lambda theirs, ours: ours.skipped and "this machine has" in ours.message,
    ),
    (
        "a device that is not here is a skip; Harbor's start fails",
        lambda theirs, ours: ours.skipped and "GPU" in ours.message and bool(theirs.error),
    ),
    (
        "only Linux containers: a skip; Harbor refuses the engine",
        lambda theirs, ours: ours.skipped and "windows" in ours.message and bool(theirs.error),
    ),
    (
        "a time-out of the agent is a note beside the reward; Harbor's is an exception beside it",
        lambda theirs, ours: (
            theirs.error == "AgentTimeoutError"
            and theirs.rewards == ours.rewards is not None
            and "agent-timeout" in ours.notes
        ),
    ),
    (
        "a timed-out agent is killed; Harbor's goes on beside the verifier",
        lambda theirs, ours: theirs.error == "AgentTimeoutError" and "agent-timeout" in ours.notes,
    ),
    (
        "an empty set of rewards is a missing reward; Harbor takes it for a result",
        lambda theirs, ours: theirs.rewards == {} and ours.error in ("RewardMissing", "RewardInvalid"),
    ),
    (
        "a network policy holds on any engine; Harbor needs an image of a registry for it, and found none",
        lambda theirs, ours: (
            "is not supported by EnvironmentType.DOCKER" in theirs.message and not ours.error
        ),
    ),
    (
        "the same rewards, but which of them counts is not said: an error that asks; Harbor averages each",
        lambda theirs, ours: theirs.rewards == ours.rewards and "reward_key" in ours.message,
    ),
    (
        "a step's setup.sh that fails is an error; Harbor takes the mean of the steps before",
        lambda theirs, ours: ours.error == "StepSetupFailed" and theirs.steps == ours.steps,
    ),
    (
        "a step without a reward is an error that names it; Harbor takes the mean of the others",
        lambda theirs, ours: (
            None in theirs.steps.values() and theirs.steps == ours.steps and ours.message.startswith("step ")
        ),
    ),
    (
        "of several rewards none is called reward, so one has to be chosen; Harbor judges nothing",
        lambda theirs, ours: theirs.rewards == ours.rewards and ours.message.startswith("several rewards"),
    ),
    (
        "a reward outside the range that the task declares for us, in [metadata.rlenv], is an error",
        lambda theirs, ours: theirs.rewards == ours.rewards and ours.error == "RewardContractBroken",
    ),
    (
        "a whole number that no float can hold is an error; Harbor takes it, and ends on it later",
        lambda theirs, ours: (
            bool(theirs.rewards) and ours.error == "RewardInvalid" and "too large" in ours.message
        ),
    ),
    (
        "a key given twice in reward.json is an error; Harbor takes the last",
        lambda theirs, ours: (
            bool(theirs.rewards) and ours.error == "RewardInvalid" and "twice" in ours.message
        ),
    ),
    (
        "of two artifacts at one place the first counts; Harbor gives its content to the verifier as both",
        lambda theirs, ours: _judged(theirs, ours) and "it is left out" in ours.notes.get("task-warning", ""),
    ),
    (
        "an artifact that is a link is what it leads to; Harbor's is the link, alone in the copy",
        lambda theirs, ours: _judged(theirs, ours) and "artifact-link" in ours.notes,
    ),
    (
        "the first process of a box may be asked to end (TERM), which ends the box; Harbor's takes no notice",
        lambda theirs, ours: ours.error == "SandboxFailed" and "PID 1 ended with exit code 0" in ours.message,
    ),
    (
        "a link is not followed to a reward",
        lambda theirs, ours: ours.error == "RewardInvalid" and "link" in ours.message,
    ),
)
"""The differences that are meant, in words, each with its test; the first that holds is the reason."""


def compare(task: str, agent: str, theirs: Outcome, ours: Outcome) -> Row:
    """Return the row of one task."""
    equal = not ours.fault and _equal(theirs, ours)
    rules = () if ours.fault else RULES
    reason = "" if equal else next((text for text, holds in rules if holds(theirs, ours)), UNEXPLAINED)
    return Row(task, agent, _words(theirs), _words(ours), equal, reason)


def _equal(theirs: Outcome, ours: Outcome) -> bool:
    """Equal rewards, and no reward where there is none; an exception beside a reward is a difference."""
    if theirs.rewards is None or ours.rewards is None:
        return theirs.rewards is None and ours.rewards is None and bool(theirs.error) and bool(ours.error)
    return (
        theirs.rewards == ours.rewards and theirs.steps == ours.steps and not theirs.error and not ours.error
    )


def _words(outcome: Outcome) -> str:
    parts = []
    if outcome.skipped:
        parts.append("skipped")
    if outcome.rewards is not None:
        parts.append(", ".join(f"{key} {_number(value)}" for key, value in outcome.rewards.items()) or "{}")
    if outcome.steps:
        found = (f"{name} {_reward(rewards)}" for name, rewards in outcome.steps.items())
        parts.append(f"steps: {', '.join(found)}")
    if outcome.error:
        parts.append(outcome.error)
    if outcome.message and (outcome.skipped or outcome.error in ("NoTrial", "Timeout")):
        parts.append(outcome.message[:120].replace("|", "/"))
    return "; ".join(parts) or "no reward"


def _reward(rewards: dict[str, float] | None) -> str:
    return "none" if rewards is None else "/".join(map(_number, rewards.values()))


def _number(value: float) -> str:
    """Return a reward in short; Harbor also takes whole numbers that no float can hold."""
    return "a huge number" if isinstance(value, int) and value.bit_length() > _FLOAT_BITS else f"{value:g}"
