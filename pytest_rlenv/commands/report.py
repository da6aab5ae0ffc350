"""``report``: a stored run as one HTML page, also of a run that was killed."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_rlenv.commands.protocol import OK, add_margin


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("stored", type=Path, metavar="run", help="the run's folder, or its results.jsonl")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="the file to write (default: report.html in that folder)"
    )
    parser.add_argument(
        "--baseline",
        type=Path,
        metavar="RUN",
        help="also show what became of each task since this run: a folder, a results.jsonl or a JUnit file",
    )
    add_margin(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the page and say where it is.

    Raises:
        SpecError: a run cannot be read, or the page not be written.
    """
    from pytest_rlenv.reports.html import write_html

    stored: Path = arguments.stored
    folder = stored if stored.is_dir() else stored.parent
    target: Path = arguments.output or folder / "report.html"
    write_html(stored, target, arguments.baseline, margin=arguments.margin)
    print(target)
    return OK
