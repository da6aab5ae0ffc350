"""The reports that a run writes beside ``results.jsonl``, each kept valid while the run goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_rlenv.reports.harbor_job import HarborJob
from pytest_rlenv.reports.junit_file import JUNIT, JUnitFile
from pytest_rlenv.run_folder import ROLLOUTS, SHARED

if TYPE_CHECKING:
    from pytest_rlenv.run import Run


class Report(Protocol):
    """A file that is written as rollouts end. All of it raises ``OSError`` where it cannot be written."""

    def begin(self) -> None:
        """Put an empty report in place."""

    def add(self, record: Mapping[str, Any]) -> None:
        """Add a rollout."""

    def refresh(self) -> None:
        """Bring the file up to date, if it is time."""

    def finish(self) -> None:
        """Write it for the last time."""


class WrittenReports:
    """All of a run's."""

    def __init__(self, run: Run) -> None:
        run_dir, settings = run.identity.run_dir, run.settings
        scratch = run_dir / SHARED / run.identity.session
        self._began = False
        self._reports: list[Report] = [
            JUnitFile(run_dir / JUNIT, scratch=scratch, run_dir=run_dir, datadog=settings.junit_dd_tags),
            HarborJob(run_dir / ROLLOUTS, run.identity.session, _agents(run), settings.model),
        ]
        if settings.ctrf is not None:
            from pytest_rlenv.reports.ctrf import CtrfFile

            path = in_base(run, settings.ctrf)
            self._reports.append(CtrfFile(path, scratch=scratch, run_dir=run_dir, run=run.identity.session))

    def begin(self) -> None:
        """Put empty reports in place."""
        if not self._began:
            self._began = True
            for report in self._reports:
                report.begin()

    def add(self, record: Mapping[str, Any]) -> None:
        """Add a rollout to each."""
        self.begin()
        for report in self._reports:
            report.add(record)

    def refresh(self) -> None:
        """Bring each up to date, if it is time."""
        if self._began:
            for report in self._reports:
                report.refresh()

    def finish(self) -> None:
        """Write each for the last time."""
        if self._began:
            for report in self._reports:
                report.finish()


def _agents(run: Run) -> list[str]:
    from pytest_rlenv.agents.loading import agent_names

    return list(agent_names(run.settings.agent).values())


def in_base(run: Run, path: Path) -> Path:
    """Return a path of the user's, which is meant from the folder in which pytest was called."""
    return run.identity.base / path.expanduser()
