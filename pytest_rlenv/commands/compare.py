"""``compare``: a run and its baseline, both stored."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from pytest_rlenv.commands.protocol import FAILED, OK, add_margin, readable
from pytest_rlenv.errors import SpecError
from pytest_rlenv.reports.comparison.gate import parse_fail_on


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    what = "a run's folder, its results.jsonl, or the JUnit file of pytest's --junitxml"
    parser.add_argument("baseline", type=Path, help=f"what the run must not fall behind: {what}")
    parser.add_argument("compared", type=Path, metavar="run", help=f"the run: {what}")
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write it as Markdown")
    parser.add_argument("--all", action="store_true", help="show all tasks that differ, however many")
    add_margin(parser)
    parser.add_argument(
        "--fail-on",
        type=readable(parse_fail_on),
        default=(),
        metavar="WORDS",
        help="exit 1 on any of these, separated by commas: regression, inconclusive, broken (any task), "
        "error (any that the baseline scored), gone (any that the run does not have); where nothing could be "
        "compared, it fails in any case",
    )
    parser.add_argument(
        "--agent",
        type=readable(_renaming),
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="compare the baseline's agent OLD with the run's agent NEW; may be repeated",
    )


def _renaming(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise ValueError(f"{text!r} is not of the form OLD=NEW")
    return old, new


def run(arguments: argparse.Namespace) -> int:
    """Compare, show it, and return 1 if it is what ``--fail-on`` names.

    Raises:
        SpecError: one of the runs cannot be read, or the file cannot be written.
    """
    from pytest_rlenv.reports.comparison.baseline import read_baseline
    from pytest_rlenv.reports.comparison.compared import compare_runs, with_agents
    from pytest_rlenv.reports.comparison.markdown import markdown
    from pytest_rlenv.reports.comparison.text import lines

    comparison = compare_runs(
        with_agents(read_baseline(arguments.baseline), dict(arguments.agent)),
        read_baseline(arguments.compared),
        names=(str(arguments.baseline), str(arguments.compared)),
        margin=arguments.margin,
    )
    if arguments.json:
        print(json.dumps(comparison.as_json(), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        width = shutil.get_terminal_size().columns
        for line in lines(comparison, width=width, every=arguments.all):
            print(line.text)
    if arguments.markdown is not None:
        try:
            arguments.markdown.write_text(markdown(comparison), encoding="utf-8")
        except OSError as error:
            raise SpecError(f"--markdown {arguments.markdown} cannot be written: {error.strerror}") from error
    failures = comparison.failures(arguments.fail_on)
    if failures:
        print(f"failed: {', '.join(failures)} (--fail-on)", file=sys.stderr)
    return FAILED if failures else OK
