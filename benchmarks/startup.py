"""What the plugin adds to a pytest run that does not use it: paired, interleaved runs in one process tree.

    python benchmarks/startup.py [rounds]

Prints a Markdown table. CPU seconds (user + system) of the child, median over the rounds; "with" and
"without" differ by `-p no:rlenv` alone.
"""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = {"pytest --version": ["--version"], "an empty test file": ["-q", "test_empty.py"]}


def cpu_seconds(args: list[str], folder: Path) -> float:
    """Return the CPU seconds of one pytest process."""
    # An installed package is compiled; so must the one here be, whatever the caller's environment says.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "pytest", *args]
    subprocess.run(command, cwd=folder, env=env, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def main() -> None:
    """Run and print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    folder = Path(tempfile.mkdtemp())
    (folder / "test_empty.py").write_text("def test_nothing(): pass\n")
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    print(f"{rounds} rounds\n")
    print("| run | without, ms | with, ms | added, ms | ratio |")
    print("|---|---|---|---|---|")
    for name, args in CASES.items():
        cpu_seconds(args, folder)  # compiles what is not
        times: dict[str, list[float]] = {"without": [], "with": []}
        for _ in range(rounds):
            times["without"].append(cpu_seconds(["-p", "no:rlenv", *args], folder))
            times["with"].append(cpu_seconds(args, folder))
        added = statistics.median(b - a for a, b in zip(times["without"], times["with"], strict=True))
        low, high = (statistics.median(times[key]) for key in ("without", "with"))
        print(f"| {name} | {low * 1000:.0f} | {high * 1000:.0f} | {added * 1000:.1f} | {high / low:.2f} |")


if __name__ == "__main__":
    main()
