"""The summary below pytest's own: coverage and means per environment, and what did not pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pytest

from pytest_rlenv.environments.model import Environment
from pytest_rlenv.reports.aggregate import Aggregate, Estimate, Result, aggregate
from pytest_rlenv.reports.columns import fit
from pytest_rlenv.reports.terminal_rows import WORDS, rows_of
from pytest_rlenv.verdict import Outcome

SHOWN = 20
"""Warnings that are shown per environment, without ``-v``."""

IN_HEADER = 5
"""Likewise, in the header."""

_COLOURS = {Outcome.FAILED: "red", Outcome.ERROR: "red", Outcome.SKIPPED: "yellow"}


def write_summary(terminal: pytest.TerminalReporter, results: Sequence[Result], run_dir: Path) -> None:
    """Write the summary of a run.

    Args:
        terminal: pytest's terminal reporter.
        results: the rollouts that ended.
        run_dir: where results and logs are.
    """
    if getattr(terminal.config.option, "no_summary", False):
        return
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
    """Return an agent's numbers: coverage and means, verdicts, then intervals and what attempts tell."""
    first = f"{agent}: scored {numbers.scored} of {numbers.total}"
    if numbers.mean_scored is not None:
        first += f", mean reward {numbers.mean_scored:.3f}"
    if numbers.counts[Outcome.ERROR] and numbers.mean_errors_as_0 is not None:
        first += f" ({numbers.mean_errors_as_0:.3f} with errors as 0)"
    parts = [f"{numbers.counts[outcome]} {outcome.value}" for outcome in Outcome if numbers.counts[outcome]]
    second = "    " + ", ".join(parts)
    if numbers.error_kinds:
        second += f" (errors: {', '.join(f'{count} {kind}' for kind, count in numbers.error_kinds)})"
    return [first, second, *(f"    {line}" for line in _statistics(numbers))]


def _statistics(numbers: Aggregate) -> Iterator[str]:
    rate, mean = numbers.pass_rate, numbers.mean_reward
    if rate is not None and mean is not None and rate.n > 1:
        told = mean.low < mean.high  # values that are all equal do not tell how they scatter
        reward = f", mean reward {_interval(mean)}" if told else ""
        yield f"95%: passed {rate.value:.3f} {_interval(rate)}{reward}"
    if numbers.attempts > 1 and numbers.passing:
        first, last = numbers.passing[0], numbers.passing[-1]
        parts = [f"pass@1 {first.at_least_one:.3f}"]
        if last.k > 1:
            parts += [f"pass@{last.k} {last.at_least_one:.3f}", f"pass^{last.k} {last.all_of_them:.3f}"]
        over = f"{last.tasks} of {numbers.tasks} tasks have {last.k} scored"
        none = f", none has {numbers.attempts}" if last.k < numbers.attempts else ""
        yield f"{', '.join(parts)} ({over}{none})"
    if flaky := numbers.flaky:
        shown = [f"{task.task} {task.passed}/{task.rate.n} {_interval(task.rate)}" for task in flaky[:3]]
        more = f", +{len(flaky) - len(shown)} more" if len(flaky) > len(shown) else ""
        yield f"flaky: {', '.join(shown)}{more}"
    counted = {"retried": numbers.retried, "in quarantine": numbers.quarantined}
    if parts := [f"{count} {what}" for what, count in counted.items() if count]:
        yield ", ".join(parts)
    if numbers.cost is not None:
        yield f"cost {numbers.cost:.2f} USD, by {numbers.cost_known} of {numbers.total} rollouts"


def _interval(estimate: Estimate) -> str:
    return f"[{estimate.low:.2f}, {estimate.high:.2f}]"


def header_lines(
    environments: Iterable[Environment], agents: Sequence[str], sandbox: str, where: Iterable[str] = ()
) -> list[str]:
    """Return the lines of pytest's header: each environment with its tasks, then agents and sandbox.

    Args:
        environments: that are run.
        agents: as the user named them.
        sandbox: what it says of itself.
        where: what else is to be said of where tasks run.
    """
    lines = []
    for environment in environments:
        selected, found = len(environment.tasks), environment.found
        tasks = "task" if found == 1 else "tasks"
        counted = f"{found} {tasks}" if selected == found else f"{selected} of {found} {tasks}"
        lines.append(f"rlenv: {environment.title}: {counted}")
        lines += [f"rlenv: warning: {warning}" for warning in environment.warnings[:IN_HEADER]]
        if (more := len(environment.warnings) - IN_HEADER) > 0:
            lines.append(f"rlenv: and {more} more warnings")
    lines.append(f"rlenv: agent={','.join(agents)} sandbox={sandbox}")
    return [*lines, *(f"rlenv: {line}" for line in where)]


def _write_rows(terminal: pytest.TerminalReporter, results: Sequence[Result]) -> None:
    rows, left_out = rows_of(results, width=_width(terminal), verbose=terminal.verbosity > 0)
    for row in rows:
        word = WORDS[row.outcome] if row.outcome else ""
        terminal.write(f"{word:<8} ", **({_COLOURS[row.outcome]: True} if row.outcome else {}))
        terminal.write_line(row.text)
    if left_out:
        terminal.write_line(f"... and {left_out} more (-v shows all)")


def _write_warnings(terminal: pytest.TerminalReporter, rows: Sequence[Result]) -> None:
    seen = sorted({(row.task, warning) for row in rows for warning in row.warnings})
    shown = seen if terminal.verbosity > 0 else seen[:SHOWN]
    for task, warning in shown:
        terminal.write_line(fit(f"warning  {task}: {warning}", 3 * _width(terminal)), yellow=True)
    if len(seen) > len(shown):
        terminal.write_line(f"... and {len(seen) - len(shown)} more warnings (-v shows all)")


def _width(terminal: pytest.TerminalReporter) -> int:
    return max(terminal.config.get_terminal_writer().fullwidth, 60)
