"""Ten thousand results: how big the reports are, and whether memory stays flat while they come."""

from __future__ import annotations

from pathlib import Path

from benchmarks.environments import write_environment
from benchmarks.measure import pytest_command, run
from benchmarks.tables import Table, seconds

INSTANT = "support.scripted:ScriptedSandbox"
SOLVE = "#!/bin/bash\n# scripted: touch=/app/answer\n"
TEST = "#!/bin/bash\n# scripted: reward-if=/app/answer\n"


def measure(folder: Path, *, quick: bool) -> Table:
    """Run 1,000 and 10,000 rollouts in a sandbox that does nothing, so that what is left is ours."""
    counts = (10, 100) if quick else (1000, 10_000)
    table = Table(
        "Results of many rollouts",
        (
            "rollouts",
            "workers",
            "wall a rollout",
            "CPU a rollout",
            "peak, main process",
            "peak, a worker",
            "results.jsonl",
            "JUnit XML",
        ),
        notes=["rollouts in a sandbox without boxes: the scripts are played, the rest of the path is real"],
    )
    tests = str(Path(__file__).parent.parent / "tests")
    for count in counts:
        environment = write_environment(folder / f"tasks-{count}", count)
        for task in environment.iterdir():
            (task / "solution/solve.sh").write_text(SOLVE)
            (task / "tests/test.sh").write_text(TEST)
        for workers in (0, 2):
            output, report = folder / f"out-{count}-{workers}", folder / f"junit-{count}-{workers}.xml"
            command = pytest_command(
                "--rlenv", environment.name, "--rlenv-sandbox", INSTANT, "--rlenv-output", str(output)
            )
            command += [f"--junitxml={report}", *(("-n", str(workers)) if workers else ())]
            cost = run(command, cwd=folder, env={"PYTHONPATH": tests})
            table.add(
                f"{count:,}",
                str(workers),
                seconds(cost.wall / count),
                seconds(cost.cpu / count),
                f"{cost.peaks[0]:.0f} MiB",
                f"{cost.peaks[1]:.0f} MiB" if workers else "",
                f"{(output / 'results.jsonl').stat().st_size / 2**20:.1f} MiB",
                f"{report.stat().st_size / 2**20:.1f} MiB",
            )
    return table
