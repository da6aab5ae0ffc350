"""The same tasks through real Harbor and through us, side by side: ``python tests/parity FOLDER``.

For each task: Harbor's rewards or exception, our rewards or error, and, where they differ, the reason. A
difference without a reason is an unexplained row, and then the exit code is 1. Not part of the test run: it
installs Harbor and takes about five seconds a task.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from differences import Row, compare
from runs import run_harbor, run_ours

COLUMNS = ("task", "agent", "Harbor", "ours", "difference")


def main() -> int:
    """Run both over a folder of tasks and print the table."""
    parser = argparse.ArgumentParser(prog="python tests/parity", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="+", help="folders of task folders")
    parser.add_argument("--agent", choices=("oracle", "nop"), default="oracle")
    parser.add_argument("--task", default="*", help="only tasks whose folder matches this glob")
    parser.add_argument("--at-once", type=int, default=4, metavar="N")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep Harbor's trials here, and use those that are"
    )
    parser.add_argument("--all", action="store_true", help="print equal rows too")
    arguments = parser.parse_args()
    rows: list[Row] = []
    for folder in arguments.folder:
        tasks = sorted(path.parent for path in folder.glob(f"{arguments.task}/task.toml"))
        if not tasks:
            parser.error(f"{folder} has no folder {arguments.task} with a task.toml")
        with tempfile.TemporaryDirectory(prefix="rlenv-parity-") as scratch:
            trials = (
                arguments.keep or Path(scratch)
            ).resolve() / f"{folder.resolve().name}-{arguments.agent}"
            theirs = run_harbor(tasks, arguments.agent, trials, arguments.at_once)
            ours = run_ours(folder, tasks, arguments.agent, Path(scratch), arguments.at_once)
        rows += [compare(task.name, arguments.agent, theirs[task.name], ours[task.name]) for task in tasks]
    return report(rows, everything=arguments.all)


def report(rows: list[Row], *, everything: bool) -> int:
    """Print the rows as Markdown and the counts; return the exit code."""
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---" * len(COLUMNS) + "|")
    for row in rows:
        if everything or not row.equal:
            print(
                "| " + " | ".join((row.task, row.agent, row.theirs, row.ours, row.reason or "equal")) + " |"
            )
    equal = sum(row.equal for row in rows)
    unexplained = sum(row.unexplained for row in rows)
    print(
        f"\n{len(rows)} rows: {equal} equal, {len(rows) - equal - unexplained} explained, {unexplained} not"
    )
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
