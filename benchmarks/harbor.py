"""The same tasks through Harbor itself, in turn with ours."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import partial
from pathlib import Path

from benchmarks.environments import write_environment
from benchmarks.measure import Cost, alternate, median_cpu, median_wall, pytest_command, run
from benchmarks.tables import Table, seconds

ROOT = Path(__file__).parent.parent


def measure(folder: Path, *, quick: bool) -> Table:
    """Compare one task and eight, one after the other and four at once."""
    table = Table(
        "Beside Harbor 0.26.0",
        ("tasks", "at once", "how we run", "Harbor", "ours", "Harbor / ours", "Harbor's CPU", "our CPU"),
        notes=[
            "whole commands, images built before; CPU of the command line programs, not of the engine",
            "goal: ten times as fast for eight tasks, four at once",
        ],
    )
    setup = subprocess.run(
        ["bash", "scripts/setup_harbor.sh"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    if setup.returncode:
        table.notes.append("not measured: Harbor could not be installed here")
        return table
    harbor = Path(setup.stdout.strip())
    for count, at_once, rounds in ((1, 1, 1),) if quick else ((1, 1, 3), (8, 4, 2)):
        environment = write_environment(folder / f"hello-{count}", count)
        ways = {f"-n {at_once}": ("-n", str(at_once)), f"jobs {at_once}": ("--rlenv-jobs", str(at_once))}
        if at_once == 1:
            ways = {"-n 0": ()}
        ours = [
            pytest_command("--rlenv", environment.name, "--rlenv-sandbox", "docker", *args)
            for args in ways.values()
        ]
        run(ours[0], cwd=folder)
        theirs, *costs = alternate(
            rounds,
            partial(_harbor, harbor, environment, folder, at_once),
            *(partial(run, command, cwd=folder) for command in ours),
        )
        for how, cost in zip(ways, costs, strict=True):
            table.add(str(count), str(at_once), how, *_row(theirs, cost))
    return table


def _row(theirs: list[Cost], ours: list[Cost]) -> list[str]:
    high, low = median_wall(theirs), median_wall(ours)
    ratio = f"{high / low:.1f}"
    return [seconds(high), seconds(low), ratio, seconds(median_cpu(theirs)), seconds(median_cpu(ours))]


def _harbor(harbor: Path, environment: Path, folder: Path, at_once: int) -> Cost:
    """Run Harbor once, and see that it scored everything."""
    jobs = folder / "jobs"
    shutil.rmtree(jobs, ignore_errors=True)
    command = [str(harbor / "bin/harbor"), "run", "--path", environment.name, "--agent", "oracle"]
    command += ["--jobs-dir", str(jobs), "-n", str(at_once), "--quiet"]
    cost = run(
        command,
        cwd=folder,
        # without the second, a machine that does not reach it waits for the model prices
        env={"DOCKER_CONFIG": str(harbor / "docker"), "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    )
    rewards = [json.loads(path.read_text()) for path in jobs.glob("*/*/result.json")]
    scored = [trial for trial in rewards if (trial.get("verifier_result") or {}).get("rewards")]
    if len(scored) != len(list(environment.iterdir())):
        raise RuntimeError(f"Harbor scored {len(scored)} tasks:\n{cost.output}")
    return cost
