"""Read an ATIF document, or say in plain words what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pytest_rlenv.text import clean
from pytest_rlenv.trajectory.model import Trajectory

MAX_BYTES = 64 * 1024 * 1024
"""A larger file is not read."""
SHOWN = 5
"""Problems that a message names."""


class TrajectoryInvalid(ValueError):
    """A file is no ATIF document.

    Args:
        problems: what is wrong, one line each, with its place.
    """

    def __init__(self, problems: list[str]) -> None:
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        super().__init__("; ".join(problems[:SHOWN]) + more)
        self.problems = problems


def read_trajectory(path: Path) -> Trajectory:
    """Read a file.

    Raises:
        TrajectoryInvalid: it cannot be read, or is no ATIF document.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise TrajectoryInvalid([f"larger than {MAX_BYTES >> 20} MiB"])
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise TrajectoryInvalid([f"cannot be read: {error.strerror or error}"]) from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, TrajectoryInvalid):
            raise
        raise TrajectoryInvalid([f"not JSON: {clean(str(error))}"]) from None
    return parse_trajectory(document)


def parse_trajectory(document: Any) -> Trajectory:
    """Return plain JSON data as a trajectory.

    Raises:
        TrajectoryInvalid: it is none.
    """
    try:
        return Trajectory.model_validate(document)
    except ValidationError as error:
        raise TrajectoryInvalid(
            list(dict.fromkeys(_line(each["loc"], each["msg"]) for each in error.errors(include_input=False)))
        ) from None
    except RecursionError:
        raise TrajectoryInvalid(["nested too deeply"]) from None


def problems_of(document: Any) -> list[str]:
    """Return what is wrong with plain JSON data as an ATIF document; nothing if it is one."""
    try:
        parse_trajectory(document)
    except TrajectoryInvalid as invalid:
        return invalid.problems
    return []


def _line(place: tuple[int | str, ...], message: str) -> str:
    where = ""
    for part in place:
        where += f"[{part}]" if isinstance(part, int) else f".{part}" if where else part
    said = message.removeprefix("Value error, ")
    said = message.lower() if said == message else said
    return clean(f"{where or 'the document'}: {said}")
