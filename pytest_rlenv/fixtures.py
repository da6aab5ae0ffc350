"""The fixtures of a rollout. Each may be overridden in a ``conftest.py``, as with any plugin.

``rlenv_task`` -> ``rlenv_agent``, ``rlenv_sandbox``, ``rlenv_expectation`` -> ``rollout``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from pytest_rlenv.state import AHEAD, POOL, RECORD, SECONDS_AHEAD, get_run

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
    from pytest_rlenv.reports.junit import properties
    from pytest_rlenv.reports.messages import error_text
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
                pytest.skip(f"not started: {why}")
            judged = run.execute(
                rlenv_task,
                rlenv_agent,
                agent_name=plan.agent_name,
                sandbox=rlenv_sandbox,
                expectation=expectation,
            )
    item.judged = judged
    item.user_properties.extend(properties(judged))
    item.stash[RECORD] = json.dumps(record(judged, item.nodeid, run.worker))
    if judged.verdict.outcome is Outcome.ERROR:
        raise NoRollout(error_text(judged))
    if judged.verdict.outcome is Outcome.SKIPPED:
        pytest.skip(judged.verdict.message)
    return judged.rollout


def _begun_ahead(item: pytest.Item) -> Judged | None:
    """Return the item's rollout if it was begun before its turn; an item that is run again gets a new one."""
    ahead = item.stash.get(AHEAD, None)
    if ahead is None:
        return None
    del item.stash[AHEAD]
    judged = ahead.judged()
    if judged is not None:
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
    from pytest_rlenv.text import decode
    from pytest_rlenv.verdict import Outcome

    outcome = Outcome.SKIPPED if report.skipped and not hasattr(report, "wasxfail") else Outcome.ERROR
    message = decode(str(call.excinfo.value).encode(errors="replace")).strip().split("\n")[0]
    record = unrun_record(plan, item.nodeid, outcome, message, call.excinfo.typename)
    item.stash[RECORD] = json.dumps(record)


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
    """Return a rollout's record with its verdict, as it is stored."""
    return {
        "node": nodeid,
        "worker": worker,
        **judged.rollout.as_record(),
        "verdict": judged.verdict.outcome.value,
        "message": judged.verdict.message,
        "expected": judged.expectation.describe(),
        "expected_by": judged.expectation.source,
    }
