"""One rollout of a Harbor task, in Harbor's order, with a clock and a limit for every stage.

build or pull, start, health check, agent set-up; then for each step, of which a task without steps has one:
make ready, agent, logs, collect hooks and artifacts, verifier, reward; at the end destroy. The solution goes
in for the oracle only, the tests only after the agent has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytest_rlenv.agents.episode import no_boxes
from pytest_rlenv.errors import RlenvError, Stage, Unsupported
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.harbor.healthcheck import wait_until_healthy
from pytest_rlenv.frameworks.harbor.session import Session
from pytest_rlenv.frameworks.harbor.step_rewards import missed_minimum, write_only_step, write_steps
from pytest_rlenv.frameworks.harbor.step_run import StepRun
from pytest_rlenv.frameworks.harbor.steps import Step
from pytest_rlenv.frameworks.harbor.support import no_listener, notes, unsupported
from pytest_rlenv.frameworks.harbor.task import HarborTask
from pytest_rlenv.frameworks.harbor.trajectory import check_trajectory
from pytest_rlenv.rollout import ErrorInfo, StepRecord


class HarborRollout:
    """One rollout of one task."""

    def __init__(self, task: HarborTask, context: RolloutContext) -> None:
        self.task = task
        self.context = context
        self.session = Session(task, context)
        self._records: list[StepRecord] = []

    def run(self) -> None:
        """Run it to its end and write rewards, notes and stage times into the record.

        Raises:
            Unsupported: the task needs what is not there.
            RlenvError: there is no reward, with the stage that broke.
        """
        self._check()
        self.session.prepare_images()
        self.session.install_agent()
        try:
            with self.context.clock.stage(Stage.START):
                self.session.start_agent_box()
            self._run_steps()
        finally:
            try:
                self.session.destroy_agent_box()
            finally:
                self._write_records()

    def _check(self) -> None:
        context, rollout = self.context, self.context.rollout
        if not context.agent.acts_in_boxes:
            raise Unsupported(no_boxes(context.agent))
        reasons = unsupported(self.task, context.sandbox.capabilities, enforce_limits=context.enforce_limits)
        if not reasons and context.agent.needs_solution:
            reasons = [step.missing_solution for step in self.session.steps if step.missing_solution][:1]
        if not reasons and context.model is not None and context.agent.calls_model_from_box:
            reasons = no_listener(context.sandbox.capabilities)
        if reasons:
            raise Unsupported("; ".join(reasons))
        for code, text in notes(self.task):
            rollout.note(code, text)
        self.session.resolve_variables()
        trajectory = self.session.steps[0].trajectory
        if trajectory is not None and context.agent.uses_task_tools:
            check_trajectory(self.task.root, trajectory)
        environment = self.task.config.environment
        if not context.enforce_limits and (environment.cpus or environment.memory_mb):
            rollout.note("limits-ignored", "the task's cpu and memory limits were not enforced")

    def _run_steps(self) -> None:
        clock, session = self.context.clock, self.session
        for step in session.steps:
            record = StepRecord(name=step.name)
            self._records.append(record)
            run = StepRun(session, step, record)
            try:
                if step.number == 0:
                    self._prepare(run)
                with clock.step(record), self._naming(record):
                    run.run()
            except Exception:
                run.rescue_logs()
                raise
            if self._stops_after(step, record):
                return

    def _prepare(self, run: StepRun) -> None:
        """Wait until the environment is ready, and let the agent set itself up."""
        healthcheck = self.task.config.environment.healthcheck
        if healthcheck is not None:
            with self.context.clock.stage(Stage.HEALTHCHECK):
                wait_until_healthy(self.session.agent_box, healthcheck)
        run.set_up_agent()

    @contextmanager
    def _naming(self, record: StepRecord) -> Iterator[None]:
        """Say in an error which step it ended, and keep it with the step, too."""
        try:
            yield
        except RlenvError as error:
            if record.name:
                error.message = f"step {record.name}: {error.message}"
                error.args = (error.message,)
                error.happened_at(self.context.clock.broke)
                record.error = ErrorInfo.of(error)
            raise

    def _stops_after(self, step: Step, record: StepRecord) -> bool:
        """Return True, and write why, if a step did not earn the reward that the next one asks for."""
        missed = missed_minimum(record.rewards, step.min_reward)
        if missed is None:
            return False
        later = self.session.steps[step.number + 1 :]
        record.gate = (
            f"{missed}, so {', '.join(each.name for each in later)} was not run" if later else missed
        )
        record.note("min-reward", record.gate)
        return True

    def _write_records(self) -> None:
        if not self._records:
            return
        if self.task.config.steps:
            strategy = self.task.config.multi_step_reward_strategy
            write_steps(self.context.rollout, self._records, strategy)
        else:
            write_only_step(self.context.rollout, self._records[0])
