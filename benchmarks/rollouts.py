"""Oracle rollouts, end to end, against the bare loops of the same scripts at equal parallelism."""

from __future__ import annotations

import io
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.environments import DOCKERFILE, write_environment
from benchmarks.measure import Cost, alternate, median_cpu, median_wall, pytest_command, run
from benchmarks.tables import Table, seconds, times

ROOT = Path(__file__).parent.parent
IMAGE = "rlenv-benchmark:latest"
COLUMNS = (
    "tasks",
    "at once",
    "how",
    "bare loop",
    "ours",
    "ours / bare",
    "a task, bare",
    "a task, ours",
    "our CPU a task",
)
MANY = 1000
"""Tasks with which only the widest ways are measured."""
SIZES = ((1, 9), (8, 3), (100, 1), (MANY, 1))
"""Tasks, and rounds of these."""
LARGEST = "RLENV_BENCHMARK_LARGEST"
"""Variable with the most tasks to measure, for who has less than an hour."""
BARE = {"docker": "benchmarks.bare_docker", "local": "benchmarks.bare_bwrap"}


def measure(folder: Path, *, quick: bool) -> list[Table]:
    """Measure both sandboxes, and then both beside each other."""
    with floor(folder) as floors:
        tables = [_against_bare(folder, sandbox, argument, quick) for sandbox, argument in floors.items()]
        return [*tables, _beside(folder, quick)]


@contextmanager
def floor(folder: Path) -> Iterator[dict[str, str]]:
    """Give what the bare loops run on, by sandbox: the image and its extracted files."""
    from docker import APIClient

    client = APIClient(version="auto")
    for _ in client.build(fileobj=io.BytesIO(DOCKERFILE.encode()), tag=IMAGE, rm=True):
        pass
    root = folder / "rootfs"
    root.mkdir()
    box = client.create_container(IMAGE, command=["true"])["Id"]
    try:
        with subprocess.Popen(["tar", "-x", "-C", str(root)], stdin=subprocess.PIPE) as tar:
            assert tar.stdin is not None
            for chunk in client.export(box):
                tar.stdin.write(chunk)
    finally:
        client.remove_container(box)
    try:
        yield {"docker": IMAGE, "local": str(root)}
    finally:
        client.remove_image(IMAGE)
        shutil.rmtree(root, ignore_errors=True)


def _against_bare(folder: Path, sandbox: str, argument: str, quick: bool) -> Table:
    table = Table(
        f"Oracle rollouts: {'Docker' if sandbox == 'docker' else 'local, image root file systems'}",
        COLUMNS,
        notes=[
            "whole commands: Python's start and imports are in all; reports and the like in ours",
            "bare loops use as many threads as we use workers or jobs",
            "medians of rounds in turn; of the 100 and the 1,000 a single round",
        ],
    )
    for count, rounds in ((2, 1),) if quick else SIZES:
        if count > int(os.environ.get(LARGEST, MANY)):
            continue
        environment = write_environment(folder / f"hello-{count}", count)
        for how, at_once, args in _ways(count, quick):
            bare = [sys.executable, "-m", BARE[sandbox], str(environment), argument, str(at_once)]
            ours = pytest_command("--rlenv", environment.name, "--rlenv-sandbox", sandbox, *args)
            _once(ours, folder)  # what is cached by the second run
            floors, costs = alternate(rounds, partial(run, bare, cwd=ROOT), partial(_once, ours, folder))
            _check(floors, count)
            table.add(*_row(count, at_once, how, floors, costs))
    return table


def _ways(count: int, quick: bool) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Yield the ways to run so many tasks: a word, how many are under way at once, the options."""
    if count < MANY and not quick:
        yield "-n 0", 1, ()
    for at_once in (2,) if quick or count < 4 else (4,) if count >= MANY else (2, 4):
        if count >= at_once:
            yield f"-n {at_once}", at_once, ("-n", str(at_once))
            yield f"jobs {at_once}", at_once, ("--rlenv-jobs", str(at_once))


def _once(command: list[str], folder: Path) -> Cost:
    cost = run(command, cwd=folder)
    shutil.rmtree(folder / ".rlenv", ignore_errors=True)
    return cost


def _check(floors: list[Cost], count: int) -> None:
    for cost in floors:
        if float(cost.output.split()[-1]) != count:
            raise RuntimeError(f"the bare loop did not score {count}: {cost.output}")


def _row(count: int, at_once: int, how: str, floors: list[Cost], costs: list[Cost]) -> list[str]:
    bare, ours = median_wall(floors), median_wall(costs)
    ratio = statistics.median(b.wall / a.wall for a, b in zip(floors, costs, strict=True))
    return [
        f"{count:,}",
        str(at_once),
        how,
        seconds(bare),
        seconds(ours),
        times(ratio),
        seconds(bare / count),
        seconds(ours / count),
        seconds(median_cpu(costs) / count),
    ]


def _beside(folder: Path, quick: bool) -> Table:
    """Compare the two sandboxes at their best: how many rollouts a second each makes."""
    count = 2 if quick else min(100, int(os.environ.get(LARGEST, MANY)))
    environment = write_environment(folder / f"hello-{count}", count)
    table = Table(
        "Docker and local beside each other",
        ("tasks", "how", "Docker", "local", "Docker / local"),
        notes=["goal: local makes ten times as many rollouts a second"],
    )
    ways = (("jobs 2", ("--rlenv-jobs", "2")), ("-n 0", ()), ("-n 2", ("-n", "2")))
    for how, args in ways[:1] if quick else ways:
        commands = [
            pytest_command("--rlenv", environment.name, "--rlenv-sandbox", sandbox, *args) for sandbox in BARE
        ]
        for command in commands:
            _once(command, folder)
        docker, local = alternate(1, *(partial(_once, command, folder) for command in commands))
        low, high = median_wall(local), median_wall(docker)
        table.add(f"{count:,}", how, seconds(high), seconds(low), f"{high / low:.1f}")
    return table
