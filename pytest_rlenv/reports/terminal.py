"""The summary below pytest's own: coverage and means per environment, and what did not pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

import pytest

from pytest_rlenv.environments.model import Environment
from pytest_rlenv.reports.aggregate import Aggregate, Result, aggregate
from pytest_rlenv.verdict import Outcome, number

SHOWN = 50
"""Rows of what did not pass that are shown per environment, without ``-v``."""

_WORDS = {Outcome.FAILED: "FAILED", Outcome.ERROR: "ERROR", Outcome.SKIPPED: "SKIPPED"}
_COLOURS = {Outcome.FAILED: "red", Outcome.ERROR: "red", Outcome.SKIPPED: "yellow"}


def write_summary(terminal: pytest.TerminalReporter, results: Sequence[Result], run_dir: Path) -> None:
    """Write the summary of a run.

    Args:
        terminal: pytest's terminal reporter.
        results: the rollouts that ended.
        run_dir: where results and logs are.
    """
    quiet = terminal.verbosity < -1
    by_environment = sorted(results, key=lambda r: (r.environment, r.agent))
    for environment, group in groupby(by_environment, key=lambda r: r.environment):
        rows = list(group)
        commit = f"@{rows[0].revision[:12]}" if rows[0].revision else ""
        terminal.section(f"rlenv: {environment}{commit}", sep="=", cyan=True)
        for agent, of_agent in groupby(rows, key=lambda r: r.agent):
            for line in aggregate_lines(agent, aggregate(of_agent)):
                terminal.write_line(line)
        if not quiet:
            _write_rows(terminal, rows)
            _write_warnings(terminal, rows)
    if where := sorted({result.sandbox for result in results} - {""}):
        terminal.write_line(f"rlenv: ran in sandbox {', '.join(where)}")
    terminal.write_line(f"rlenv: results and logs in {run_dir}")


def aggregate_lines(agent: str, numbers: Aggregate) -> list[str]:
    """Return an agent's numbers in two lines."""
    first = f"{agent}: scored {numbers.scored} of {numbers.total}"
    if numbers.mean_scored is not None:
        first += f", mean reward {numbers.mean_scored:.3f}"
    if numbers.counts[Outcome.ERROR] and numbers.mean_errors_as_0 is not None:
        first += f" ({numbers.mean_errors_as_0:.3f} with errors as 0)"
    parts = [f"{numbers.counts[outcome]} {outcome.value}" for outcome in Outcome if numbers.counts[outcome]]
    second = "    " + ", ".join(parts)
    if numbers.error_kinds:
        second += f" (errors: {', '.join(f'{count} {kind}' for kind, count in numbers.error_kinds)})"
    return [first, second]


def header_lines(environments: Iterable[Environment], agents: Sequence[str], sandbox: str) -> list[str]:
    """Return the lines of pytest's header: each environment with its tasks, then agents and sandbox."""
    lines = []
    for environment in environments:
        selected, found = len(environment.tasks), environment.found
        tasks = "task" if found == 1 else "tasks"
        counted = f"{found} {tasks}" if selected == found else f"{selected} of {found} {tasks}"
        lines.append(f"rlenv: {environment.title}: {counted}")
        lines += [f"rlenv: warning: {warning}" for warning in environment.warnings]
    return [*lines, f"rlenv: agent={','.join(agents)} sandbox={sandbox}"]


def _write_rows(terminal: pytest.TerminalReporter, rows: Sequence[Result]) -> None:
    several = len({row.agent for row in rows}) > 1
    bad = sorted((row for row in rows if row.verdict is not Outcome.PASSED), key=_severity)
    shown = bad if terminal.verbosity > 0 else bad[:SHOWN]
    names = [f"{row.task} ({row.agent})" if several else row.task for row in shown]
    width = min(max((len(name) for name in names), default=0), 40)
    room = max(terminal._tw.fullwidth, 60)
    for row, name in zip(shown, names, strict=True):
        terminal.write(f"{_WORDS[row.verdict]:<8}", **{_COLOURS[row.verdict]: True})
        reward = "-" if row.reward is None else number(row.reward)
        line = f" {name:<{width}} {reward:>6}  {row.message}"
        terminal.write_line(line if len(line) + 8 <= room else line[: room - 11] + "...")
    if len(bad) > len(shown):
        terminal.write_line(f"... and {len(bad) - len(shown)} more (-v shows all)")


def _write_warnings(terminal: pytest.TerminalReporter, rows: Sequence[Result]) -> None:
    seen = sorted({(row.task, warning) for row in rows for warning in row.warnings})
    shown = seen if terminal.verbosity > 0 else seen[:SHOWN]
    for task, warning in shown:
        terminal.write_line(f"warning  {task}: {warning}", yellow=True)
    if len(seen) > len(shown):
        terminal.write_line(f"... and {len(seen) - len(shown)} more warnings (-v shows all)")


def _severity(row: Result) -> tuple[int, str, str]:
    order = (Outcome.FAILED, Outcome.ERROR, Outcome.SKIPPED)
    return order.index(row.verdict), row.task, row.agent
