"""From a selected task and an agent to a rollout and its verdict: every error ends here, in the record."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.disk import OUTPUT_CURE, disk_full, is_full
from pytest_rlenv.environments.model import Environment, TaskRef
from pytest_rlenv.errors import Kind, RlenvError, SandboxFailed, Stage, TaskInvalid, Unsupported
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.protocol import LoadedTask, get_framework
from pytest_rlenv.rollout import ErrorInfo, Rollout, StageClock
from pytest_rlenv.sandboxes.protocol import Sandbox
from pytest_rlenv.settings import Settings
from pytest_rlenv.verdict import Expectation, Verdict, expectation_for, judge, with_range


@dataclass(frozen=True)
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
    expectations: Mapping[str, str] = field(default_factory=dict)
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


@dataclass(frozen=True)
class Planned:
    """What a test item is to run.

    Attributes:
        task: the task.
        agent: the agent as the user named it, such as ``package.module:Solver``.
        agent_name: the agent's word in ids and records, such as ``Solver``.
    """

    task: SelectedTask
    agent: str
    agent_name: str


@dataclass(frozen=True)
class Judged:
    """A rollout with what was expected of it, the verdict, and its folder if one could be made."""

    rollout: Rollout
    expectation: Expectation
    verdict: Verdict
    folder: Path | None = None


def execute(
    selected: SelectedTask,
    agent: Agent,
    *,
    agent_name: str,
    sandbox: Sandbox,
    settings: Settings,
    make_folder: Callable[[], Path],
    expectation: Expectation | None = None,
    attempt: int = 1,
) -> Judged:
    """Run one rollout and judge it. Raises only what stops the whole run (Ctrl-C).

    Args:
        selected: the task; its files are on this machine.
        agent: a fresh instance.
        agent_name: its name in records.
        sandbox: the maker of boxes.
        settings: the run's settings.
        make_folder: makes the folder for the rollout's logs, empty and nobody else's.
        expectation: overrides every other rule.
        attempt: number of this attempt, from 1.
    """
    rollout = Rollout(
        environment=selected.environment.name,
        revision=selected.environment.revision,
        framework=selected.ref.framework,
        task=selected.id,
        agent=agent_name,
        agent_version=agent.version,
        model=agent.model,
        attempt=attempt,
        sandbox=sandbox.name,
        reward_key=settings.reward_key or selected.reward_key,
    )
    default = expectation_for(
        must_not_score=agent.must_not_score,
        threshold=settings.threshold if selected.threshold is None else selected.threshold,
    )
    expected = expectation or default
    clock = StageClock(rollout)
    folder: Path | None = None
    try:
        folder = make_folder()
        with clock.stage(Stage.LOAD):
            task = _load(selected)
        rollout.task_digest = task.digest
        for warning in task.warnings:
            rollout.note("task-warning", warning)
        expected = expectation or _expected(selected, task, agent, agent_name, default)
        rollout.reward_key = expected.key or rollout.reward_key or task.reward_key
        task.run(
            RolloutContext(
                agent=agent,
                sandbox=sandbox,
                rollout=rollout,
                clock=clock,
                folder=folder,
                environ=os.environ,
                timeout_multiplier=settings.timeout_multiplier,
                enforce_limits=settings.limits == "enforce",
                verifier_level=settings.verifier,
                build=settings.build,
                extra_instructions=settings.extra_instruction,
            )
        )
    except Unsupported as reason:
        rollout.skip_reason = reason.reason
    except RlenvError as error:
        error.happened_at(clock.broke)
        rollout.error = ErrorInfo.of(error)
    except OSError as error:
        known = _local_trouble(error, folder)
        rollout.error = ErrorInfo.of(known) if known else _internal_error()
    except Exception:
        rollout.error = _internal_error()
    clock.finish()
    verdict = judge(rollout, expected)
    rollout.error = verdict.error
    return Judged(rollout, expected, verdict, folder)


def _load(selected: SelectedTask) -> LoadedTask:
    if selected.problem is not None:
        raise selected.problem
    if selected.ref.problem:
        raise TaskInvalid(selected.ref.problem)
    return get_framework(selected.ref.framework).load(selected.folder, selected.id)


def _expected(
    selected: SelectedTask, task: LoadedTask, agent: Agent, agent_name: str, default: Expectation
) -> Expectation:
    """The most particular rule wins: the user's file, the task, the agent's class, the threshold."""
    rules = (
        (selected.expectations.get(agent_name), selected.source),
        (task.expectations.get(agent_name), "the task's [metadata.rlenv.expect]"),
        (agent.expectation, f"agent {agent_name}"),
    )
    for text, source in rules:
        if text is not None:
            return with_range(Expectation.parse(text, source=source), task.reward_range)
    return with_range(default, task.reward_range)


def _local_trouble(error: OSError, folder: Path | None) -> SandboxFailed | None:
    """Return what is wrong with this machine, where the error says so plainly."""
    where = error.filename or folder or error
    if is_full(error):
        return disk_full("write what a rollout leaves", str(where), stage=Stage.COLLECT, hint=OUTPUT_CURE)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return SandboxFailed(
            f"may not be written: {where}",
            hint="send results elsewhere with --rlenv-output",
            stage=Stage.COLLECT,
        )
    return None


def _internal_error() -> ErrorInfo:
    lines = traceback.format_exc().rstrip().splitlines()
    kind, error, _ = sys.exc_info()
    what = traceback.format_exception_only(kind, error)[0].strip().splitlines()[0]
    return ErrorInfo(
        type="InternalError",
        stage=Stage.LOAD,
        kind=Kind.INFRA,
        message=f"a fault of pytest-rlenv itself: {what}",
        hint="please report it, with the lines below",
        detail="\n".join(lines[-30:]),
    )
