"""All that a run reports beside its records and its summary on the terminal, in one hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from errno import EACCES, EISDIR
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_rlenv.errors import SpecError
from pytest_rlenv.reports.github import Annotations, append_summary, file_in_checkout, on_github
from pytest_rlenv.reports.junit_interim import InterimJUnit
from pytest_rlenv.reports.written import WrittenReports, in_base
from pytest_rlenv.secrets import SECRETS

if TYPE_CHECKING:
    from pytest_rlenv.reports.aggregate import Result
    from pytest_rlenv.run import Run


class Publishing:
    """The reports of one run.

    Args:
        config: pytest's.
        run: the run.
    """

    def __init__(self, config: pytest.Config, run: Run) -> None:
        self._config = config
        self._run = run
        self._written = WrittenReports(run)
        self._interim = InterimJUnit.of(config)
        self._github = on_github(run.settings.github)
        self._annotations = Annotations()

    def begin(self) -> None:
        """Put empty reports in place, and see that those of the run's end can be written.

        Raises:
            SpecError: one cannot be written.
        """
        try:
            for file in (self._run.settings.ctrf, self._run.settings.markdown):
                if file is not None:
                    _check_file(in_base(self._run, file))
            self._written.begin()
        except OSError as error:
            raise SpecError(
                f"a report cannot be written to {error.filename}: {error.strerror}",
                hint="choose another file with --rlenv-ctrf or --rlenv-markdown, "
                "or another folder with --rlenv-output",
            ) from error

    def add(self, record: dict[str, Any]) -> None:
        """Add a rollout's record. Raises ``OSError`` where it cannot be written."""
        self._written.add(record)

    def ended(self, result: Result, location: tuple[str, int | None, str]) -> None:
        """Take a rollout for what is shown at the end.

        Args:
            result: the rollout.
            location: where pytest says that its test is.
        """
        if self._github:
            file = file_in_checkout(self._config.rootpath / location[0])
            self._annotations.add(result, file)

    def test_ended(self) -> None:
        """Take note that a test of any kind has ended."""
        if self._interim is not None:
            self._interim.changed()

    def refresh(self) -> None:
        """Bring the files up to date, where it is time. Raises ``OSError``."""
        self._written.refresh()
        if self._interim is not None:
            self._interim.refresh()

    def finish(self, results: Sequence[Result], extra: Sequence[str] = ()) -> None:
        """Write the files for the last time. Raises ``OSError``.

        Args:
            results: the rollouts that ended.
            extra: lines for the summary in Markdown, such as of a comparison.
        """
        self._written.finish()
        file = self._run.settings.markdown
        if not results or not (self._github or file):
            return
        from pytest_rlenv.reports.markdown import render

        text = SECRETS.redact(render(results, run=self._shown_folder(), extra=extra))
        if file is not None:
            path = in_base(self._run, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if self._github:
            append_summary(text)

    def annotate(self, write_line: Callable[[str], None]) -> None:
        """Write the annotations."""
        for line in self._annotations.lines():
            write_line(line)

    def _shown_folder(self) -> str:
        folder = self._run.identity.run_dir
        base = self._run.identity.base
        return str(folder.relative_to(base) if folder.is_relative_to(base) else Path(folder))


def _check_file(path: Path) -> None:
    """Make a report's folder; raises ``OSError`` where the report cannot be written to a file there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(path))
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(EACCES, os.strerror(EACCES), str(path))
