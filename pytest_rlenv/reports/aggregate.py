"""The one function that turns rollouts into numbers; every report shows what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pytest_rlenv.verdict import Outcome


@dataclass(frozen=True)
class Result:
    """What a summary keeps of one rollout; a run of 10,000 holds them all in memory.

    Attributes:
        environment, revision, task, agent: which rollout.
        verdict: its verdict.
        reward: the judged reward; ``None`` if there is none.
        message: why it did not pass, in one line.
        error_kind: of an error.
        seconds: how long it took.
        warnings: what the task's author should know.
        logs: its folder, relative to the run's.
        sandbox: where it ran; empty if it never came to that.
    """

    environment: str
    task: str
    agent: str
    verdict: Outcome
    revision: str | None = None
    reward: float | None = None
    message: str = ""
    error_kind: str | None = None
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    logs: str | None = None
    sandbox: str = ""

    @classmethod
    def of(cls, record: dict[str, Any]) -> Result:
        """Read it from a record of ``results.jsonl``."""
        error = record.get("error") or {}
        message = record.get("message", "")
        return cls(
            environment=record["environment"],
            task=record["task"],
            agent=record["agent"],
            verdict=Outcome(record["verdict"]),
            revision=record.get("revision"),
            reward=record.get("reward"),
            message=f"{error['type']} [{error['stage']}]: {message}" if error else message,
            error_kind=error.get("kind"),
            seconds=record.get("seconds", 0.0),
            warnings=tuple(n["text"] for n in record.get("notes", ()) if n["code"] == "task-warning"),
            logs=record.get("logs"),
            sandbox=record.get("sandbox") or "",
        )


@dataclass(frozen=True)
class Aggregate:
    """Numbers over the rollouts of one environment and agent.

    Attributes:
        total: rollouts that ended, skipped ones included.
        scored: those with a reward.
        counts: how many of each verdict.
        mean_scored: mean reward over the scored ones; ``None`` if there are none.
        mean_errors_as_0: mean over scored ones and errors, each error as 0; ``None`` if there are none.
        error_kinds: how many errors of each kind, the commonest first.
    """

    total: int = 0
    scored: int = 0
    counts: Counter[Outcome] = field(default_factory=Counter)
    mean_scored: float | None = None
    mean_errors_as_0: float | None = None
    error_kinds: tuple[tuple[str, int], ...] = ()


def aggregate(results: Iterable[Result]) -> Aggregate:
    """Return the numbers; the denominator never shrinks without being shown (faults A8)."""
    counts: Counter[Outcome] = Counter()
    kinds: Counter[str] = Counter()
    rewards: list[float] = []
    for result in results:
        counts[result.verdict] += 1
        if result.verdict is Outcome.ERROR:
            kinds[result.error_kind or "unknown"] += 1
        elif result.reward is not None:
            rewards.append(result.reward)
    attempted = len(rewards) + counts[Outcome.ERROR]
    return Aggregate(
        total=counts.total(),
        scored=len(rewards),
        counts=counts,
        mean_scored=sum(rewards) / len(rewards) if rewards else None,
        mean_errors_as_0=sum(rewards) / attempted if attempted else None,
        error_kinds=tuple(kinds.most_common()),
    )
