"""The time limit of a collect hook, with this machine's shells: it ends the hook and nothing beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_rlenv.frameworks.harbor.collect_hooks import within

SHELLS = pytest.mark.parametrize(
    "shell",
    [
        pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason=f"no {name}"))
        for name in ("bash", "sh")
    ],
)


def ran(shell: str, command: str, limit: float | None, **env: str) -> tuple[int, str]:
    """Run a hook in a session of its own, of which nothing is left."""
    process = subprocess.Popen(
        within(shell, command, limit),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={**os.environ, **env},
    )
    try:
        said, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    return process.returncode, said.decode()


@SHELLS
@pytest.mark.parametrize("limit", [None, 20.0])
@pytest.mark.parametrize("code", [0, 3, 124])
def test_a_hook_that_ends_in_time_says_how(shell: str, limit: float | None, code: int) -> None:
    assert ran(shell, f'echo "$A it\'s"; exit {code}', limit, A="x") == (code, "x it's\n")


@SHELLS
def test_a_late_hook_is_ended_and_nothing_else(shell: str, tmp_path: Path) -> None:
    """Here what it started itself stands for the service that an agent left."""
    pid = tmp_path / "pid"
    command = f"sleep 60 >/dev/null 2>&1 & echo $! >{pid}; echo began; while :; do :; done"
    try:
        code, said = ran(shell, f"{command}; touch {tmp_path}/went-on", 0.2)
        assert (code, said.split()[0]) == (124, "began")
        os.kill(int(pid.read_text()), 0)
        assert not (tmp_path / "went-on").exists()
    finally:
        os.kill(int(pid.read_text()), 9)


@SHELLS
def test_no_timer_is_left_of_a_hook_in_time(shell: str) -> None:
    """A pipe that the timer held would stay open as long as the limit is."""
    assert ran(shell, "true", 4321.5) == (0, "")
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert "sleep 4321.5" not in listed.stdout
