"""What pytest itself shows of a test: its traceback and what it printed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_rlenv.reports.log_tails import log_tails
from pytest_rlenv.secrets import SECRETS

_COPYING = ("system-out", "out-err", "all")
"""Values of ``junit_logging`` with which pytest's JUnit file has what a test printed."""


def redact_report(report: pytest.TestReport) -> None:
    """Take secrets out of a test's report before any reporter sees it."""
    report.sections = [(title, SECRETS.redact(text)) for title, text in report.sections]
    if isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        report.longrepr = (path, line, SECRETS.redact(reason))
    elif report.longrepr is not None:
        shown = str(report.longrepr)
        if (redacted := SECRETS.redact(shown)) != shown:
            report.longrepr = redacted  # a plain text, and without colours; that is what it costs


def show_tails(item: pytest.Item, record: Mapping[str, Any], run_dir: Path) -> None:
    """Add the ends of a rollout's logs to what its test printed, where pytest's own JUnit file copies that.

    Args:
        item: the test.
        record: its rollout's.
        run_dir: the run's folder.
    """
    config = item.config
    if getattr(config.option, "xmlpath", None) and config.getini("junit_logging") in _COPYING:
        for each in log_tails(run_dir, record):
            item.add_report_section("setup", "stdout", each.titled())
