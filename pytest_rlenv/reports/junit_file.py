"""``junit.xml`` in a run's folder: its rollouts, written as they end; valid at every moment."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from pytest_rlenv.reports.growing import GrowingFile
from pytest_rlenv.reports.junit_case import element_name, junit_case, outcome_of
from pytest_rlenv.reports.log_tails import log_tails

JUNIT = "junit.xml"
_TAIL = "</testsuite></testsuites>\n"


class JUnitFile:
    """A JUnit file that grows.

    Args:
        path: the file.
        scratch: a folder for what it is made from meanwhile.
        run_dir: the run's folder, where the rollouts' logs are.
        started_at: the run's begin, in ISO format; now by default.
        datadog: give the properties as tags for Datadog, too.
    """

    def __init__(
        self,
        path: Path,
        *,
        scratch: Path,
        run_dir: Path,
        started_at: str | None = None,
        datadog: bool = False,
    ) -> None:
        self._run_dir = run_dir
        self._datadog = datadog
        self._started_at = started_at or datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._counts: Counter[str] = Counter()
        self._seconds = 0.0
        self._file = GrowingFile(path, scratch / "junit.part", head=self._head, tail=_TAIL)

    def begin(self) -> None:
        """Put a file without test cases in place. Raises ``OSError``, as all of these do."""
        self._file.begin()

    def add(self, record: Mapping[str, Any]) -> None:
        """Add a rollout; one that a plugin is going to run again is left out."""
        if outcome_of(record) == "rerun":
            return
        tails = log_tails(self._run_dir, record)
        text = junit_case(record, tails=tails, datadog=self._datadog)
        self._counts["tests"] += 1
        if kind := element_name(record):
            self._counts[kind] += 1
        self._seconds += float(record.get("seconds") or 0)
        self._file.add(text)

    def refresh(self) -> None:
        """Bring the file up to date, if it is time."""
        self._file.refresh()

    def finish(self) -> None:
        """Write the file for the last time."""
        self._file.finish()

    def _head(self) -> str:
        numbers = {
            "tests": self._counts["tests"],
            "failures": self._counts["failure"],
            "errors": self._counts["error"],
            "skipped": self._counts["skipped"],
            "time": f"{self._seconds:.3f}",
        }
        attributes = " ".join(f'{key}="{value}"' for key, value in numbers.items())
        about = f"timestamp={quoteattr(self._started_at)} hostname={quoteattr(platform.node())}"
        return (
            '<?xml version="1.0" encoding="utf-8"?>\n'
            f'<testsuites name="rlenv"><testsuite name="rlenv" {attributes} {about}>\n'
        )


def write_junit(path: Path, records: Iterable[Mapping[str, Any]], *, run_dir: Path, scratch: Path) -> None:
    """Write the JUnit file of stored rollouts.

    Args:
        path: the file.
        records: the rollouts.
        run_dir: the folder that their logs are relative to.
        scratch: a folder for what is in between.

    Raises:
        OSError: it cannot be written.
    """
    file = JUnitFile(path, scratch=scratch, run_dir=run_dir)
    file.begin()
    for record in records:
        file.add(record)
    file.finish()
