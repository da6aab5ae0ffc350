"""The process that steers and reports: it resolves environments once, hands them to workers, stores results.

Registered as a plugin of its own where there is no worker. It imports nothing heavy until a run uses it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_rlenv.arguments import ARGUMENTS, PREFIX, is_active
from pytest_rlenv.costs import SECONDS, costs_of_run, seconds_of_last_run
from pytest_rlenv.cycles import no_search
from pytest_rlenv.notices import kept_stdout
from pytest_rlenv.state import (
    RUN,
    WORKER_INPUT,
    get_identity,
    get_run,
    get_settings,
    is_distributed,
    is_dry,
    worker_input,
)

if TYPE_CHECKING:
    from pytest_rlenv.reports.aggregate import Result
    from pytest_rlenv.reports.publishing import Publishing
    from pytest_rlenv.reports.results import ResultsFolder
    from pytest_rlenv.run import Run

ONE_WORKER = ("loadscope", "loadfile")
"""Modes of xdist's that run a whole environment on one worker."""

NARROWING = ("keyword", "markexpr", "lf", "deselect", "stepwise")
"""Options of pytest's that leave fewer tasks than the controller knows of."""


class Controller:
    """The hooks of the process that reports."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.results: list[Result] = []
        self._crashed: set[str] = set()
        self._workers = 0
        self._seconds: dict[str, float] = {}
        self._bad = 0
        self._lost: str | None = None
        """Why some results could not be stored."""
        self._folder: ResultsFolder | None = None
        self._unscored = False
        self._reports: Publishing | None = None
        self._stdout = kept_stdout(config.add_cleanup)

    # ---- start

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Resolve and pin the environments, and see that boxes can be started, before anything is."""
        if not is_active(self.config):
            return
        from pytest_rlenv.errors import RlenvError
        from pytest_rlenv.reports.messages import usage_text

        try:
            run = get_run(self.config)
            with no_search():
                self._start(run)
            if is_distributed(self.config) and not (is_dry(self.config) or self._is_narrowed(run)):
                run.fetch_environments()
        except RlenvError as error:
            raise pytest.UsageError(usage_text(error)) from None

    def _start(self, run: Run) -> None:
        from pytest_rlenv.agents.loading import load_agent
        from pytest_rlenv.collection import wants_metadata
        from pytest_rlenv.command_line import resolve_command_line
        from pytest_rlenv.configuration_file import check_configuration_file

        for agent in run.settings.agent:
            load_agent(agent)
        check_configuration_file(self.config)
        arguments = self.config.stash[ARGUMENTS]
        resolve_command_line(
            run,
            arguments.specs,
            arguments.chosen,
            base=run.identity.rootdir if arguments.from_ini else run.identity.base,
            read_metadata=wants_metadata(self.config),
        )
        if is_distributed(self.config):
            run.kept.close_idle()  # what has listed tasks runs none here
        if is_dry(self.config):
            return
        run.check_agents()
        self._results_folder().claim()
        run.check_sandbox()
        self._results_folder().clear(run.sandbox.describe())
        self._publishing().begin()
        self._watch(run)

    def pytest_collection_finish(self) -> None:
        """Watch also a run whose environments only marks and files name."""
        if RUN in self.config.stash and not is_dry(self.config):
            self._watch(get_run(self.config))

    def _watch(self, run: Run) -> None:
        from pytest_rlenv.reports.watching import watch

        watch(self.config, run, self._stdout, done=lambda: len(self.results), tick=self._publishing().refresh)

    def _is_narrowed(self, run: Run) -> bool:
        """Return whether the workers may select fewer tasks than the controller knows of."""
        narrowing = any(getattr(self.config.option, name, None) for name in NARROWING)
        return narrowing or run.settings.shard is not None

    def pytest_report_header(self) -> list[str]:
        """Say which environments at which commit, which agents, which sandbox."""
        if not is_active(self.config):
            return []
        from pytest_rlenv.reports.terminal import header_lines
        from pytest_rlenv.sandbox_choice import where_tasks_run

        run = get_run(self.config)
        sandbox = run.settings.sandbox if is_dry(self.config) else run.sandbox.describe()
        lines = header_lines(run.environments, run.settings.agent, sandbox, where_tasks_run(run))
        lines += [f"rlenv: model={model}"] if (model := run.settings.model_words) else []
        dist = getattr(self.config.option, "dist", "no")
        if dist in ONE_WORKER and is_distributed(self.config):
            lines.append(f"rlenv: warning: --dist {dist} runs a whole environment on one worker; use load")
        elif dist == "loadgroup":
            lines.append("rlenv: warning: --dist loadgroup hangs when a worker dies; use load")
        if self._folder is not None and self._folder.replaces:
            lines.append(
                f"rlenv: the earlier run in {run.identity.run_dir} is replaced (--rlenv-resume keeps it)"
            )
        return lines

    # ---- workers

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Hand the run to a worker."""
        node.workerinput[WORKER_INPUT] = worker_input(self.config)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, specs: Sequence[Any]) -> None:
        """Take note of how many workers there will be."""
        self._workers = len(specs)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config) -> object | None:
        """Deal the longest rollouts first, where the user left the choice to xdist."""
        if not is_active(config) or config.getoption("dist") != "load":
            return None
        from pytest_rlenv.scheduling import LongestFirst

        return LongestFirst(self._workers, costs_of_run(config, get_run(config)), self._complain)

    def _complain(self, what: str) -> None:
        report = pytest.CollectReport(nodeid="rlenv", outcome="failed", longrepr=what, result=[])
        self.config.hook.pytest_collectreport(report=report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """Make a killed worker's rollout an error, for the terminal as for JUnit, with a record."""
        if not crashitem.startswith(PREFIX) and ".rlenv.toml::" not in crashitem:
            return
        from pytest_rlenv.crash import crash_record, settle_crash
        from pytest_rlenv.reports.junit import properties

        self._crashed.add(crashitem)
        record = crash_record(crashitem, str(report.longrepr), get_run(self.config))
        settle_crash(report, record)
        report.user_properties = list(properties(record, datadog=get_settings(self.config).junit_dd_tags))
        vars(report)["rlenv"] = json.dumps(record)

    # ---- results

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store a rollout as it ends."""
        if report.failed:
            self._count_failed()
        if report.when == "teardown" and self._reports is not None:
            self._reports.test_ended()
        text = getattr(report, "rlenv", None)
        if text is None:
            return
        from pytest_rlenv.reports.aggregate import Result
        from pytest_rlenv.secrets import SECRETS

        record = SECRETS.redact_record(json.loads(text) | {"outcome": _outcome(report)})
        self._store(record)
        if str(report.outcome) == "rerun":  # by a rerun plugin: only its last run counts
            return
        self.results.append(Result.of(record))
        self._publishing().ended(self.results[-1], report.location)
        self._seconds[report.nodeid] = record["seconds"]
        if report.nodeid in self._crashed:
            self._crashed.discard(report.nodeid)
            self._tear_down_crashed(report)

    def _store(self, record: dict[str, Any]) -> None:
        """Store a record; where that fails, the run goes on and ends with an error that says so."""
        try:
            self._results_folder().add(record)
            self._publishing().add(record)
        except OSError as error:
            self._lost = self._lost or f"{error.strerror}: {error.filename or self._results_folder().path}"
            from pytest_rlenv.disk import is_full

            if is_full(error):
                get_run(self.config).stop(f"no space left for results: {self._lost}")

    def _count_failed(self) -> None:
        """Tell the workers to start no more rollouts once ``-x`` or ``--maxfail`` is reached.

        They hold items already that pytest-xdist does not take back.
        """
        self._bad += 1
        limit = self.config.getoption("maxfail")
        if limit and self._bad >= limit and is_active(self.config):
            get_run(self.config).stop(f"--maxfail={limit} was reached")

    def _tear_down_crashed(self, report: pytest.TestReport) -> None:
        """Send the teardown report that a dead worker never will: JUnit writes properties at teardown."""
        end = pytest.TestReport(
            nodeid=report.nodeid,
            location=report.location,
            keywords={},
            outcome="passed",
            longrepr=None,
            when="teardown",
            user_properties=report.user_properties,
        )
        vars(end)["node"] = getattr(report, "node", None)
        self.config.hook.pytest_runtest_logreport(report=end)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Refuse a green end to a run that scored nothing; close the run's record."""
        if self.results and session.exitstatus == pytest.ExitCode.OK:
            scored = any(result.reward is not None for result in self.results)
            self._unscored = not (scored or get_settings(self.config).allow_unscored)
            if self._unscored or self._lost:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self._seconds and (cache := getattr(self.config, "cache", None)):
            cache.set(SECONDS, seconds_of_last_run(self.config) | self._seconds)
        if self._folder is not None:
            try:
                self._folder.finish(int(session.exitstatus))
                self._publishing().finish(self.results, self._conclusions())
            except OSError as error:
                self._lost = self._lost or f"{error.strerror}: {error.filename or self._folder.path}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the summary."""
        if not self.results:
            return
        from pytest_rlenv.reports.terminal import write_summary

        write_summary(terminalreporter, self.results, get_identity(self.config).run_dir)
        self._publishing().annotate(terminalreporter.write_line)
        if self._lost:
            terminalreporter.write_line(f"rlenv: results are incomplete, {self._lost}", red=True)
        if self._unscored:
            terminalreporter.write_line(
                "rlenv: no task was scored, so this run does not pass (--rlenv-allow-unscored lets it)",
                red=True,
            )

    def _conclusions(self) -> Sequence[str]:
        """Return what a comparison with a baseline says, which was made just before."""
        gate = self.config.pluginmanager.get_plugin("rlenv-baseline")
        return gate.conclusions() if gate is not None else ()

    def _results_folder(self) -> ResultsFolder:
        if self._folder is None:
            from pytest_rlenv.reports.results import ResultsFolder

            self._folder = ResultsFolder(get_run(self.config))
        return self._folder

    def _publishing(self) -> Publishing:
        if self._reports is None:
            from pytest_rlenv.reports.publishing import Publishing

            self._reports = Publishing(self.config, get_run(self.config))
        return self._reports


def _outcome(report: pytest.TestReport) -> str:
    """Return pytest's word for how the test ended, beside our verdict on the rollout."""
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    return "error" if report.failed and report.when != "call" else report.outcome
