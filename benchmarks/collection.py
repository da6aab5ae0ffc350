"""Collection of many tasks, in one process and over workers: CPU and memory of each process."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.environments import write_environment
from benchmarks.measure import Cost, alternate, median_cpu, median_peak, median_wall, pytest_command, run
from benchmarks.tables import Table, seconds

EMPTY_TEST = "def test_nothing(): pass\n"


def measure(folder: Path, *, quick: bool) -> Table:
    """Collect 10, 1,000 and 10,000 tasks, each against a run that collects one plain test."""
    counts = (10, 100) if quick else (10, 1000, 10_000)
    rounds = 1 if quick else 3
    (folder / "test_empty.py").write_text(EMPTY_TEST)
    table = Table(
        "Collection",
        ("tasks", "workers", "wall", "CPU", "CPU beyond a plain run", "peak of a process beyond a plain run"),
        notes=[
            f"medians of {rounds} rounds, in turn with a run of one plain test and the same workers",
            "without workers: --collect-only; with workers: all items but the plain test deselected",
            "goal: 10,000 tasks in 1.2 CPU s or less, 30 MiB or less more in each process",
        ],
    )
    for count in counts:
        environment = write_environment(folder / f"environment-{count}", count)
        for workers in (0, 2):
            plain, collecting = alternate(
                rounds,
                partial(_plain, folder, workers),
                partial(_collect, folder, environment, workers),
            )
            table.add(
                f"{count:,}",
                str(workers),
                seconds(median_wall(collecting)),
                seconds(median_cpu(collecting)),
                seconds(median_cpu(collecting) - median_cpu(plain)),
                f"{median_peak(collecting) - median_peak(plain):.0f} MiB",
            )
    return table


def _plain(folder: Path, workers: int) -> Cost:
    args = ("-n", str(workers)) if workers else ("--collect-only",)
    return run(pytest_command("-p", "no:rlenv", "test_empty.py", *args), cwd=folder)


def _collect(folder: Path, environment: Path, workers: int) -> Cost:
    args = ["--rlenv", environment.name, "test_empty.py"]
    # one plain test is left, so that nothing is run but collection
    args += ["-n", str(workers), "-k", "test_nothing"] if workers else ["--collect-only"]
    return run(pytest_command(*args, "--rlenv-sandbox", "local"), cwd=folder)
