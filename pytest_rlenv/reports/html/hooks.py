"""``--rlenv-html``: the run as one page, written as it ends, also where it was interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_rlenv.arguments import is_active
from pytest_rlenv.reports.comparison.hooks import BaselineGate
from pytest_rlenv.state import RUN, get_identity, get_settings, is_dry


class HtmlReport:
    """The hooks of a run with ``--rlenv-html``; the run's record is closed before they have their turn."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._written: Path | None = None
        self._problem = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """See that the file can be written: that is to be known before a run of hours, not after."""
        if not is_active(self.config) or is_dry(self.config):
            return
        from pytest_rlenv.errors import RlenvError
        from pytest_rlenv.reports.html import check_target
        from pytest_rlenv.reports.messages import usage_text

        try:
            check_target(self._target())
        except RlenvError as error:
            raise pytest.UsageError(usage_text(error)) from None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the page. A run that was asked for one and has none does not exit 0."""
        folder = get_identity(self.config).run_dir if RUN in self.config.stash else None
        if folder is None or not (folder / "results.jsonl").exists():
            return
        from pytest_rlenv.errors import RlenvError
        from pytest_rlenv.reports.html import write_report
        from pytest_rlenv.reports.stored import read_run

        gate = self.config.pluginmanager.get_plugin("rlenv-baseline")
        comparison = gate.comparison if isinstance(gate, BaselineGate) else None
        try:
            write_report(read_run(folder), self._target(), comparison)
            self._written = self._target()
        except (RlenvError, OSError) as error:
            self._problem = str(error)
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say where the page is, or why there is none and how to have it all the same."""
        if self._written is not None:
            terminalreporter.write_line(f"rlenv: report in {self._written}")
        elif self._problem:
            folder = get_identity(self.config).run_dir
            terminalreporter.write_line(f"rlenv: no HTML report: {self._problem}", red=True)
            terminalreporter.write_line(f"    later: python -m pytest_rlenv report {folder} --output FILE")

    def _target(self) -> Path:
        file = get_settings(self.config).html
        if file is None:
            raise ValueError("--rlenv-html is not set")
        return get_identity(self.config).base / file.expanduser()
