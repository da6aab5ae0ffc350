"""``python -m pytest_rlenv COMMAND``: what is to be done besides running tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple, cast

from pytest_rlenv._version import __version__
from pytest_rlenv.commands.protocol import FAILED, OK, USAGE, Command, Parser
from pytest_rlenv.errors import Kind, RlenvError

CUT_OFF = 141
"""Exit code where nobody reads the output to its end, as a shell has it: a gate has not spoken."""


class Row(NamedTuple):
    """One command: its word, its module and what it does in a line."""

    word: str
    module: str
    help: str


COMMANDS: tuple[Row, ...] = (
    Row(
        "prune",
        "pytest_rlenv.commands.prune",
        "remove built images, extracted images and leftover containers that nothing uses",
    ),
    Row(
        "compare",
        "pytest_rlenv.commands.compare",
        "compare a run with a baseline: what is broken, what is fixed, and whether it is more than chance",
    ),
    Row(
        "merge",
        "pytest_rlenv.commands.merge",
        "make one run of several, such as the shards of one: results, logs, JUnit and HTML",
    ),
    Row("report", "pytest_rlenv.commands.report", "write a stored run as one HTML page"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 for a failure, 4 for a usage error.

    Args:
        argv: the command line without the program; that of this process by default.
    """
    parser = Parser(
        prog="python -m pytest_rlenv",
        description="Besides `pytest --rlenv ...`, which runs the tasks of RL environments as tests.",
    )
    parser.add_argument("--version", action="version", version=f"pytest-rlenv {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for row in COMMANDS:
        module = cast("Command", import_module(row.module))
        command = commands.add_parser(row.word, help=row.help, description=f"{row.help}.".capitalize())
        command.set_defaults(run=module.run)
        module.add_arguments(command)
    arguments = parser.parse_args(argv)
    if "run" not in arguments:
        parser.print_help()
        return OK
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # who reads has seen enough, such as `head`; nothing more can be said there
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CUT_OFF
    except RlenvError as error:
        hint = f"\n  {error.hint}" if error.hint else ""
        print(f"error: {error.message}{hint}", file=sys.stderr)
        return USAGE if error.kind is Kind.CONFIG else FAILED
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
