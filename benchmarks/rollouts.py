"""Oracle rollouts, end to end, against the bare loops of the same scripts at equal parallelism."""

from __future__ import annotations

import io
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
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
BESIDE = 100
"""Tasks to compare the sandboxes with, at most."""
SIZES = ((1, 9), (8, 3), (100, 1), (MANY, 1))
"""Tasks, and rounds of these."""
CHOSEN = "RLENV_BENCHMARK_TASKS"
"""Variable with the numbers of tasks to measure, such as ``1,8``, for who has less than an hour."""
WAYS = "RLENV_BENCHMARK_WAYS"
"""Variable with the ways to measure, such as ``-n 4,jobs 4``; by default all."""
BARE = {"docker": "benchmarks.bare_docker", "local": "benchmarks.bare_bwrap"}


def measure(folder: Path, *, quick: bool) -> list[Table]:
    """Measure both sandboxes, and then both beside each other."""
    with floor(folder) as floors:
        tables = [_against_bare(folder, sandbox, argument, quick) for sandbox, argument in floors.items()]
        count = 2 if quick else max(_chosen())
        return [*tables, _beside(folder, min(count, BESIDE), quick)]


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
            "bare loops use as many threads as we use workers or jobs, and the same limits and network",
            "medians of rounds in turn; of the 100 and the 1,000 a single round",
        ],
    )
    for count, rounds in ((2, 1),) if quick else SIZES:
        if not quick and count not in _chosen():
            continue
        environment = write_environment(folder / f"hello-{count}", count)
        _prepare(environment, folder)
        for at_once, ways in _ways(count, quick):
            bare = [sys.executable, "-m", BARE[sandbox], str(environment), argument, str(at_once)]
            floors, *found = alternate(
                rounds,
                partial(run, bare, cwd=ROOT),
                *(partial(_once, _command(environment, sandbox, args), folder) for args in ways.values()),
            )
            _check(floors, count)
            for how, costs in zip(ways, found, strict=True):
                table.add(*_row(count, at_once, how, floors, costs))
    return table


def _prepare(environment: Path, folder: Path) -> None:
    """Have what a second run finds: images in the engine, and their extracted files, in the shortest way."""
    _once(_command(environment, "local", ("--rlenv-jobs", "4")), folder)


def _command(environment: Path, sandbox: str, args: Sequence[str]) -> list[str]:
    return pytest_command("--rlenv", environment.name, "--rlenv-sandbox", sandbox, *args)


def _ways(count: int, quick: bool) -> Iterator[tuple[int, dict[str, tuple[str, ...]]]]:
    """Yield how many are under way at once, and the ways to have so many: a word, the options."""
    for at_once in (2,) if quick else (4,) if count >= MANY else (1, 2, 4):
        ways = {how: args for how, args in _all_ways(at_once).items() if _is_wanted(how)}
        if count >= at_once and ways:
            yield at_once, ways


def _all_ways(at_once: int) -> dict[str, tuple[str, ...]]:
    if at_once == 1:
        return {"-n 0": ()}
    number = str(at_once)
    return {f"-n {number}": ("-n", number), f"jobs {number}": ("--rlenv-jobs", number)}


def _is_wanted(how: str) -> bool:
    named = os.environ.get(WAYS)
    return not named or how in named.split(",")


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


def _chosen() -> list[int]:
    named = os.environ.get(CHOSEN)
    return [int(word) for word in named.split(",")] if named else [count for count, _ in SIZES]


def _beside(folder: Path, count: int, quick: bool) -> Table:
    """Compare the two sandboxes at their best: how many rollouts a second each makes."""
    environment = write_environment(folder / f"hello-{count}", count)
    table = Table(
        "Docker and local beside each other",
        ("tasks", "how", "Docker", "local", "Docker / local"),
        notes=["goal: local makes ten times as many rollouts a second"],
    )
    _prepare(environment, folder)
    ways = {how: args for how, args in {**_all_ways(4), **_all_ways(1)}.items() if _is_wanted(how)}
    for how, args in list(ways.items())[-1:] if quick else ways.items():
        commands = [_command(environment, sandbox, args) for sandbox in BARE]
        docker, local = alternate(1, *(partial(_once, command, folder) for command in commands))
        low, high = median_wall(local), median_wall(docker)
        table.add(f"{count:,}", how, seconds(high), seconds(low), f"{high / low:.1f}")
    return table
