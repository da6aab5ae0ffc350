"""What a run with ``--rlenv-resume`` says: what there is to take over, and what came of it."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from pytest_rlenv.arguments import is_meant
from pytest_rlenv.state import get_run, get_settings, is_dry


class Resuming:
    """The hooks of the process that reports.

    Registered after the controller, so that the earlier run is read before anything is started or cleared.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._kept = 0
        self._fresh = 0
        self._again: Counter[str] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Read the earlier run, before anything else is started, or its folder cleared."""
        if not self._is_meant():
            return
        from pytest_rlenv.errors import RlenvError
        from pytest_rlenv.reports.messages import usage_text

        try:
            if (earlier := get_run(self.config).earlier) is not None:
                earlier.read()
        except RlenvError as error:
            raise pytest.UsageError(usage_text(error)) from None

    def pytest_report_header(self) -> list[str]:
        """Say what there is to take over."""
        earlier = get_run(self.config).earlier if self._is_meant() else None
        if earlier is None:
            return []
        from pytest_rlenv.resuming.earlier import outlook

        stored = earlier.read()
        name = get_settings(self.config).resume
        if not stored.records:
            return [f"rlenv: resuming {name}: nothing is there yet"]
        lines = outlook(stored.records, get_settings(self.config).conditions)
        warnings = [f"rlenv: warning: {problem}" for problem in stored.problems]
        return [f"rlenv: resuming {name}: {line}" for line in lines] + warnings

    def _is_meant(self) -> bool:
        return not is_dry(self.config) and is_meant(self.config, "resume")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what was taken over."""
        text = getattr(report, "rlenv", None)
        if text is None:
            return
        record = json.loads(text)
        if record.get("resumed_from"):
            self._kept += 1
        elif again := record.get("run_again"):
            self._again[again["reason"]] += 1
        else:
            self._fresh += 1

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was taken over, and why the rest was not."""
        if not (self._kept or self._fresh or self._again):
            return
        from pytest_rlenv.amounts import show_reasons

        parts = [f"{self._kept} kept"]
        if self._again:
            parts.append(f"{self._again.total()} run again ({show_reasons(self._again)})")
        if self._fresh:
            parts.append(f"{self._fresh} not in it")
        name = get_settings(self.config).resume
        terminalreporter.write_line(f"rlenv: resumed {name}: {', '.join(parts)}")
