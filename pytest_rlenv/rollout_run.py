"""One planned rollout from beginning to end: quarantine, files, what is expected, retries, and its record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.errors import DiskFull, RlenvError
from pytest_rlenv.execution import Judged, Planned, execute, new_rollout
from pytest_rlenv.rollout import QuarantineInfo
from pytest_rlenv.rules.quarantine import QuarantineEntry, skip_text
from pytest_rlenv.run import Run
from pytest_rlenv.run_folder import require_space
from pytest_rlenv.sandboxes.protocol import Sandbox
from pytest_rlenv.verdict import Expectation, judge

FreshAgent = Callable[[], Agent]


@dataclass(frozen=True)
class Actors:
    """Who takes part in a rollout, beside its task.

    Attributes:
        agent: of the first try.
        fresh_agent: makes the agent of a further try, since one instance serves one rollout; ``None`` if
            nothing can.
        sandbox: the maker of boxes.
    """

    agent: Agent
    fresh_agent: FreshAgent | None
    sandbox: Sandbox


def run_rollout(
    run: Run, planned: Planned, actors: Actors, *, expectation: Expectation | None = None
) -> Judged:
    """Run a rollout as often as its errors are worth it, and judge it. Raises only what stops the whole run.

    Args:
        run: the run.
        planned: what is to run.
        actors: who takes part.
        expectation: overrides every other rule.
    """
    environment, task = planned.task.environment.name, planned.task.id
    entry = run.rules.quarantine.entry_for(environment, task, planned.agent_name)
    if entry is not None and entry.mode == "skip":
        return _not_run(run, planned, actors, entry)
    by_file = run.rules.expectations.expectation_for(environment, task, planned.agent_name)

    def once(number: int) -> Judged:
        if number == 1 or actors.fresh_agent is None:
            return _run_once(run, planned, actors, expectation, by_file)
        try:
            fresh = replace(actors, agent=actors.fresh_agent())
        except RlenvError as error:
            problem = replace(planned, task=replace(planned.task, problem=error))
            return _run_once(run, problem, actors, expectation, by_file)
        return _run_once(run, planned, fresh, expectation, by_file)

    with run.under_way.rollout(planned.label()):
        judged = run.retries.run(once) if actors.fresh_agent is not None else once(1)
    if actors.fresh_agent is None and run.retries.are_worth(judged, tried=1):
        judged.rollout.note("not-retried", "the agent of an overridden fixture cannot be copied")
    judged.rollout.quarantine = entry.info() if entry else None
    return judged


def gate_text(judged: Judged) -> str | None:
    """Return why the test of a rollout is a skip though it was run, ``None`` if it is none."""
    info: QuarantineInfo | None = judged.rollout.quarantine
    if info is None or judged.rollout.skip_reason is not None:
        return None
    outcome = judged.verdict.outcome.value
    return skip_text(info, f"{outcome}: {judged.verdict.message}" if judged.verdict.message else outcome)


def _not_run(run: Run, planned: Planned, actors: Actors, entry: QuarantineEntry) -> Judged:
    rollout = new_rollout(planned, actors.agent, actors.sandbox, run.settings)
    rollout.quarantine = entry.info()
    rollout.skip_reason = skip_text(rollout.quarantine)
    expected = Expectation()
    return Judged(rollout, expected, judge(rollout, expected))


def _run_once(
    run: Run,
    planned: Planned,
    actors: Actors,
    expectation: Expectation | None,
    by_file: Expectation | None,
) -> Judged:
    """Fetch the task if need be and run one try.

    After one that found a disk full the run starts no more: they would fail like it, or worse.
    """
    task = planned.task
    try:
        if task.problem is not None:
            raise task.problem
        run.fetching.ensure(task)
        require_space(run.identity.run_dir, run.settings.min_free)
    except RlenvError as error:
        planned = replace(planned, task=replace(task, problem=error))
    run.prepare_following(task, actors.sandbox)
    judged = execute(
        planned,
        actors.agent,
        sandbox=actors.sandbox,
        settings=run.settings,
        make_folder=lambda: run.make_rollout_dir(task, planned.agent_name, planned.attempt),
        expectation=expectation,
        by_file=by_file,
        earlier=run.earlier,
        kept=run.kept,
        session=run.identity.session,
    )
    why = judged.rollout.error
    if why is not None and why.type == DiskFull.__name__:
        run.stop(f"no space left, as the rollout of {task.id} found: {why.message}")
    if judged.folder is not None:
        judged.rollout.logs = judged.folder.relative_to(run.identity.run_dir).as_posix()
    return judged
