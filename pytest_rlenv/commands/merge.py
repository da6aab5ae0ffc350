"""``merge``: several runs, such as the shards of one, made one again."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from pytest_rlenv.commands.protocol import OK
from pytest_rlenv.errors import SpecError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "runs",
        type=Path,
        nargs="+",
        metavar="RUN",
        help="a run's folder, or its results.jsonl (without logs)",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="the folder to make")
    parser.add_argument("--junitxml", type=Path, metavar="FILE", help="also leave the JUnit file there")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write the run as one HTML page")


def run(arguments: argparse.Namespace) -> int:
    """Merge, and say what came of it.

    Raises:
        SpecError: a run cannot be read, they do not go together, or a file cannot be written.
    """
    from pytest_rlenv.reports.junit_file import JUNIT
    from pytest_rlenv.reports.merging import Part, merge_runs
    from pytest_rlenv.reports.stored import read_run

    parts = [Part(str(path), read_run(path)) for path in arguments.runs]
    merged = merge_runs(parts, arguments.output)
    for warning in merged.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if arguments.junitxml is not None:
        try:
            shutil.copyfile(merged.folder / JUNIT, arguments.junitxml)
        except OSError as error:
            raise SpecError(f"--junitxml {arguments.junitxml} cannot be written: {error.strerror}") from error
    if arguments.html is not None:
        from pytest_rlenv.reports.html import write_html

        write_html(merged.folder, arguments.html)
    counts = ", ".join(f"{many} {verdict}" for verdict, many in merged.verdicts.most_common())
    runs = "1 run" if len(parts) == 1 else f"{len(parts)} runs"
    print(f"{runs}, {merged.verdicts.total()} rollouts ({counts or 'none'}) in {merged.folder}")
    return OK
