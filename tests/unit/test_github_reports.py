"""What GitHub is given: nothing of a stranger's text means anything to it, and all of it has room."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_rlenv.reports.aggregate import Result
from pytest_rlenv.reports.github import (
    SUMMARY_LIMIT,
    Annotations,
    append_summary,
    file_in_checkout,
    on_github,
)
from pytest_rlenv.reports.markdown import CELL, LIMIT, MARKER, ROWS, render
from pytest_rlenv.text import clean
from pytest_rlenv.verdict import Outcome


def result(task: str = "fix-it", message: str = "reward 0 < 1", verdict: Outcome = Outcome.FAILED) -> Result:
    return Result(environment="org/repo", task=task, agent="oracle", verdict=verdict, message=message)


@pytest.mark.parametrize(
    ("when", "environ", "expected"),
    [
        ("auto", {"GITHUB_ACTIONS": "true"}, True),
        ("auto", {}, False),
        ("auto", {"GITHUB_ACTIONS": "false"}, False),
        ("on", {}, True),
        ("off", {"GITHUB_ACTIONS": "true"}, False),
    ],
)
def test_when(when: str, environ: dict[str, str], expected: bool) -> None:
    assert on_github(when, environ) is expected


def test_an_annotation_is_escaped() -> None:
    annotations = Annotations()
    annotations.add(result("a,b:c%d", "50% of\r\n::warning::it"), "envs/a, b/task.toml")
    assert annotations.lines() == [
        "::error title=FAILED a%2Cb%3Ac%25d (oracle),file=envs/a%2C b/task.toml::50%25 of%0A::warning::it"
    ]


@given(st.text(), st.text())
def test_no_text_makes_a_second_command(task: str, message: str) -> None:
    annotations = Annotations()
    annotations.add(result(task, message, Outcome.ERROR), None)
    (line,) = annotations.lines()
    assert "\n" not in line
    assert "\r" not in line
    assert line.startswith("::error title=ERROR ")
    assert re.fullmatch(r"::error title=[^:,]*::.*", line, re.DOTALL)


@pytest.mark.parametrize(("count", "shown"), [(0, 0), (1, 1), (10, 10), (11, 10), (500, 10)])
def test_as_many_as_github_shows(count: int, shown: int) -> None:
    annotations = Annotations()
    annotations.add(result(verdict=Outcome.PASSED), None)
    annotations.add(result(verdict=Outcome.SKIPPED), None)
    for number in range(count):
        annotations.add(result(f"t{number}"), None)
    lines = annotations.lines()
    assert len(lines) == shown
    if count > shown:
        assert lines[-1] == (
            f"::error title=rlenv::{count - 9} more rollouts failed or are errors; the job's summary has them"
        )


def test_a_file_is_named_as_it_is_in_the_checkout(tmp_path: Path) -> None:
    (tmp_path / "repo/envs").mkdir(parents=True)
    (tmp_path / "repo/envs/task.toml").touch()
    (tmp_path / "other.toml").touch()
    environ = {"GITHUB_WORKSPACE": str(tmp_path / "repo")}
    assert file_in_checkout(tmp_path / "repo/envs/task.toml", environ) == "envs/task.toml"
    assert file_in_checkout(tmp_path / "other.toml", environ) is None
    assert file_in_checkout(tmp_path / "repo/envs", environ) is None


def test_a_summary_is_appended_as_long_as_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    environ = {"GITHUB_STEP_SUMMARY": str(path)}
    path.write_text("before\n")
    append_summary("ours", environ)
    assert path.read_text() == "before\n\nours"
    path.write_bytes(b"x" * (SUMMARY_LIMIT - 4))
    append_summary("ours", environ)
    assert path.stat().st_size == SUMMARY_LIMIT - 4
    append_summary("ours", {})


def test_the_summary_has_numbers_and_what_did_not_pass() -> None:
    results = [
        Result("org/repo", "good", "oracle", Outcome.PASSED, revision="0123456789abcdef", reward=1.0),
        Result("org/repo", "low", "oracle", Outcome.FAILED, reward=0.4, message="reward 0.4 < 1.0"),
        Result("org/repo", "dead", "oracle", Outcome.ERROR, message="SandboxFailed [start]: gone"),
    ]
    text = render(results, run=".rlenv/x", extra=["no regression"])
    assert text.startswith(f"{MARKER}\n")
    assert "| <code>oracle</code> | 2 of 3 | 0.700 | 0.467 | 1 | 1 | 1 | 0 |" in text
    rows = [line for line in html.unescape(text).splitlines() if line.startswith(("| ❌", "| ⚠️"))]
    assert rows == [
        "| ❌ failed | <code>low</code> | <code>oracle</code> | 0.4 | <code>reward 0.4 < 1.0</code> |",
        "| ⚠️ error | <code>dead</code> | <code>oracle</code> |  | <code>SandboxFailed [start]: gone</code> |",
    ]
    assert "<code>no regression</code>" in text
    assert "<code>good</code>" not in text


@settings(max_examples=60)
@given(st.text(st.characters(codec="utf-8"), max_size=80))
def test_no_text_is_markup_in_the_summary(message: str) -> None:
    text = render([result(message=message)], run="run")
    (row,) = [line for line in text.splitlines() if line.startswith("| ❌")]
    cells = row.split("|")
    assert len(cells) == 7, "no cell is split or joined"
    given = " ".join(clean(message).split())
    shown = cells[5].strip()
    assert html.unescape(shown) == (f"<code>{given}</code>" if given else "")
    inside = shown.removeprefix("<code>").removesuffix("</code>")
    assert not re.search(r"[<>`*_\[\]|@\\~$!(){}\"'+^]|#(?!\d+;)|&(?!#\d+;)", inside)


def test_the_summary_is_bounded() -> None:
    results = [result(f"task-{n}", "<" * 1000) for n in range(5000)]
    text = render(results, run="run")
    assert len(text) < LIMIT + 200
    few = render([result(f"task-{n}", "x" * 1000) for n in range(500)], run="run")
    assert f"and {500 - ROWS} more" in few
    assert "x" * (CELL - 3) + "..." in few
