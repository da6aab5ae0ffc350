"""The same tasks through real Harbor and through us, side by side: ``python tests/parity FOLDER``.

For each task: Harbor's rewards or exception, our rewards or error, and, where they differ, the reason. A
difference without a reason is an unexplained row, and then the exit code is 1. Not part of the test run: it
installs Harbor and takes about five seconds a task.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path

from differences import Row, compare
from made import write_made
from runs import run_harbor, run_ours

_NETWORK = re.compile(rb"^[ \t]*(network_mode|allowed_hosts|allow_internet)[ \t]*=.*\n?", re.MULTILINE)
COLUMNS = ("task", "agent", "Harbor", "ours", "difference")


def main() -> int:
    """Run both over a folder of tasks and print the table."""
    parser = argparse.ArgumentParser(prog="python tests/parity", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="*", help="folders of task folders")
    parser.add_argument("--agent", choices=("oracle", "nop"), default="oracle")
    parser.add_argument("--task", default="*", help="only tasks whose folder matches this glob")
    parser.add_argument("--at-once", type=int, default=4, metavar="N")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep Harbor's trials here, and use those that are"
    )
    parser.add_argument(
        "--public",
        action="store_true",
        help="run copies of the tasks without their network modes, for which Harbor needs a registry",
    )
    parser.add_argument("--made", action="store_true", help="run the tasks of made.py, too")
    parser.add_argument("--all", action="store_true", help="print equal rows too")
    arguments = parser.parse_args()
    if not (arguments.folder or arguments.made):
        parser.error("name a folder of task folders, or --made")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="rlenv-parity-") as scratch:
        made = [write_made(Path(scratch) / "made")] if arguments.made else []
        for number, folder in enumerate([*arguments.folder, *made]):
            if not list(folder.glob(f"{arguments.task}/task.toml")):
                parser.error(f"{folder} has no folder {arguments.task} with a task.toml")
            rows += compared(folder, arguments, Path(scratch) / str(number))
    return report(rows, everything=arguments.all)


def compared(folder: Path, arguments: argparse.Namespace, scratch: Path) -> list[Row]:
    """Run the tasks of one folder through both, and return their rows."""
    agent, at_once = arguments.agent, arguments.at_once
    kept = f"{folder.resolve().name}-{agent}"
    if arguments.public:
        folder, kept = without_networks(folder, scratch / "tasks"), f"{kept}-public"
    tasks = sorted(path.parent for path in folder.glob(f"{arguments.task}/task.toml"))
    theirs = run_harbor(tasks, agent, (arguments.keep or scratch).resolve() / kept, at_once)
    ours = run_ours(folder, tasks, agent, scratch, at_once)
    return [compare(task.name, agent, theirs[task.name], ours[task.name]) for task in tasks]


def without_networks(folder: Path, copy: Path) -> Path:
    """Return a copy of a folder of tasks, none of which says anything of its network."""
    shutil.copytree(folder, copy, symlinks=True)
    for config in copy.glob("*/task.toml"):
        config.write_bytes(_NETWORK.sub(b"", config.read_bytes()))
    return copy


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
