"""``--rlenv-jobs N``: pytest's loop over the items, with up to N rollouts under way at once.

Rollouts wait far more than they compute, so threads do, at a fraction of what worker processes cost. pytest
itself still runs one item at a time, in its own thread: an item's turn comes when its rollout has ended.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import pytest

from pytest_rlenv.arguments import is_active
from pytest_rlenv.fixtures import plan_of, record
from pytest_rlenv.jobs.ahead import Ahead
from pytest_rlenv.jobs.before import Place, place_of, what_comes_before
from pytest_rlenv.jobs.pool import Pool
from pytest_rlenv.jobs.steps import Step, longest_first, steps_of
from pytest_rlenv.options import read_options
from pytest_rlenv.state import AHEAD, POOL, get_run, get_settings, is_distributed, is_dry

if TYPE_CHECKING:
    import argparse

END_LIMIT = 10.0
"""Seconds that rollouts under way have to end once a run is stopped and their boxes are gone."""

ONE_BY_ONE = ("usepdb", "trace", "setuponly")
"""Options of pytest's with which somebody looks on: nothing happens out of its turn."""
IN_ORDER = ("stepwise",)
"""Options with which the order of the results means something."""
CHOSEN_ORDER = (*IN_ORDER, "failedfirst", "newfirst")
"""Options by which the user says what is to begin first."""

_SHOWN = 3


class Jobs:
    """The hooks of a run with ``--rlenv-jobs``."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._waiting: dict[pytest.Item, frozenset[Place]] = {}
        """Items whose rollout may begin once some fixtures are set up, in the order to begin them."""
        self._up: set[Place] = set()
        self._ended: SimpleQueue[pytest.Item] = SimpleQueue()
        """Items whose rollout has ended, from all threads."""
        self._step: dict[pytest.Item, Step] = {}
        self._alone: Counter[str] = Counter()
        """Why rollouts were run in their own turn only."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Refuse worker processes beside threads: who wants which number of rollouts is not clear then."""
        given = read_options(self.config).get("jobs")
        if given is None or not is_distributed(self.config):
            return
        from pytest_rlenv.errors import SpecError
        from pytest_rlenv.reports.messages import usage_text

        if not is_active(self.config) and not given.source.startswith("--"):
            return  # an ini file's wish, and no tasks are named
        try:
            refuse_workers(get_settings(self.config).jobs, given.source, self.config.option)
        except SpecError as error:
            raise pytest.UsageError(usage_text(error)) from None

    def pytest_report_header(self) -> list[str]:
        """Say how many rollouts there are at once."""
        if not is_active(self.config) or (jobs := get_settings(self.config).jobs) == 1:
            return []
        if may_begin_ahead(self.config):
            return [f"rlenv: up to {jobs} rollouts at once in this process"]
        return ["rlenv: one rollout at a time, as pytest's options ask for each in its turn"]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run the items in pytest's place, if there are rollouts that may begin before their turn."""
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            return None
        if not may_begin_ahead(self.config) or len(set(session.items)) < len(session.items):
            return None  # an item that is listed twice runs twice, as pytest's own loop does it
        found = {item: before for item in session.items if (before := what_comes_before(item))}
        if not found or (size := get_settings(self.config).jobs) == 1:
            return None
        self._alone.update(before.reason for before in found.values() if before.reason and before.told)
        ahead = [item for item, before in found.items() if not before.reason]
        if not ahead:
            return None
        in_order = _chose(self.config, IN_ORDER)
        steps = steps_of(session.items, lambda item: item in found and not in_order)
        self._waiting = {item: found[item].fixtures for item in self._in_order_of_begin(ahead)}
        pool = self.config.stash[POOL] = Pool(size)
        try:
            self._run_all(session, [self._make_step(items) for items in steps])
        finally:
            self._end(pool, session.items)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """Begin the rollouts that waited for this fixture."""
        value = yield
        if self._waiting and fixturedef.scope != "function":
            self._up.add(place_of(fixturedef, request.node))
            self._begin()
        return value

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """Take note that a fixture is gone."""
        if self._up:
            self._up = {place for place in self._up if place[0] != id(fixturedef)}

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which rollouts had to wait for their turn."""
        for reason, count in self._alone.most_common(_SHOWN):
            waited = "1 rollout waited for its" if count == 1 else f"{count} rollouts waited for their"
            terminalreporter.write_line(f"rlenv: {waited} turn: {reason}")

    # ----

    def _in_order_of_begin(self, items: Sequence[pytest.Item]) -> Sequence[pytest.Item]:
        if _chose(self.config, CHOSEN_ORDER):
            return items
        from pytest_rlenv.costs import costs_of_items

        return longest_first(items, costs_of_items(self.config, items))

    def _make_step(self, items: Sequence[pytest.Item]) -> Step:
        step = Step(items)
        self._step |= dict.fromkeys(items, step)
        return step

    def _run_all(self, session: pytest.Session, steps: Sequence[Step]) -> None:
        left = deque(steps)
        self._begin()
        item: pytest.Item | None = None
        while left:
            item = self._choose(left[0], item)
            left[0].take(item)
            if not left[0]:
                left.popleft()
            nextitem = left[0].farthest_from(item) if left else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)

    def _begin(self) -> None:
        """Hand over the rollouts for which all is ready."""
        run, pool = get_run(self.config), self.config.stash[POOL]
        for item in [item for item, fixtures in self._waiting.items() if fixtures <= self._up]:
            del self._waiting[item]
            self._step[item].begun(item)
            plan = plan_of(item)
            assert plan is not None
            item.stash[AHEAD] = Ahead(run, plan, partial(self._ended.put, item))
            pool.submit(item.stash[AHEAD])

    def _choose(self, step: Step, last: pytest.Item | None) -> pytest.Item:
        """Return the step's item to run now; wait for a rollout to end if there is none."""
        while True:
            while not self._ended.empty():
                self._take_note()
            item = step.choose(last)
            if item is not None:
                return item
            self._take_note()

    def _take_note(self) -> None:
        item = self._ended.get()
        self._step[item].ended(item)

    def _end(self, pool: Pool, items: Sequence[pytest.Item]) -> None:
        """Let nothing go on. After Ctrl-C or ``-x`` rollouts are under way: their boxes are taken away."""
        from pytest_rlenv.reports.results import leave_result

        run = get_run(self.config)
        busy = pool.close()
        left = [item for item in items if AHEAD in item.stash]
        outcomes = [(item, item.stash[AHEAD].outcome) for item in left]
        if busy and left:
            run.close()
            pool.wait(END_LIMIT)
        for item, judged in outcomes:
            del item.stash[AHEAD]
            if judged is not None:
                with suppress(OSError):
                    leave_result(run.identity, record(judged, item.nodeid, run.worker))
        del self.config.stash[POOL]
        self._waiting.clear()


def may_begin_ahead(config: pytest.Config) -> bool:
    """Return whether this run may do anything before its turn."""
    return not is_dry(config) and not _chose(config, ONE_BY_ONE)


def refuse_workers(jobs: int, source: str, option: argparse.Namespace) -> None:
    """Refuse jobs beside worker processes.

    Raises:
        SpecError: there is more than one job.
    """
    from pytest_rlenv.errors import SpecError

    if jobs == 1:
        return
    workers = getattr(option, "numprocesses", None)
    given = f"-n {workers}" if workers else "xdist's workers"
    instead = f"-n {workers * jobs}" if workers else "-n N"
    raise SpecError(
        f"{source} = {jobs} and {given} do not go together: the first runs rollouts in one process",
        hint=f"use {instead} for worker processes, or -n 0 with --rlenv-jobs {jobs} for threads",
    )


def _chose(config: pytest.Config, options: Sequence[str]) -> bool:
    return any(getattr(config.option, name, False) for name in options)
