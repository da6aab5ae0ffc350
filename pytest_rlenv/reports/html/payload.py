"""What the page shows first: the run's facts and numbers, and a row for each rollout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from pytest_rlenv.reports.aggregate import Aggregate, Estimate, Result, aggregate
from pytest_rlenv.reports.html.baseline import Against
from pytest_rlenv.reports.html.facts import labelled, times
from pytest_rlenv.reports.html.figures import error_causes, histogram, stage_times
from pytest_rlenv.reports.stored import StoredRun
from pytest_rlenv.verdict import Outcome

Record = dict[str, Any]


def readable(run: StoredRun) -> tuple[list[Record], list[Result], list[str]]:
    """Return the records that can be shown, what the aggregate keeps of them, and what is wrong."""
    records: list[Record] = []
    results: list[Result] = []
    problems = list(run.problems)
    for number, record in enumerate(run.records, 1):
        try:
            results.append(Result.of(record))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problems.append(f"record {number} is left out: {type(error).__name__}: {error}")
            continue
        records.append(record)
    return records, results, problems


def title_of(records: Sequence[Record], facts: Mapping[str, Any]) -> str:
    """Return the page's title: the environments, each with its commit."""
    named = {str(record["environment"]): record.get("revision") for record in records}
    if not named:
        listed = facts.get("environments")
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, dict):
                named[str(each.get("name"))] = each.get("revision")
    words = [name + (f"@{str(revision)[:12]}" if revision else "") for name, revision in named.items()]
    return ", ".join(words[:3]) + (f" and {len(words) - 3} more" if len(words) > 3 else "") or "no rollouts"


def index(
    run: StoredRun,
    records: Sequence[Record],
    results: Sequence[Result],
    problems: Sequence[str],
    against: Against | None,
) -> dict[str, Any]:
    """Return the run's facts, numbers and rows.

    Args:
        run: the run.
        records: those that can be shown.
        results: the same, as the aggregate takes them.
        problems: what the reader must know of the rest.
        against: the comparison with a baseline, if there is one.
    """
    scored = [
        (result.reward, result.verdict)
        for result in results
        if result.reward is not None and result.verdict is not Outcome.ERROR
    ]
    stages = [record["stages"] for record in records if isinstance(record.get("stages"), dict)]
    errors = [
        record["error"]
        for record, result in zip(records, results, strict=True)
        if result.verdict is Outcome.ERROR and isinstance(record.get("error"), dict)
    ]
    groups = {key: aggregate(group) for key, group in _grouped(results)}
    flaky = {(*key, each.task) for key, found in groups.items() for each in found.flaky}
    return {
        "title": title_of(records, run.facts),
        "facts": labelled(run.facts, records),
        "times": times(run.facts),
        "complete": run.facts.get("finished_at") is not None,
        "problems": problems,
        "scores": [scores(*key, found) for key, found in groups.items()],
        "histogram": histogram(scored),
        "stages": stage_times(stages),
        "errors": error_causes(errors),
        "baseline": against.overview() if against else None,
        "rows": [
            row(record, result)
            | {"flaky": (*_group(result), result.task) in flaky}
            | (against.row(record) if against else {})
            for record, result in zip(records, results, strict=True)
        ],
    }


def scores(environment: str, agent: str, found: Aggregate) -> dict[str, Any]:
    """Return the aggregate's numbers of an environment and an agent as JSON has them."""
    return {
        "environment": environment,
        "agent": agent,
        "total": found.total,
        "scored": found.scored,
        "counts": {outcome.value: found.counts[outcome] for outcome in Outcome},
        "mean": found.mean_scored,
        "mean_errors_as_0": found.mean_errors_as_0,
        "mean_over_tasks": _estimate(found.mean_reward),
        "pass_rate": _estimate(found.pass_rate),
        "tasks": found.tasks,
        "attempts": found.attempts,
        "passing": [asdict(each) for each in found.passing],
        "flaky": [
            {"task": each.task, "passed": each.passed, "rate": _estimate(each.rate)} for each in found.flaky
        ],
        "retried": found.retried,
        "quarantined": found.quarantined,
        "cost": found.cost,
        "cost_known": found.cost_known,
    }


def row(record: Record, result: Result) -> dict[str, Any]:
    """Return what the table shows of a rollout."""
    error = record.get("error")
    return {
        "environment": result.environment,
        "task": result.task,
        "agent": result.agent,
        "attempt": result.attempt,
        "verdict": result.verdict.value,
        "reward": result.reward,
        "seconds": result.seconds,
        "message": result.message,
        "error": error.get("type") if isinstance(error, dict) else None,
        "tries": result.tries,
        "quarantine": result.quarantined,
    }


def _grouped(results: Sequence[Result]) -> Iterator[tuple[tuple[str, str], list[Result]]]:
    for key, group in groupby(sorted(results, key=_group), key=_group):
        yield key, list(group)


def _estimate(found: Estimate | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)


def _group(result: Result) -> tuple[str, str]:
    return result.environment, result.agent
