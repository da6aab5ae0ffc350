"""The benchmarks' one command works; what they measure is nothing that a test could assert."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
TITLES = (
    "What the plugin adds to an unrelated run",
    "Oracle rollouts: Docker",
    "Oracle rollouts: local, image root file systems",
    "Docker and local beside each other",
    "tasks of 8 files from the Hub",
)


def test_one_command_prints_tables(tmp_path: Path) -> None:
    output = tmp_path / "results.md"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--output", str(output)]
    done = subprocess.run(
        [*command, "startup", "rollouts", "hub"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text = output.read_text()
    for title in TITLES:
        _, _, rest = text.partition(f"{title}\n\n")
        rows = [line for line in rest.split("\n\n")[0].splitlines() if line.startswith("|")]
        assert len(rows) > 2, title
