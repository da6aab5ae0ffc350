"""What GitHub Actions shows of a run: annotations where tasks fail, and a summary on the job's page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pytest_rlenv.reports.aggregate import Result
from pytest_rlenv.text import clean
from pytest_rlenv.verdict import Outcome

SHOWN = 10
"""Annotations that GitHub shows of one step and kind; it drops the rest without a word."""
MESSAGE = 1000
"""Characters of an annotation."""
SUMMARY_LIMIT = 1024 * 1024
"""Bytes of a step's summary; GitHub refuses a larger one as a whole."""


def on_github(when: str, environ: Mapping[str, str] | None = None) -> bool:
    """Return whether reports for GitHub are wanted: ``on``, ``off``, or ``auto``, where it runs this."""
    environ = os.environ if environ is None else environ
    return when == "on" or (when == "auto" and environ.get("GITHUB_ACTIONS") == "true")


class Place(NamedTuple):
    """A rollout that is to be annotated, and its task's file in the checkout, if it is there."""

    result: Result
    file: str | None


class Annotations:
    """Collects what failed; of many only the first ones are kept."""

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._count = 0

    def add(self, result: Result, file: str | None) -> None:
        """Take a rollout, if it failed or is an error."""
        if result.verdict not in (Outcome.FAILED, Outcome.ERROR):
            return
        self._count += 1
        if len(self._places) < SHOWN:
            self._places.append(Place(result, file))

    def lines(self) -> list[str]:
        """Return the workflow commands: all, or the first ones and one that says how many more there are."""
        if self._count <= SHOWN:
            return [_command(place) for place in self._places]
        kept = self._places[: SHOWN - 1]
        more = f"{self._count - len(kept)} more rollouts failed or are errors; the job's summary has them"
        return [*map(_command, kept), f"::error title={_property('rlenv')}::{_data(more)}"]


def file_in_checkout(file: Path, environ: Mapping[str, str] | None = None) -> str | None:
    """Return a file as GitHub names it: relative to the checkout; ``None`` if it lies elsewhere."""
    environ = os.environ if environ is None else environ
    top = Path(environ.get("GITHUB_WORKSPACE") or Path.cwd())
    try:
        return file.resolve().relative_to(top.resolve()).as_posix() if file.is_file() else None
    except (OSError, ValueError):
        return None


def append_summary(text: str, environ: Mapping[str, str] | None = None) -> None:
    """Append a text to the summary of the step, as far as it has room.

    Raises:
        OSError: it cannot be written.
    """
    environ = os.environ if environ is None else environ
    given = environ.get("GITHUB_STEP_SUMMARY")
    if not given:
        return
    path = Path(given)
    data = ("\n" + text).encode()
    there = path.stat().st_size if path.exists() else 0
    if there + len(data) <= SUMMARY_LIMIT:
        with path.open("ab") as file:
            file.write(data)


def _command(place: Place) -> str:
    result = place.result
    attempt = f" #{result.attempt}" if result.attempt > 1 else ""
    title = clean(f"{result.verdict.value.upper()} {result.task}{attempt} ({result.agent})")
    parts = [f"title={_property(title)}"]
    if place.file:
        parts.append(f"file={_property(clean(place.file))}")
    message = clean(result.message)
    short = message if len(message) <= MESSAGE else message[: MESSAGE - 3] + "..."
    return f"::error {','.join(parts)}::{_data(short or title)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
