"""Rules that a user sets over a whole run: quarantine, expectations and budgets, in the process that reports.

Registered only where one of them is asked for.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_rlenv.agents.loading import agent_names
from pytest_rlenv.arguments import ARGUMENTS, is_active
from pytest_rlenv.options import RULES
from pytest_rlenv.state import STARTED, get_run, get_settings, is_dry
from pytest_rlenv.stop_flag import NOT_STARTED

if TYPE_CHECKING:
    from pytest_rlenv.rules.budgets import Budgets
    from pytest_rlenv.rules.quarantine import Seen
    from pytest_rlenv.run import Run

NARROWING = ("keyword", "markexpr", "lf", "deselect", "stepwise", "maxfail")
"""Options of pytest's with which not every task is run."""
OWN_NARROWING = ("task", "exclude_task", "limit", "shard", "resume")
"""Settings of ours likewise."""

SHOWN = 20


class RunRules:
    """The hooks."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._seen: list[Seen] = []
        self._budgets: Budgets | None = None
        self._used_up: str | None = None
        self._not_started = 0
        self._held = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Read the files before anything is resolved, and start the clock."""
        from pytest_rlenv.errors import RlenvError
        from pytest_rlenv.reports.messages import usage_text

        try:
            self.config.stash[STARTED] = time.monotonic()
            if self._is_meant():
                get_run(self.config)
        except RlenvError as error:
            raise pytest.UsageError(usage_text(error)) from None

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a rollout that ended; start no more once a budget is used up."""
        text = getattr(report, "rlenv", None)
        if text is None:
            return
        record: dict[str, Any] = json.loads(text)
        rerun = str(report.outcome) == "rerun"
        used_up = self._counting().count(record, rerun=rerun)
        if used_up and self._used_up is None:
            self._used_up = used_up
            get_run(self.config).stop(used_up)
        if not rerun:
            self._take_note(record)

    def _take_note(self, record: dict[str, Any]) -> None:
        from pytest_rlenv.rules.quarantine import Seen

        self._seen.append(Seen(record["environment"], record["task"], record["agent"], record["verdict"]))
        self._held += bool(record.get("quarantine"))
        if record["verdict"] == "skipped" and record["message"].startswith(NOT_STARTED):
            self._not_started += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was held and set, what is out of date or not needed, and which budget is used up."""
        if not self._seen or is_dry(self.config) or getattr(self.config.option, "no_summary", False):
            return
        run = get_run(self.config)
        for line in self._facts(run):
            terminalreporter.write_line(f"rlenv: {line}")
        old = list(self._out_of_date(run))
        shown = old if terminalreporter.verbosity > 0 else old[:SHOWN]
        for line in shown:
            terminalreporter.write_line(f"rlenv: {line}", yellow=True)
        if len(old) > len(shown):
            terminalreporter.write_line(f"... and {len(old) - len(shown)} more (-v shows all)")
        if self._not_started and (why := self._budget(run)) is not None:
            count = f"{self._not_started} rollout{'s were' if self._not_started > 1 else ' was'} not started"
            terminalreporter.write_line(f"rlenv: {why}: {count}", red=True)

    # ----

    def _is_meant(self) -> bool:
        """Return whether wrong values are told of now: an ini file's wait until a test has a task."""
        given = any(getattr(self.config.option, f"rlenv_{name}") is not None for name in RULES)
        return given or is_active(self.config)

    def _counting(self) -> Budgets:
        if self._budgets is None:
            from pytest_rlenv.rules.budgets import Budgets, ErrorLimit

            settings = get_settings(self.config)
            errors = None if settings.max_errors is None else ErrorLimit.parse(settings.max_errors)
            self._budgets = Budgets(cost=settings.max_cost, errors=errors)
        return self._budgets

    def _budget(self, run: Run) -> str | None:
        """Return which budget is used up, if that is why no more rollouts are started."""
        from pytest_rlenv.rules.budgets import time_is_up

        why = run.stopped()
        seconds = run.settings.max_seconds
        by_time = seconds is not None and why == time_is_up(seconds)
        return why if why is not None and (by_time or why == self._used_up) else None

    def _facts(self, run: Run) -> Iterator[str]:
        if run.rules.quarantine.name:
            count = "1 rollout does" if self._held == 1 else f"{self._held} rollouts do"
            yield f"{run.rules.quarantine.name}: {count} not gate"
        if run.rules.expectations.name:
            rule_for = run.rules.expectations.expectation_for
            tasks = {(s.environment, s.task) for s in self._seen if rule_for(s.environment, s.task, s.agent)}
            count = "1 task" if len(tasks) == 1 else f"{len(tasks)} tasks"
            yield f"{run.rules.expectations.name}: sets what is expected of {count}"
        if run.settings.max_cost is not None and self._counting().cost is None:
            yield "no rollout says what it cost (usage.cost_usd), so --rlenv-max-cost has held nothing back"

    def _out_of_date(self, run: Run) -> Iterator[str]:
        yield from run.rules.quarantine.expired()
        if not self._is_whole(run):
            return
        yield from run.rules.quarantine.unneeded(self._seen)
        yield from run.rules.expectations.unneeded((each.environment, each.task) for each in self._seen)
        yield from self._unknown_agents(run)

    def _unknown_agents(self, run: Run) -> Iterator[str]:
        """Yield a line for each agent's name that is neither part of this run nor a word of ours."""
        from pytest_rlenv.agents.loading import BUILT_IN
        from pytest_rlenv.environments.selection import matches_name

        names = [*BUILT_IN, *agent_names(run.settings.agent).values(), *{each.agent for each in self._seen}]
        for glob in sorted(run.rules.expectations.agents()):
            if not any(matches_name(name, glob) for name in names):
                yield f"{run.rules.expectations.name}: no agent of this run is called {glob!r}"

    def _is_whole(self, run: Run) -> bool:
        """Return whether the run was of all that its user names usually: only then is a rule not needed."""
        option, settings = self.config.option, run.settings
        arguments = self.config.stash[ARGUMENTS]
        by_path = not arguments.specs and self.config.args_source is pytest.Config.ArgsSource.ARGS
        return not (
            by_path
            or arguments.chosen
            or run.stopped()
            or any(getattr(option, name, None) for name in NARROWING)
            or any(getattr(settings, name, None) for name in OWN_NARROWING)
        )
