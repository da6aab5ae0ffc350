"""Run a command and say what it cost: wall time, CPU and memory of every process below it."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_INTERVAL = 0.02
_TAIL = 2000


@dataclass
class Cost:
    """What one command cost.

    Attributes:
        wall: seconds.
        cpu: seconds, user and system, of all processes in its session.
        peaks: peak resident memory in MiB of each Python process of the session, the largest first.
        output: the end of what it printed.
        status: its exit code.
    """

    wall: float = 0.0
    cpu: float = 0.0
    peaks: list[float] = field(default_factory=list)
    output: str = ""
    status: int = 0


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for a measured command.

    An installed package is compiled; so must the one here be, whatever the caller's environment says.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return env | dict(extra or {})


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    expect: Sequence[int] = (0,),
) -> Cost:
    """Run a command to its end.

    Args:
        argv: the command.
        cwd: where.
        env: variables beside those of this process.
        expect: the exit codes that it may end with.

    Raises:
        RuntimeError: it ended with another one; with the end of its output.
    """
    begin = time.perf_counter()
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    watch = _Watch(process.pid)
    watch.start()
    output, _ = process.communicate()
    cost = Cost(wall=time.perf_counter() - begin, output=output[-_TAIL:], status=process.returncode)
    watch.stop()
    cost.cpu, cost.peaks = watch.cpu(), watch.peaks()
    if process.returncode not in expect:
        raise RuntimeError(f"{' '.join(argv)} ended with {process.returncode}:\n{cost.output}")
    return cost


class _Watch(threading.Thread):
    """Samples the processes of a session, since a worker's usage is nobody's child's once it is gone."""

    def __init__(self, session: int) -> None:
        super().__init__(daemon=True)
        self._session = session
        self._done = threading.Event()
        self._seconds: dict[int, float] = {}
        self._peaks: dict[int, float] = {}

    def run(self) -> None:
        """Sample until told to stop."""
        while not self._done.wait(_INTERVAL):
            self._sample()

    def stop(self) -> None:
        """End."""
        self._done.set()
        self.join()

    def cpu(self) -> float:
        """Return the CPU seconds that were seen."""
        return sum(self._seconds.values())

    def peaks(self) -> list[float]:
        """Return the peaks of Python processes, in MiB."""
        return sorted(self._peaks.values(), reverse=True)

    def _sample(self) -> None:
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                text = (folder / "stat").read_text()
                name, fields = text[: text.rindex(")")], text[text.rindex(")") + 2 :].split()
                if int(fields[3]) != self._session:
                    continue
                pid = int(folder.name)
                self._seconds[pid] = (int(fields[11]) + int(fields[12])) / _TICK
                if "python" in name or "pytest" in name:
                    # one that is ending has none any more
                    self._peaks[pid] = max(self._peaks.get(pid, 0.0), _high_water(folder))
            except (OSError, ValueError, IndexError):
                continue


def _high_water(folder: Path) -> float:
    for line in (folder / "status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def alternate(rounds: int, *sides: Callable[[], Cost]) -> list[list[Cost]]:
    """Run the sides in turn, so that what the machine does meanwhile falls on all alike; a list per side."""
    found: list[list[Cost]] = [[] for _ in sides]
    for _ in range(rounds):
        for costs, side in zip(found, sides, strict=True):
            costs.append(side())
    return found


def median_wall(costs: Sequence[Cost]) -> float:
    """Return the median wall time in seconds."""
    return statistics.median(cost.wall for cost in costs)


def median_cpu(costs: Sequence[Cost]) -> float:
    """Return the median CPU time in seconds."""
    return statistics.median(cost.cpu for cost in costs)


def median_peak(costs: Sequence[Cost]) -> float:
    """Return the median of the largest process's peak, in MiB."""
    return statistics.median(cost.peaks[0] if cost.peaks else 0.0 for cost in costs)


def pytest_command(*args: str) -> list[str]:
    """Return the command of a pytest run that leaves no caches.

    It is without Hypothesis, which is here for this project's own tests and takes 0.2 s at the end of a run.
    """
    without = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    return [sys.executable, "-m", "pytest", "-q", *without, *args]
