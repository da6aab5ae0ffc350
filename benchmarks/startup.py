"""What the plugin adds to a pytest run that does not use it."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import environment
from benchmarks.tables import Table, times

CASES = {"pytest --version": ["--version"], "one empty test": ["-q", "test_empty.py"]}


def measure(folder: Path, *, quick: bool) -> Table:
    """Compare runs that differ by ``-p no:rlenv`` alone, in turn."""
    rounds = 3 if quick else 31
    (folder / "test_empty.py").write_text("def test_nothing(): pass\n")
    table = Table(
        "What the plugin adds to an unrelated run",
        ("run", "without, CPU ms", "with, CPU ms", "added, ms", "ratio"),
        notes=[f"medians of {rounds} rounds in turn; goal: less than 10 ms"],
    )
    for name, args in CASES.items():
        _cpu_seconds(args, folder)  # compiles what is not
        without: list[float] = []
        with_it: list[float] = []
        for _ in range(rounds):
            without.append(_cpu_seconds(["-p", "no:rlenv", *args], folder))
            with_it.append(_cpu_seconds(args, folder))
        added = statistics.median(b - a for a, b in zip(without, with_it, strict=True))
        low, high = statistics.median(without), statistics.median(with_it)
        table.add(name, f"{low * 1000:.0f}", f"{high * 1000:.0f}", f"{added * 1000:.1f}", times(high / low))
    return table


def _cpu_seconds(args: list[str], folder: Path) -> float:
    """Return the CPU seconds of one pytest process, to the microsecond."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "pytest", *args]
    subprocess.run(command, cwd=folder, env=environment(), capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
