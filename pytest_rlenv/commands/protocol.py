"""What a command is: a module that describes its arguments and does its work."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn, Protocol, TypeVar

from pytest_rlenv.reports.comparison.gate import MARGIN, parse_margin

T = TypeVar("T")

OK, FAILED, USAGE = 0, 1, 4
"""Exit codes. A usage error is 4, as it is pytest's."""


class Command(Protocol):
    """A module of this package."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare what may be given on the command line."""
        ...

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it and return the exit code.

        Raises:
            RlenvError: it cannot be done; told to the user with its hint.
        """
        ...


class Parser(argparse.ArgumentParser):
    """A parser of arguments that ends with our exit code for usage errors."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line, and end."""
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: error: {message}\n")


def add_margin(parser: argparse.ArgumentParser) -> None:
    """Declare ``--margin``, for each command that compares runs."""
    parser.add_argument(
        "--margin",
        type=readable(parse_margin),
        default=MARGIN,
        metavar="X",
        help='the fall that "no regression" rules out, as a share of the range of rewards (default: 0.05)',
    )


def readable(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Have argparse show the words of a ValueError instead of its own."""

    def checked(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked
