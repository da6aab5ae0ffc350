"""The one function that turns rollouts into numbers; every report shows what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from pytest_rlenv.reports.statistics.intervals import bootstrap_mean, wilson
from pytest_rlenv.reports.statistics.passing import pass_at_k, pass_hat_k
from pytest_rlenv.usage import cost_of
from pytest_rlenv.verdict import Outcome

SHOWN_NOTES = ("task-warning", "selection-unverified")
"""Codes of notes that a summary shows whatever the verdict: a task that passed may have been another one."""


@dataclass(frozen=True)
class Result:
    """What a summary keeps of one rollout; a run of 10,000 holds them all in memory.

    Attributes:
        environment, revision, task, agent, attempt: which rollout.
        verdict: its verdict; skipped for one in quarantine, whatever came of it, since it counts nowhere.
        reward: the judged reward; ``None`` if there is none that counts.
        message: why it did not pass, in one line.
        error_kind: of an error.
        seconds: how long it took.
        warnings: what the task's author should know.
        logs: its folder, relative to the run's.
        sandbox: where it ran, with what stands in for one where it had none; empty if it never came to that.
        tries: how often it was begun: more than once after errors that are worth a retry.
        quarantined: whether it is in quarantine.
        expected: what the reward was to be. Two tests may ask different things of the same task.
        cost: US dollars that it cost as the agent says, earlier tries included; ``None`` if it does not.
    """

    environment: str
    task: str
    agent: str
    verdict: Outcome
    revision: str | None = None
    attempt: int = 1
    reward: float | None = None
    message: str = ""
    error_kind: str | None = None
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    logs: str | None = None
    sandbox: str = ""
    tries: int = 1
    quarantined: bool = False
    expected: str = ""
    cost: float | None = None

    @classmethod
    def of(cls, record: dict[str, Any]) -> Result:
        """Read it from a record of ``results.jsonl``."""
        error = record.get("error") or {}
        message = record.get("message", "")
        if error:
            message = f"{error['type']} [{error['stage']}]: {message}"
        verdict = Outcome(record["verdict"])
        held = record.get("quarantine")
        if held and verdict is not Outcome.SKIPPED:
            message = f"quarantined until {held['until']}: {held['reason']} ({message or verdict.value})"
        return cls(
            environment=record["environment"],
            task=record["task"],
            agent=record["agent"],
            verdict=Outcome.SKIPPED if held else verdict,
            revision=record.get("revision"),
            attempt=record.get("attempt", 1),
            reward=None if held else record.get("reward"),
            message=message,
            error_kind=None if held else error.get("kind"),
            seconds=record.get("seconds", 0.0),
            warnings=tuple(n["text"] for n in record.get("notes", ()) if n["code"] in SHOWN_NOTES),
            logs=record.get("logs"),
            sandbox=_where(record),
            tries=len(record.get("tries") or ()) + 1,
            quarantined=bool(held),
            expected=record.get("expected") or "",
            cost=cost_of(record),
        )


@dataclass(frozen=True)
class Estimate:
    """A number with its interval.

    Attributes:
        value: the number.
        low, high: its interval of 95 %.
        n: over how many it goes.
    """

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class PassAtK:
    """Passing in k attempts, as a mean over tasks of unbiased estimates.

    Attributes:
        k: how many attempts.
        at_least_one: pass@k, the chance that at least one of k passes.
        all_of_them: pass^k, the chance that all k pass.
        tasks: tasks with k scored attempts or more; the others have no such estimate.
    """

    k: int
    at_least_one: float
    all_of_them: float
    tasks: int


@dataclass(frozen=True)
class Flaky:
    """A task of which some attempts passed and some failed. Errors and skips do not make one.

    Attributes:
        task: its id.
        passed: attempts that passed.
        rate: the share of them, over scored attempts.
    """

    task: str
    passed: int
    rate: Estimate


@dataclass(frozen=True)
class Aggregate:
    """Numbers over the rollouts of one environment and agent.

    Attributes:
        total: rollouts that ended, skipped ones included.
        scored: those with a reward.
        counts: how many of each verdict.
        mean_scored: mean reward over the scored ones; ``None`` if there are none.
        mean_errors_as_0: mean over scored ones and errors, each error as 0; ``None`` if there are none. No
            other number takes an error for a 0.
        error_kinds: how many errors of each kind, the commonest first.
        tasks: how many tasks they are of.
        attempts: how many attempts a task has: the highest number of one.
        pass_rate: share of passed ones over scored ones, with Wilson's interval; ``None`` if none is scored.
        mean_reward: mean over tasks of their attempts' mean reward, with the bootstrap's interval, for which
            tasks are drawn: attempts of one task are not independent. ``None`` if none is scored.
        passing: pass@k and pass^k for each k up to ``attempts``, if any task has k scored attempts.
        flaky: tasks of mixed verdicts, by id.
        retried: rollouts that took more than one try.
        quarantined: rollouts in quarantine; they are counted as skipped.
        cost: US dollars, as far as the agents say; ``None`` if none does.
        cost_known: how many rollouts say what they cost.
    """

    total: int = 0
    scored: int = 0
    counts: Counter[Outcome] = field(default_factory=Counter)
    mean_scored: float | None = None
    mean_errors_as_0: float | None = None
    error_kinds: tuple[tuple[str, int], ...] = ()
    tasks: int = 0
    attempts: int = 1
    pass_rate: Estimate | None = None
    mean_reward: Estimate | None = None
    passing: tuple[PassAtK, ...] = ()
    flaky: tuple[Flaky, ...] = ()
    retried: int = 0
    quarantined: int = 0
    cost: float | None = None
    cost_known: int = 0


def aggregate(results: Iterable[Result]) -> Aggregate:
    """Return the numbers; a denominator never shrinks without being shown."""
    rows = list(results)
    counts = Counter(row.verdict for row in rows)
    kinds = Counter(row.error_kind or "unknown" for row in rows if row.verdict is Outcome.ERROR)
    scored = [row for row in rows if row.reward is not None and row.verdict is not Outcome.ERROR]
    by_task: dict[str, list[float]] = {}
    samples: dict[tuple[str, str], list[bool]] = {}
    for row in scored:
        by_task.setdefault(row.task, []).extend(_rewards([row]))
        samples.setdefault((row.task, row.expected), []).append(row.verdict is Outcome.PASSED)
    rewards = _rewards(scored)
    attempted = len(rewards) + counts[Outcome.ERROR]
    attempts = max((row.attempt for row in rows), default=1)
    costs = [row.cost for row in rows if row.cost is not None]
    return Aggregate(
        total=len(rows),
        scored=len(scored),
        counts=counts,
        mean_scored=fmean(rewards) if rewards else None,
        mean_errors_as_0=sum(rewards) / attempted if attempted else None,
        error_kinds=tuple(kinds.most_common()),
        tasks=len({row.task for row in rows}),
        attempts=attempts,
        pass_rate=_share(counts[Outcome.PASSED], len(scored)) if scored else None,
        mean_reward=_mean([fmean(of_task) for of_task in by_task.values()]) if scored else None,
        passing=_passing(samples.values(), attempts),
        flaky=_flaky(samples),
        retried=sum(row.tries > 1 for row in rows),
        quarantined=sum(row.quarantined for row in rows),
        cost=sum(costs) if costs else None,
        cost_known=len(costs),
    )


def _where(record: Mapping[str, Any]) -> str:
    sandbox, runner = record.get("sandbox") or "", record.get("runner")
    return f"{sandbox}: {runner}" if sandbox == "none" and runner else sandbox


def _rewards(rows: Iterable[Result]) -> list[float]:
    return [row.reward for row in rows if row.reward is not None]


def _share(passed: int, n: int) -> Estimate:
    return Estimate(passed / n, *wilson(passed, n), n)


def _mean(values: Sequence[float]) -> Estimate:
    return Estimate(fmean(values), *bootstrap_mean(values), len(values))


def _passing(samples: Iterable[Sequence[bool]], attempts: int) -> tuple[PassAtK, ...]:
    seen = [(len(passes), sum(passes)) for passes in samples]

    def mean(estimate: Callable[[int, int, int], float], k: int) -> float:
        return fmean(estimate(n, passed, k) for n, passed in seen if n >= k)

    tasks = {k: sum(n >= k for n, _ in seen) for k in range(1, attempts + 1)}
    return tuple(PassAtK(k, mean(pass_at_k, k), mean(pass_hat_k, k), n) for k, n in tasks.items() if n)


def _flaky(samples: Mapping[tuple[str, str], Sequence[bool]]) -> tuple[Flaky, ...]:
    counted = ((task, sum(passes), len(passes)) for (task, _), passes in sorted(samples.items()))
    return tuple(Flaky(task, passed, _share(passed, n)) for task, passed, n in counted if 0 < passed < n)
