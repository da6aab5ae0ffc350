"""A comparison as Markdown, for a comment or a job's summary."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_rlenv.reports.comparison import words
from pytest_rlenv.reports.comparison.compared import AgentChange, Comparison
from pytest_rlenv.reports.comparison.pairing import Status

SHOWN = 50
"""Rows of a kind that are shown: what hosts take as a comment is limited."""


def markdown(comparison: Comparison) -> str:
    """Return it as Markdown with a heading; what tasks are called cannot end a cell or begin a tag."""
    return "\n".join(_lines(comparison)) + "\n"


def _lines(comparison: Comparison) -> Iterator[str]:
    yield f"### Compared with the baseline: {comparison.verdict.value}"
    yield ""
    if comparison.agents:
        yield "| agent | tasks | mean reward | difference (95 %) | passed | fixed | broken | verdict |"
        yield "|---|---:|---|---|---|---:|---:|---|"
        yield from (_agent(each) for each in comparison.agents)
        yield ""
        yield from (f"- {_plain(each.name)}: {_plain(words.conclusion(each))}" for each in comparison.agents)
    else:
        yield _plain(words.nothing_paired(comparison))
    notes = (*words.not_compared(comparison), *comparison.differences, *comparison.problems)
    yield from (f"- {_plain(text)}" for text in notes)
    yield from _rows(comparison)


def _agent(change: AgentChange) -> str:
    effect = change.effect
    low, high = (-effect.high, -effect.low) if change.lower_is_better else (effect.low, effect.high)
    difference = change.mean_after - change.mean_before
    cells = (
        _plain(change.name),
        str(effect.tasks),
        f"{change.mean_before:.3f} → {change.mean_after:.3f}",
        f"{difference:+.3f} ({low:+.3f} to {high:+.3f}), {words.p_value(effect.p)}".replace("<", "&lt;"),
        f"{change.passing_before} → {change.passing_after}",
        str(change.fixed),
        str(change.broken),
        effect.verdict.value,
    )
    return f"| {' | '.join(cells)} |"


def _rows(comparison: Comparison) -> Iterator[str]:
    listed = [(status, comparison.of(status)) for status in words.LISTED]
    if not any(pairs for _, pairs in listed):
        return
    called = words.names(comparison)
    yield ""
    yield "| | task | reward | |"
    yield "|---|---|---|---|"
    for status, pairs in listed:
        for each in pairs[:SHOWN]:
            reward = "" if status is Status.EXCLUDED else words.moved(each).replace("->", "→")
            why = each.reason or words.passed(each).replace("->", "→")
            yield f"| {status.value} | {_plain(called[id(each)])} | {reward} | {_plain(why)} |"
        if len(pairs) > SHOWN:
            yield f"| {status.value} | and {len(pairs) - SHOWN} more | | |"


def _plain(text: str) -> str:
    """Return a stranger's text as text: no tag, link, mention, emphasis or cell comes of it."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]()#|!~" else letter for letter in text).replace(
        "@", "@\u200b"
    )
