"""What a person sees while rollouts run, on a terminal and in a log."""

from __future__ import annotations

import os
import sys

import pytest
from support.project import Project
from support.screen import Screen, run_on_terminal

SLOW = "# scripted: sleep=1.2\n# scripted: reward=1"


def on_terminal(project: Project, *args: str, columns: int = 80, **variables: str) -> tuple[str, str]:
    """Run the environment on a terminal; return all that was written, and what is on the screen then."""
    command = [sys.executable, "-m", "pytest", "--rlenv", "envs/demo", "-p", "no:cacheprovider", *args]
    command.append("--rlenv-sandbox=support.scripted:ScriptedSandbox")
    env = {**os.environ, "TERM": "xterm", **variables}
    for name in ("COLUMNS", "CI", "NO_COLOR", "GITHUB_ACTIONS"):
        if name not in variables:
            env.pop(name, None)
    _, written = run_on_terminal(command, cwd=project.path, env=env, columns=columns)
    screen = Screen(columns)
    screen.write(written)
    return written, screen.text()


@pytest.fixture
def slow(project: Project) -> Project:
    project.tasks(quick="# scripted: reward=0.5", slow=SLOW)
    return project


@pytest.mark.parametrize(
    ("args", "columns"),
    [([], 80), (["-v"], 80), (["-q", "-n1"], 80), (["--rlenv-jobs=2"], 44)],
    ids=["plain", "verbose", "workers", "jobs-narrow"],
)
def test_a_terminal_shows_what_runs_and_nothing_of_it_stays(
    slow: Project, args: list[str], columns: int
) -> None:
    written, screen = on_terminal(slow, *args, columns=columns)
    drawn = [part.split("\x1b")[0] for part in written.split("\x1b[J\r\n")[1:]]
    assert drawn, written
    assert any("running" in line and "slow" in line for line in drawn), drawn
    assert all(len(line) < columns for line in drawn)
    assert "running" not in screen
    assert "1 failed, 1 passed" in screen
    if not args:
        # what pytest wrote before and after the line is where it would be without it
        assert [line for line in screen.splitlines() if line.startswith("rlenv:envs/demo F.")], screen


@pytest.mark.parametrize(
    ("args", "variables"),
    [
        (["-s"], {}),
        (["--rlenv-progress=off"], {}),
        (["-qq", "-o", "log_cli=true"], {}),
        ([], {"TERM": "dumb"}),
    ],
    ids=["no-capture", "off", "very-quiet", "dumb"],
)
def test_it_is_not_drawn_where_it_would_be_in_the_way(
    slow: Project, args: list[str], variables: dict[str, str]
) -> None:
    written, _ = on_terminal(slow, *args, **variables)
    assert "\x1b[J" not in written
    assert " running" not in written


def test_without_colour_there_is_none(slow: Project) -> None:
    written, screen = on_terminal(slow, NO_COLOR="1")
    assert "\x1b[3" not in written
    assert "FAILED" in screen


@pytest.mark.parametrize("args", [["-q"], ["-n1"]], ids=["quiet", "workers"])
def test_a_log_gets_a_sign_of_life(slow: Project, args: list[str]) -> None:
    result = slow.pytester.runpytest_subprocess(
        "--rlenv=envs/demo",
        "--rlenv-sandbox=support.scripted:ScriptedSandbox",
        "--rlenv-heartbeat=0.3",
        *args,
    )
    result.stderr.fnmatch_lines(["rlenv: * of 2 done, 1 running: slow*"])
    assert "\x1b[J" not in result.stdout.str()


@pytest.mark.parametrize("args", [["--rlenv-heartbeat=0"], ["-qq", "--rlenv-heartbeat=0.1"]])
def test_a_log_gets_none_where_it_is_not_wanted(slow: Project, args: list[str]) -> None:
    result = slow.pytester.runpytest_subprocess(
        "--rlenv=envs/demo", "--rlenv-sandbox=support.scripted:ScriptedSandbox", *args
    )
    assert "running" not in result.stderr.str() + result.stdout.str()
