"""The fixtures of a rollout. Each may be overridden in a ``conftest.py``, as with any plugin.

``rlenv_task`` -> ``rlenv_agent``, ``rlenv_sandbox``, ``rlenv_expectation`` -> ``rollout``.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_rlenv.state import AHEAD, JUDGED, POOL, RECORD, SECONDS_AHEAD, get_run

if TYPE_CHECKING:
    from pytest_rlenv.agents.protocol import Agent
    from pytest_rlenv.execution import Judged, Planned, SelectedTask
    from pytest_rlenv.rollout import Rollout
    from pytest_rlenv.sandboxes.protocol import Sandbox
    from pytest_rlenv.verdict import Expectation


class NoRollout(Exception):
    """There is no reward to test. No ``pytest.fail``: an xfail for low rewards must not catch it."""


def planned(request: pytest.FixtureRequest) -> Planned:
    """Return what the running test is to run: from its item, or from the parameter of a marked test."""
    found = plan_of(request.node)
    if found is None:
        pytest.fail(
            'rlenv: this test has no task: mark it with @pytest.mark.rlenv("org/repo")', pytrace=False
        )
    return found


@pytest.fixture
def rlenv_task(request: pytest.FixtureRequest) -> SelectedTask:
    """The task of this test: its id, its environment, its folder."""
    return planned(request).task


@pytest.fixture
def rlenv_agent(request: pytest.FixtureRequest) -> Agent:
    """A fresh agent for this rollout. Override it to bring your own."""
    from pytest_rlenv.errors import SpecError
    from pytest_rlenv.reports.messages import usage_text

    ahead = request.node.stash.get(AHEAD, None)
    try:
        agent = ahead.agent() if ahead is not None else None
        return get_run(request.config).make_agent(planned(request).agent) if agent is None else agent
    except SpecError as error:
        raise NoRollout(usage_text(error)) from None


@pytest.fixture
def rlenv_sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """The sandbox in which agent and verifier act. Override it to bring your own."""
    from pytest_rlenv.errors import RlenvError
    from pytest_rlenv.reports.messages import usage_text

    try:
        return get_run(request.config).sandbox
    except RlenvError as error:
        raise NoRollout(usage_text(error)) from None


@pytest.fixture
def rlenv_expectation() -> Expectation | None:
    """What the reward must be; ``None`` leaves it to file, task, agent and threshold. May be overridden."""
    return None


@pytest.fixture
def rollout(
    request: pytest.FixtureRequest,
    rlenv_task: SelectedTask,
    rlenv_agent: Agent,
    rlenv_sandbox: Sandbox,
    rlenv_expectation: Expectation | str | None,
) -> Rollout:
    """One rollout, with a valid reward. A missing reward is an error of this set-up, never a failure."""
    from pytest_rlenv.reports.capture import show_tails
    from pytest_rlenv.reports.junit import properties
    from pytest_rlenv.reports.messages import error_text
    from pytest_rlenv.rollout_run import Actors, gate_text, run_rollout
    from pytest_rlenv.secrets import SECRETS
    from pytest_rlenv.stop_flag import NOT_STARTED
    from pytest_rlenv.verdict import Expectation, Outcome

    plan = planned(request)
    run = get_run(request.config)
    expectation = rlenv_expectation
    if isinstance(expectation, str):
        expectation = Expectation.parse(expectation, source="the rlenv_expectation fixture")
    item = request.node
    judged = _begun_ahead(item)
    if judged is None:
        with request.config.stash[POOL].guest() if POOL in request.config.stash else nullcontext():
            if why := run.stopped():
                pytest.skip(SECRETS.redact(f"{NOT_STARTED}{why}"))
            judged = run_rollout(
                run,
                replace(plan, task=rlenv_task),
                Actors(rlenv_agent, _agent_maker(request, rlenv_agent), rlenv_sandbox),
                expectation=expectation,
            )
    item.stash[JUDGED] = judged
    found = record(judged, item.nodeid, run.worker)
    item.user_properties.extend(properties(found, datadog=run.settings.junit_dd_tags))
    item.stash[RECORD] = json.dumps(found)
    show_tails(item, found, run.identity.run_dir)
    if why := gate_text(judged):
        pytest.skip(SECRETS.redact(why))
    if judged.verdict.outcome is Outcome.ERROR:
        raise NoRollout(SECRETS.redact(error_text(judged)))
    if judged.verdict.outcome is Outcome.SKIPPED:
        pytest.skip(SECRETS.redact(judged.verdict.message))
    return judged.rollout


def _agent_maker(request: pytest.FixtureRequest, agent: Agent) -> Callable[[], Agent] | None:
    """Return what makes the agent of a further try, ``None`` if nothing can.

    Where the fixture is overridden that is a copy of the agent as it is now, before its first try.
    """
    run = get_run(request.config)
    if not run.retries.limit:
        return None
    from pytest_rlenv.jobs.before import is_overridden

    if not is_overridden(request.node, "rlenv_agent"):
        return lambda: run.make_agent(planned(request).agent)
    try:
        pristine = copy.deepcopy(agent)
    except Exception:  # a stranger's object, which may hold what cannot be copied
        return None
    return lambda: copy.deepcopy(pristine)


def _begun_ahead(item: pytest.Item) -> Judged | None:
    """Return the item's rollout if it was begun before its turn; an item that is run again gets a new one."""
    ahead = item.stash.get(AHEAD, None)
    if ahead is None:
        return None
    del item.stash[AHEAD]
    judged = ahead.judged()
    if judged is not None and judged.rollout.resumed_from is None:  # an earlier run has spent these
        item.stash[SECONDS_AHEAD] = judged.rollout.seconds
    return judged


def settle(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Finish the report of a set-up that gave no rollout: a short text, and a record in any case.

    Without a record, a task whose set-up was cut off would vanish from the coverage.
    """
    if call.excinfo is None:
        return
    if isinstance(call.excinfo.value, NoRollout) and report.failed:
        text = call.excinfo.getrepr(style="value")
        if text.reprcrash is not None:  # the short summary's and JUnit's words, less the exception's class
            text.reprcrash.message = str(call.excinfo.value)
        report.longrepr = text
    plan = plan_of(item)
    if plan is None or RECORD in item.stash:
        return
    from pytest_rlenv.crash import unrun_record
    from pytest_rlenv.reports.junit import properties
    from pytest_rlenv.secrets import SECRETS
    from pytest_rlenv.text import decode
    from pytest_rlenv.verdict import Outcome

    outcome = Outcome.SKIPPED if report.skipped and not hasattr(report, "wasxfail") else Outcome.ERROR
    said = SECRETS.redact(str(call.excinfo.value))
    message = decode(said.encode(errors="replace")).strip().split("\n")[0]
    record = unrun_record(plan, item.nodeid, outcome, message, call.excinfo.typename)
    item.stash[RECORD] = json.dumps(record)
    item.user_properties.extend(properties(record))
    report.user_properties = list(item.user_properties)


def look_ahead(config: pytest.Config, nextitem: pytest.Item | None) -> None:
    """Tell the run which task comes next. With jobs nobody knows, and rollouts overlap anyway."""
    plan = plan_of(nextitem) if nextitem is not None and POOL not in config.stash else None
    get_run(config).following = plan.task if plan is not None else None


def plan_of(item: pytest.Item) -> Planned | None:
    """Return what an item is to run; ``None`` if it is no test of a task."""
    parameters: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    found: Planned | None = getattr(item, "planned", None) or parameters.get("rlenv_task")
    return found


def record(judged: Judged, nodeid: str, worker: str) -> dict[str, Any]:
    """Return a rollout's record with its verdict, as it is stored: without secrets."""
    from pytest_rlenv.reports.log_tails import trajectories
    from pytest_rlenv.secrets import SECRETS

    found = {
        "node": nodeid,
        "worker": worker,
        **judged.rollout.as_record(),
        "verdict": judged.verdict.outcome.value,
        "message": judged.verdict.message,
        "expected": judged.expectation.describe(),
        "expected_by": judged.expectation.source,
        "trajectories": [],
    }
    if judged.folder is not None and judged.rollout.logs:
        paths = [path.relative_to(judged.folder).as_posix() for path in trajectories(judged.folder)]
        found["trajectories"] = [f"{judged.rollout.logs}/{path}" for path in paths]
    return SECRETS.redact_record(found)
