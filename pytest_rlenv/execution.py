"""From a selected task and an agent to a rollout and its verdict: every error ends here, in the record."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.environments.layouts import HARBOR
from pytest_rlenv.environments.model import Environment, TaskRef
from pytest_rlenv.errors import RlenvError, Stage, TaskInvalid
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.kept import Kept
from pytest_rlenv.frameworks.protocol import JudgesByAgent, LoadedTask, get_framework, uses_boxes
from pytest_rlenv.recorded_error import record_error
from pytest_rlenv.resuming.earlier import Earlier, TakenOver
from pytest_rlenv.rollout import Rollout, StageClock
from pytest_rlenv.rollout_model import close_model, open_model
from pytest_rlenv.sandboxes.loading import NONE
from pytest_rlenv.sandboxes.protocol import Sandbox
from pytest_rlenv.secrets import SECRETS
from pytest_rlenv.settings import Settings
from pytest_rlenv.verdict import Expectation, Verdict, expectation_for, judge, with_range

if TYPE_CHECKING:
    from pytest_rlenv.model_proxy.proxy import ModelProxy

_NONE: Mapping[str, str] = MappingProxyType({})
"""One for all tasks, since there may be 10,000."""


@dataclass(frozen=True, slots=True)
class SelectedTask:
    """A task of a resolved environment, as a test item holds it.

    Attributes:
        environment: where it comes from.
        ref: which one it is.
        expectations: expectation per agent that a ``*.rlenv.toml`` file sets, as text.
        reward_key: the reward to judge that such a file sets.
        threshold: the threshold that such a file sets.
        source: name of that file, for messages.
        problem: why its files are not on this machine.
    """

    environment: Environment
    ref: TaskRef
    expectations: Mapping[str, str] = field(default_factory=lambda: _NONE)
    reward_key: str | None = None
    threshold: float | None = None
    source: str = ""
    problem: RlenvError | None = None

    @property
    def id(self) -> str:
        """The task's id in its environment."""
        return self.ref.id

    @property
    def folder(self) -> Path:
        """The task's folder on this machine."""
        return self.environment.folder(self.ref)


@dataclass(frozen=True, slots=True)
class Planned:
    """What a test item is to run.

    Attributes:
        task: the task.
        agent: the agent as the user named it, such as ``package.module:Solver``.
        agent_name: the agent's word in ids and records, such as ``Solver``.
        attempt: which of the rollouts of this task and agent, from 1.
    """

    task: SelectedTask
    agent: str
    agent_name: str
    attempt: int = 1

    def label(self) -> str:
        """Return which rollout it is, for people who wait for it."""
        attempt = f" {self.attempt}" if self.attempt > 1 else ""
        return f"{self.task.id} ({self.agent_name}{attempt})"


@dataclass(frozen=True)
class Judged:
    """A rollout with what was expected of it, the verdict, and its folder if one could be made."""

    rollout: Rollout
    expectation: Expectation
    verdict: Verdict
    folder: Path | None = None


def new_rollout(planned: Planned, agent: Agent, sandbox: Sandbox, settings: Settings) -> Rollout:
    """Return the record of a rollout that has yet to run."""
    task = planned.task
    return Rollout(
        environment=task.environment.name,
        revision=task.environment.revision,
        framework=task.ref.framework,
        task=task.id,
        agent=planned.agent_name,
        agent_version=agent.version,
        model=agent.model,
        attempt=planned.attempt,
        sandbox=sandbox.name if uses_boxes(task.ref.framework, settings) else NONE,
        reward_key=settings.reward_key or task.reward_key,
        conditions=settings.conditions,
    )


def execute(
    planned: Planned,
    agent: Agent,
    *,
    sandbox: Sandbox,
    settings: Settings,
    make_folder: Callable[[], Path],
    expectation: Expectation | None = None,
    by_file: Expectation | None = None,
    earlier: Earlier | None = None,
    kept: Kept | None = None,
    session: str = "",
) -> Judged:
    """Run one rollout and judge it. Raises only what stops the whole run (Ctrl-C).

    Args:
        planned: what to run; the task's files are on this machine.
        agent: a fresh instance.
        sandbox: the maker of boxes.
        settings: the run's settings.
        make_folder: makes the folder for the rollout's logs, empty and nobody else's.
        expectation: overrides every other rule.
        by_file: what the run's expectations file says of this rollout.
        earlier: the run that is resumed: what it has scored is not run, but judged again.
        kept: what this process keeps up between rollouts; without it, nothing is.
        session: the run's name.
    """
    selected = planned.task
    rollout = new_rollout(planned, agent, sandbox, settings)
    default = expectation_for(
        must_not_score=agent.must_not_score,
        threshold=settings.threshold if selected.threshold is None else selected.threshold,
    )
    expected = expectation or default
    clock = StageClock(rollout)
    folder: Path | None = None
    model: ModelProxy | None = None
    kept_up = Kept() if kept is None else kept
    try:
        folder = make_folder()
        with clock.stage(Stage.LOAD):
            task = _load(selected)
        rollout.task_digest = task.digest
        for warning in task.warnings:
            rollout.note("task-warning", warning)
        expected = expectation or _expected(planned, task, agent, default, by_file)
        rollout.reward_key = expected.key or rollout.reward_key or task.reward_key
        if earlier is not None and (taken := earlier.take_over(rollout, folder)) is not None:
            return _judged_again(taken, expected)
        SECRETS.guard(folder)
        name = (selected.environment.name, selected.id, planned.agent_name, planned.attempt)
        model = open_model(agent, settings, name, folder)
        task.run(_context(agent, sandbox, rollout, clock, folder, settings, model, kept_up, session))
    except Exception as error:
        record_error(error, rollout, clock, folder)
    except BaseException:
        if model is not None:
            model.forget_recording()  # half a rollout is not to replace a whole one
        raise
    finally:
        if kept is None:
            kept_up.close()
        if model is not None:
            close_model(model, rollout)
    clock.finish()
    if folder is not None:
        _remove_secrets(folder, rollout)
    verdict = judge(rollout, expected)
    rollout.error = verdict.error
    return Judged(rollout, expected, verdict, folder)


def _context(
    agent: Agent,
    sandbox: Sandbox,
    rollout: Rollout,
    clock: StageClock,
    folder: Path,
    settings: Settings,
    model: ModelProxy | None,
    kept: Kept,
    session: str,
) -> RolloutContext:
    return RolloutContext(
        agent=agent,
        sandbox=sandbox,
        rollout=rollout,
        clock=clock,
        folder=folder,
        environ=SECRETS.watching(os.environ),
        timeout_multiplier=settings.timeout_multiplier,
        enforce_limits=settings.limits == "enforce",
        verifier_level=settings.verifier,
        build=settings.build,
        extra_instructions=settings.extra_instruction,
        prompt_template=settings.prompt_template,
        model=model,
        settings=settings,
        kept=kept,
        session=session,
    )


def _judged_again(taken: TakenOver, expected: Expectation) -> Judged:
    verdict = judge(taken.rollout, expected)
    taken.rollout.error = verdict.error
    return Judged(taken.rollout, expected, verdict, taken.folder)


def _remove_secrets(folder: Path, rollout: Rollout) -> None:
    """Take secrets out of what is kept. Only now: a verifier must see what the agent left, as it left it."""
    if problems := SECRETS.redact_guarded(folder):
        rollout.note(
            "secrets", f"not searched for secrets, as they cannot be read: {', '.join(problems[:3])}"
        )


def _load(selected: SelectedTask) -> LoadedTask:
    if selected.problem is not None:
        raise selected.problem
    if selected.ref.problem:
        raise TaskInvalid(selected.ref.problem)
    return get_framework(selected.ref.framework).load(selected.folder, selected.id, selected.ref.data)


def _expected(
    planned: Planned, task: LoadedTask, agent: Agent, default: Expectation, by_file: Expectation | None
) -> Expectation:
    """The most particular rule wins.

    The run's expectations file (which goes by task and agent), the ``*.rlenv.toml`` file or the test's mark
    (by agent), what the task expects of this very agent, its own metadata, the agent's class, the threshold.
    """
    if by_file is not None:
        return with_range(by_file, task.reward_range)
    name = planned.agent_name
    by_agent = task.expected_of(agent, planned.attempt) if isinstance(task, JudgesByAgent) else None
    rules = (
        (planned.task.expectations.get(name), planned.task.source),
        by_agent or (None, ""),
        (task.expectations.get(name), _declared_by(planned.task.ref.framework)),
        (agent.expectation, f"agent {name}"),
    )
    for text, source in rules:
        if text is not None:
            return with_range(Expectation.parse(text, source=source), task.reward_range)
    return with_range(default, task.reward_range)


def _declared_by(framework: str) -> str:
    """Return where a task's own expectations stand, for messages."""
    return "the task's [metadata.rlenv.expect]" if framework == HARBOR else "what the environment declares"
