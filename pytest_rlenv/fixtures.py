"""The fixtures of a rollout. Each may be overridden in a ``conftest.py``, as with any plugin.

``rlenv_task`` -> ``rlenv_agent``, ``rlenv_sandbox``, ``rlenv_expectation`` -> ``rollout``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_rlenv.state import RECORD, get_run

if TYPE_CHECKING:
    from pytest_rlenv.agents.protocol import Agent
    from pytest_rlenv.execution import Judged, Planned, SelectedTask
    from pytest_rlenv.rollout import Rollout
    from pytest_rlenv.sandboxes.protocol import Sandbox
    from pytest_rlenv.verdict import Expectation


def planned(request: pytest.FixtureRequest) -> Planned:
    """Return what the running test is to run: from its item, or from the parameter of a marked test."""
    item = request.node
    own: Planned | None = getattr(item, "planned", None)
    if own is not None:
        return own
    parameters: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    if "rlenv_task" not in parameters:
        pytest.fail(
            'rlenv: this test has no task: mark it with @pytest.mark.rlenv("org/repo")', pytrace=False
        )
    found: Planned = parameters["rlenv_task"]
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

    try:
        return get_run(request.config).make_agent(planned(request).agent)
    except SpecError as error:
        pytest.fail(usage_text(error), pytrace=False)


@pytest.fixture
def rlenv_sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """The sandbox in which agent and verifier act. Override it to bring your own."""
    from pytest_rlenv.errors import SpecError
    from pytest_rlenv.reports.messages import usage_text

    try:
        return get_run(request.config).sandbox
    except SpecError as error:
        pytest.fail(usage_text(error), pytrace=False)


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
    rlenv_expectation: Expectation | None,
) -> Rollout:
    """One rollout, with a valid reward. A missing reward is an error of this set-up, never a failure."""
    from pytest_rlenv.reports.junit import properties
    from pytest_rlenv.reports.messages import error_text
    from pytest_rlenv.verdict import Outcome

    plan = planned(request)
    run = get_run(request.config)
    if why := run.stopped():
        pytest.skip(f"not started: {why}")
    judged = run.execute(
        rlenv_task,
        rlenv_agent,
        agent_name=plan.agent_name,
        sandbox=rlenv_sandbox,
        expectation=rlenv_expectation,
    )
    item = request.node
    item.judged = judged
    item.user_properties.extend(properties(judged))
    item.stash[RECORD] = json.dumps(record(judged, item.nodeid, run.worker))
    if judged.verdict.outcome is Outcome.ERROR:
        pytest.fail(error_text(judged), pytrace=False)
    if judged.verdict.outcome is Outcome.SKIPPED:
        pytest.skip(judged.verdict.message)
    return judged.rollout


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
