"""One rollout of a single-step Harbor task, in Harbor's order, with a clock and a limit for every stage.

build or pull, start, health check, agent set-up, agent, verifier, kill, read the reward, fetch logs, destroy.
The solution goes in for the oracle only, the tests only after the agent has ended.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from pytest_rlenv.agents.protocol import AgentBox, AgentContext
from pytest_rlenv.errors import BoxUnfit, Stage, Unsupported
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.harbor.agent_phase import prepare_agent, run_agent
from pytest_rlenv.frameworks.harbor.healthcheck import wait_until_healthy
from pytest_rlenv.frameworks.harbor.logs import fetch_logs
from pytest_rlenv.frameworks.harbor.support import network_mode, notes, unsupported
from pytest_rlenv.frameworks.harbor.task import HarborTask
from pytest_rlenv.frameworks.harbor.templates import resolve_tables
from pytest_rlenv.frameworks.harbor.verifier import read_reward, run_verifier
from pytest_rlenv.sandboxes.protocol import Box, BoxSpec, Entry, ImageRef, ImageSpec

AGENT_SETUP_TIMEOUT = 360.0
"""Seconds for an agent to set itself up; Harbor's own limit."""

SLACK = 1800.0
"""Seconds added to a box's lifetime for transfers, health checks and slow machines."""

UNLIMITED_LIFETIME = 7 * 24 * 3600.0
"""Lifetime in seconds of a box whose agent has no time limit."""

EXEC_TIMEOUT = 60.0
"""Seconds for a command of our own in the box."""

LOG_DIRS = tuple(Entry(f"logs/{name}", mode=0o777) for name in ("agent", "verifier", "artifacts"))


class HarborRollout:
    """One rollout of one task."""

    def __init__(self, task: HarborTask, context: RolloutContext) -> None:
        self.task = task
        self.context = context
        self.rollout = context.rollout
        self.config = task.config
        self.env: Mapping[str, Mapping[str, str]] = {}

    def run(self) -> None:
        """Run it to its end and write rewards, notes and stage times into the record.

        Raises:
            Unsupported: the task needs what is not there; nothing was started.
            RlenvError: there is no reward, with the stage that broke.
        """
        self._check()
        clock = self.context.clock
        image = self._prepare_image()
        box: Box | None = None
        try:
            with clock.stage(Stage.START):
                box = self.context.sandbox.start(image, self._box_spec(), LOG_DIRS)
                self._check_workdir(box)
                self._put_loose_files(box)
            self._act_and_verify(box)
        finally:
            if box is not None:
                with clock.stage(Stage.STOP):
                    box.destroy()

    def _check(self) -> None:
        agent = self.context.agent
        reasons = unsupported(
            self.task,
            self.context.sandbox.capabilities,
            agent_has_tools=agent.uses_task_tools,
            enforce_limits=self.context.enforce_limits,
        )
        if not reasons and agent.needs_solution and self.task.missing_solution is not None:
            reasons = [self.task.missing_solution]
        if reasons:
            raise Unsupported("; ".join(reasons))
        for code, text in notes(self.task):
            self.rollout.note(code, text)
        tables = {"environment": self.config.environment.env, "verifier": self.config.verifier.env}
        if agent.needs_solution:
            tables["solution"] = self.config.solution.env
        self.env = resolve_tables(tables, self.context.environ)
        if not self.context.enforce_limits and (
            self.config.environment.cpus or self.config.environment.memory_mb
        ):
            self.rollout.note("limits-ignored", "the task's cpu and memory limits were not enforced")

    def _prepare_image(self) -> ImageRef:
        environment = self.config.environment
        if environment.docker_image:
            spec = ImageSpec(name=environment.docker_image)
        else:
            spec = ImageSpec(context=self.task.environment_dir, slug=self.task.name)
        with self.context.clock.stage(Stage.BUILD):
            image = self.context.sandbox.prepare(spec, timeout=self._limit(environment.build_timeout_sec))
        self.rollout.image = f"{image.name}@{image.id}"
        return image

    def _box_spec(self) -> BoxSpec:
        environment = self.config.environment
        enforce = self.context.enforce_limits
        return BoxSpec(
            network=network_mode(self.config),
            cpus=environment.cpus if enforce else None,
            memory_mb=environment.memory_mb if enforce else None,
            env=self.env["environment"],
            workdir=environment.workdir,
            lifetime=self._lifetime(),
            labels={"task": self.task.name, "environment": self.rollout.environment},
        )

    def _check_workdir(self, box: Box) -> None:
        """Refuse a working directory that the image does not have, before an agent can have removed it."""
        workdir = self.config.environment.workdir
        if workdir is None:
            return
        where = f"[environment] workdir = {workdir!r}"
        if not workdir.startswith("/"):
            raise BoxUnfit(
                f"{where} is not an absolute path", hint="begin it with a slash", stage=Stage.START
            )
        if box.stat(workdir) is None:
            raise BoxUnfit(
                f"{where} does not exist in the image",
                hint="create it in the Dockerfile, with WORKDIR",
                stage=Stage.START,
            )

    def _put_loose_files(self, box: Box) -> None:
        """Bring the files of ``environment/`` to the working directory if nothing is built from them."""
        entries = self.task.environment_entries()
        if entries:
            workdir = box.run(["pwd"], timeout=EXEC_TIMEOUT).stdout.decode(errors="replace").strip()
            box.put(entries, workdir)

    def _act_and_verify(self, box: Box) -> None:
        clock = self.context.clock
        try:
            if self.config.environment.healthcheck is not None:
                with clock.stage(Stage.HEALTHCHECK):
                    wait_until_healthy(box, self.config.environment.healthcheck)
            self._act(box)
            with clock.stage(Stage.VERIFY):
                completed = run_verifier(
                    box,
                    self.task,
                    self.rollout,
                    folder=self.context.folder,
                    env=self.env["verifier"],
                    timeout=self._limit(self.config.verifier.timeout_sec),
                )
        except Exception:
            with clock.stage(Stage.COLLECT):
                fetch_logs(box, self.context.folder, self.rollout)
            raise
        with clock.stage(Stage.COLLECT):
            # No process is alive while the reward is read.
            box.stop()
            try:
                self.rollout.rewards = read_reward(box, self.rollout, completed)
            finally:
                fetch_logs(box, self.context.folder, self.rollout)

    def _act(self, box: Box) -> None:
        clock, agent = self.context.clock, self.context.agent
        logs = self.context.folder / "agent"
        logs.mkdir(exist_ok=True)

        def agent_context(limit: float | None) -> AgentContext:
            deadline = None if limit is None else time.monotonic() + limit
            return AgentContext(
                instruction=self.task.instruction,
                box=AgentBox(box, user=self.config.agent.user, env={}, cwd=None, deadline=deadline),
                logs=logs,
                solution=self.task.solution_entries() if agent.needs_solution else None,
                solution_env=self.env.get("solution", {}),
                task=self.task.name,
                model=agent.model,
            )

        with clock.stage(Stage.AGENT_SETUP):
            limit = self._limit(AGENT_SETUP_TIMEOUT)
            try:
                prepare_agent(agent, agent_context(limit), box, limit)
            finally:
                _make_folder(logs)
        with clock.stage(Stage.AGENT):
            limit = self._limit(self.config.agent.timeout_sec)
            try:
                run_agent(agent, agent_context(limit), box, self.rollout, limit)
            finally:
                _make_folder(logs)

    def _limit(self, seconds: float | None) -> float | None:
        return None if seconds is None else seconds * self.context.timeout_multiplier

    def _lifetime(self) -> float:
        agent = self._limit(self.config.agent.timeout_sec)
        verifier = self._limit(self.config.verifier.timeout_sec)
        if agent is None or verifier is None:
            return UNLIMITED_LIFETIME
        return agent + verifier + AGENT_SETUP_TIMEOUT * self.context.timeout_multiplier + SLACK


def _make_folder(folder: Path) -> None:
    """Have a folder for logs there, whatever an agent made of it."""
    if folder.is_dir():
        return
    folder.unlink(missing_ok=True)
    folder.mkdir(parents=True)
