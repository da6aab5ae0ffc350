"""A run's summary as Markdown, for a job's page and for a comment on a pull request. Always bounded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from pytest_rlenv.reports.aggregate import Result, aggregate
from pytest_rlenv.text import clean
from pytest_rlenv.verdict import Outcome, number

MARKER = "<!-- pytest-rlenv -->"
"""First line: by it a workflow finds the comment that it is to replace."""

ROWS = 100
"""Rows of what did not pass, of all environments together."""
CELL = 240
"""Characters of one cell."""
LIMIT = 60_000
"""Characters of a summary: a comment on GitHub holds 65,536."""

_SIGNS = {Outcome.PASSED: "✅", Outcome.FAILED: "❌", Outcome.ERROR: "⚠️", Outcome.SKIPPED: "⏭️"}
_ORDER = (Outcome.FAILED, Outcome.ERROR, Outcome.SKIPPED)


def render(results: Sequence[Result], *, run: str, extra: Iterable[str] = ()) -> str:
    """Return the summary.

    Args:
        results: the rollouts that ended.
        run: where results and logs are.
        extra: lines in plain text, such as of a comparison, to stand below the numbers.
    """
    by_environment = sorted(results, key=lambda r: (r.environment, r.agent))
    lines = [MARKER, "## RL environments", ""]
    lines += [f"{_code(line)}  " for line in extra]
    left = ROWS
    for environment, group in groupby(by_environment, key=lambda r: r.environment):
        rows = list(group)
        commit = f"@{rows[0].revision[:12]}" if rows[0].revision else ""
        lines += [f"### {_code(environment + commit)}", "", *_numbers(rows), ""]
        table = _bad_rows(rows, left)
        left -= max(0, len(table) - 2)
        lines += [*table, ""]
    lines.append(f"Results and logs: {_code(run)}")
    return _bounded(lines)


def _numbers(rows: Sequence[Result]) -> list[str]:
    lines = ["| agent | scored | mean reward | errors as 0 | passed | failed | errors | skipped |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|--:|")
    for agent, of_agent in groupby(rows, key=lambda r: r.agent):
        found = aggregate(of_agent)
        counts = [found.counts[outcome] for outcome in (Outcome.PASSED, *_ORDER)]
        cells = [
            _code(agent),
            f"{found.scored} of {found.total}",
            _mean(found.mean_scored),
            _mean(found.mean_errors_as_0),
            *map(str, counts),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _bad_rows(rows: Sequence[Result], limit: int) -> list[str]:
    bad = sorted(
        (row for row in rows if row.verdict is not Outcome.PASSED),
        key=lambda row: (_ORDER.index(row.verdict), row.task, row.agent),
    )
    if not bad:
        return ["Everything passed."]
    attempts = any(row.attempt > 1 for row in rows)
    lines = ["| | task | agent | reward | why |", "|---|---|---|--:|---|"]
    for row in bad[: max(0, limit)]:
        reward = "" if row.reward is None else number(row.reward)
        sign = f"{_SIGNS[row.verdict]} {row.verdict.value}"
        task = f"{row.task} #{row.attempt}" if attempts else row.task
        lines.append(f"| {sign} | {_code(task)} | {_code(row.agent)} | {reward} | {_code(row.message)} |")
    if len(bad) > max(0, limit):
        lines.append(f"| | and {len(bad) - max(0, limit)} more | | | |")
    return lines


def _mean(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _code(text: str) -> str:
    """Return a stranger's text such that it is shown as it is: no markup, no mention, no link, one line.

    Every character that could mean something to Markdown or HTML becomes a number, which both show as the
    character; inside ``<code>`` GitHub makes no mentions and links of it.
    """
    line = " ".join(clean(text).split())
    short = line if len(line) <= CELL else f"{line[: CELL - 3]}..."
    plain = "".join(c if c.isalnum() or c in " .,;/=-" else f"&#{ord(c)};" for c in short)
    return f"<code>{plain}</code>" if plain else ""


def _bounded(lines: Sequence[str]) -> str:
    kept: list[str] = []
    room = LIMIT
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            kept += ["", "The rest is left out for its size."]
            break
        kept.append(line)
    return "\n".join(kept) + "\n"
