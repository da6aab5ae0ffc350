"""``--rlenv-baseline``: the run is compared with another one as it ends, and may fail for what that shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_rlenv.arguments import is_meant
from pytest_rlenv.state import RUN, get_identity, get_run, get_settings, is_distributed, is_dry, is_worker

if TYPE_CHECKING:
    from pytest_rlenv.reports.comparison.compared import Comparison
    from pytest_rlenv.reports.stored import StoredRun

STORED = "comparison.json"
"""File of the comparison, in the run's folder."""


class Selecting:
    """The hook of every process that collects in a run with ``--rlenv-baseline``."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Leave what is selected for the process that compares, which under xdist is told node ids only."""
        collects = is_worker(self.config) or not is_distributed(self.config)
        if RUN not in self.config.stash or is_dry(self.config) or not collects:
            return
        from pytest_rlenv.fixtures import plan_of
        from pytest_rlenv.reports.comparison.selected import Selected

        run = get_run(self.config)
        plans = [plan for item in session.items if (plan := plan_of(item)) is not None]
        Selected.of(run.environments, plans).store(run.shared_dir(), run.worker)


class BaselineGate:
    """The hooks of a run with ``--rlenv-baseline`` or ``--rlenv-fail-on``.

    Registered after the controller, so that the baseline is read before an earlier run in the same folder is
    removed, and that the exit code is known when the run's record is closed.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._baseline: StoredRun | None = None
        self._name = ""
        self._comparison: Comparison | None = None
        self._failures: list[str] = []
        self._problem = ""

    @property
    def comparison(self) -> Comparison | None:
        """What the comparison has shown; ``None`` before the run's end, and where nothing was compared."""
        return self._comparison

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Read the baseline: what is wrong with it is to be known before a run of hours, not after."""
        if is_dry(self.config) or not is_meant(self.config, "baseline", "fail_on"):
            return
        from pytest_rlenv.errors import RlenvError
        from pytest_rlenv.reports.messages import usage_text

        try:
            self._read()
        except RlenvError as error:
            raise pytest.UsageError(usage_text(error)) from None

    def _read(self) -> None:
        from pytest_rlenv.errors import SpecError
        from pytest_rlenv.reports.comparison.baseline import read_baseline

        settings = get_settings(self.config)
        if settings.baseline is None:
            source = settings.sources["fail_on"]
            if source.startswith("--"):
                raise SpecError(
                    f"{source} = {','.join(settings.fail_on)}: there is no baseline to compare with",
                    hint="name one with --rlenv-baseline",
                )
            return
        self._name = str(settings.baseline)
        self._baseline = read_baseline(get_identity(self.config).base / settings.baseline.expanduser())

    def pytest_report_header(self) -> list[str]:
        """Say what the run is compared with."""
        if self._baseline is None:
            return []
        rollouts = len(self._baseline.records)
        lines = [f"rlenv: baseline {self._name}: {rollouts} rollout{'' if rollouts == 1 else 's'}"]
        return lines + [f"rlenv: warning: {problem}" for problem in self._baseline.problems]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Compare; let a run fail that did not, if it was asked to."""
        if RUN not in self.config.stash or is_dry(self.config):
            return
        folder = get_identity(self.config).run_dir
        if not (folder / "results.jsonl").exists():
            return
        from pytest_rlenv.errors import RlenvError

        try:
            if self._baseline is None:
                self._read()
            if self._baseline is None:
                return
            self._comparison = self._compare(self._baseline, folder)
        except (RlenvError, OSError) as error:
            self._problem = str(error)
            self._failures = list(get_settings(self.config).fail_on)
        if self._failures and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _compare(self, baseline: StoredRun, folder: Path) -> Comparison:
        from pytest_rlenv.reports.comparison.compared import compare_runs
        from pytest_rlenv.reports.comparison.pairing import everything
        from pytest_rlenv.reports.comparison.selected import Selected
        from pytest_rlenv.reports.stored import read_run

        settings = get_settings(self.config)
        run = read_run(folder)
        shown = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
        selected = Selected.load(get_run(self.config).shared_dir())
        found = compare_runs(
            baseline,
            run,
            names=(self._name, str(shown)),
            margin=settings.margin,
            asked_for=selected.asked_for(settings, run.records) if selected else everything,
        )
        self._failures = found.failures(settings.fail_on)
        text = json.dumps(found.as_json(), indent=2, ensure_ascii=False, allow_nan=False)
        (folder / STORED).write_text(text + "\n", encoding="utf-8")
        return found

    def conclusions(self) -> list[str]:
        """Return what the comparison says in a few lines of text, for reports of another form."""
        if self._comparison is None:
            return []
        from pytest_rlenv.reports.comparison.text import lines
        from pytest_rlenv.reports.comparison.words import counted

        brief = [line.text for line in lines(self._comparison, brief=True)]
        return [f"compared with {self._name}: {counted(self._comparison)}", *brief]

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the comparison, less of it with -qq, all of it with -v."""
        if self._problem:
            terminalreporter.write_line(f"rlenv: not compared with the baseline: {self._problem}", red=True)
        if self._comparison is None:
            return
        from pytest_rlenv.reports.comparison.text import lines

        terminalreporter.section("rlenv: compared with the baseline", sep="=", cyan=True)
        verbosity, width = terminalreporter.verbosity, terminalreporter._tw.fullwidth
        for line in lines(self._comparison, width=width, every=verbosity > 0, brief=verbosity < -1):
            terminalreporter.write_line(line.text, **({line.colour: True} if line.colour else {}))
        if self._failures:
            failing = ", ".join(self._failures)
            terminalreporter.write_line(f"rlenv: this run fails for: {failing} (--rlenv-fail-on)", red=True)
