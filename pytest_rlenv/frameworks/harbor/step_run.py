"""One step of a rollout: make its box ready, let the agent act, collect what it left, verify it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pytest_rlenv.agents.protocol import AgentBox, AgentContext
from pytest_rlenv.errors import RlenvError, Stage, StepSetupFailed
from pytest_rlenv.frameworks.harbor.agent_phase import finish_agent, has_own, prepare_agent, run_agent
from pytest_rlenv.frameworks.harbor.artifact_places import service_of
from pytest_rlenv.frameworks.harbor.artifacts import MAIN_SERVICE
from pytest_rlenv.frameworks.harbor.collect_hooks import boxes_of, run_hooks
from pytest_rlenv.frameworks.harbor.collecting import Collection, collect
from pytest_rlenv.frameworks.harbor.emptying import empty_folders
from pytest_rlenv.frameworks.harbor.healthcheck import wait_until_healthy
from pytest_rlenv.frameworks.harbor.instruction import leave_instruction
from pytest_rlenv.frameworks.harbor.logs import (
    AGENT,
    ARTIFACTS,
    LOG_DIRS,
    PLACES,
    agent_log_entries,
    fetch_logs,
)
from pytest_rlenv.frameworks.harbor.network import NetworkMode
from pytest_rlenv.frameworks.harbor.phases import baseline, in_phase, phase_policy
from pytest_rlenv.frameworks.harbor.session import AGENT_SETUP_TIMEOUT, Session
from pytest_rlenv.frameworks.harbor.steps import SETUP_SCRIPT, Step
from pytest_rlenv.frameworks.harbor.verification import Verification
from pytest_rlenv.frameworks.harbor.verifier import TESTS_DIR, VERIFIER_DIR
from pytest_rlenv.frameworks.harbor.workdir import workdir_of
from pytest_rlenv.frameworks.model_phase import answering
from pytest_rlenv.prompt_template import fill_template
from pytest_rlenv.rollout import StepRecord
from pytest_rlenv.sandboxes.model import Entry
from pytest_rlenv.sandboxes.protocol import Box
from pytest_rlenv.text import decode, tail, text_of
from pytest_rlenv.verdict import number

AGENT_DIR = "/logs/agent"


class StepRun:
    """One step of one rollout; its logs go to ``steps/<name>/``, for a task without steps to the top.

    Args:
        session: the rollout's shared things.
        step: the step.
        record: where what happens is written.
    """

    def __init__(self, session: Session, step: Step, record: StepRecord) -> None:
        self._session = session
        self._step = step
        self._record = record
        self._clock = session.context.clock
        self._collected = False
        self._acted: AgentContext | None = None
        folder = session.context.folder
        self.folder = folder / "steps" / step.name if step.name else folder
        self._logs = self.folder / PLACES[AGENT]
        self._logs.mkdir(parents=True, exist_ok=True)

    def set_up_agent(self) -> None:
        """Let the agent set itself up, once for all steps.

        Raises:
            StageTimeout, AgentFailed: as :func:`.agent_phase.prepare_agent`.
        """
        session, context = self._session, self._session.context
        user, limit = session.task.config.agent.user, session.limit(AGENT_SETUP_TIMEOUT)
        with self._clock.stage(Stage.AGENT_SETUP):
            try:
                if has_own(context.agent, "prepare"):
                    prepare_agent(context.agent, self._agent_context(user, limit), session.agent_box, limit)
            finally:
                _make_folder(self._logs)
        if context.agent.version is not None:  # a stranger's value, whatever its type
            context.rollout.agent_version = text_of(context.agent.version)

    def run(self) -> None:
        """Run the step to its end and write its rewards into the record.

        Raises:
            RlenvError: there is no reward, with the stage that broke.
        """
        if self._step.config is not None:
            self._make_ready()
        self._act()
        collection = self._collect()
        last = self._step.number == len(self._session.steps) - 1
        Verification(self._session, self._step, self._record, self.folder).run(collection, last=last)

    def rescue_logs(self) -> None:
        """Bring what there is of the agent's logs here, after an error."""
        if self._collected or not self._session.has_agent_box:
            return
        box = self._session.agent_box
        with self._clock.stage(Stage.COLLECT):
            with contextlib.suppress(RlenvError):
                box.stop()
            fetch_logs(box, self.folder, self._record, AGENT, ARTIFACTS)
            self._finish_agent()

    def _finish_agent(self) -> None:
        if self._acted is not None:
            finish_agent(self._session.context.agent, self._acted, self._record)

    def _make_ready(self) -> None:
        """Hide from the agent what an earlier step left, and bring what this one begins with."""
        step, box, user = self._step, self._session.agent_box, self._step.agent_user
        with self._clock.stage(Stage.START):
            if step.number > 0:
                folders = [AGENT_DIR]
                if self._session.tests_in_agent_box:
                    folders += [TESTS_DIR, VERIFIER_DIR]
                empty_folders(box, folders, self._record)
                self._session.tests_in_agent_box = False
                box.put([*LOG_DIRS, *([Entry(TESTS_DIR[1:], mode=0o755)] if TESTS_DIR in folders else [])])
            entries = step.workdir_entries()
            if entries:
                workdir = workdir_of(box, user)
                box.put(entries, workdir)
                if step.setup_script:
                    self._run_setup(f"{workdir.rstrip('/')}/{SETUP_SCRIPT}")
        if step.healthcheck is not None:
            with self._clock.stage(Stage.HEALTHCHECK):
                wait_until_healthy(box, step.healthcheck, user=user)

    def _run_setup(self, script: str) -> None:
        session = self._session
        limit = session.limit(session.task.config.environment.build_timeout_sec)
        done = session.agent_box.run(["bash", script], user=self._step.agent_user, timeout=limit)
        (self.folder / "setup-stdout.txt").write_bytes(done.output)
        if done.exit_code != 0:
            how = f"exited {done.exit_code}"
            raise StepSetupFailed(
                f"workdir/{SETUP_SCRIPT} "
                + (f"did not end within {number(limit or 0)} s" if done.timed_out else how),
                hint="the agent was not run; see the output",
                detail=tail(decode(done.output)),
            )

    def _act(self) -> None:
        session, box, agent = self._session, self._session.agent_box, self._session.context.agent
        own = baseline(session.agent_definition.config)
        limit = session.limit(self._step.agent_timeout)
        with self._clock.stage(Stage.AGENT):
            network = phase_policy(self._step.agent_phase, own)
            with in_phase(box, network, own, self._record, "agent"):
                try:
                    self._acted = context = self._agent_context(self._step.agent_user, limit)
                    leave_instruction(self.folder, context.instruction)
                    public = network.mode is NetworkMode.PUBLIC
                    with answering(session.context.model, agent, self._record, public=public):
                        run_agent(agent, context, box, self._record, limit)
                finally:
                    _make_folder(self._logs)

    def _collect(self) -> Collection:
        step, box = self._step, self._session.agent_box
        services = boxes_of(box)
        of_main = [hook for hook in step.collect_hooks if hook.service == MAIN_SERVICE]
        with self._clock.stage(Stage.COLLECT):
            if step.artifacts or step.collect_hooks:  # else the verifier is the first to look at them
                box.put(agent_log_entries(box, self.folder))
            fetch_logs(box, self.folder, self._record, AGENT)
            self._collected = True
            self._finish_agent()
            run_hooks(of_main, services, self._record)
            return collect(
                step.artifacts,
                services,
                self.folder / "artifacts",
                self._record,
                before_services=partial(self._turn_to_services, services),
            )

    def _turn_to_services(self, services: Mapping[str, Box]) -> None:
        """Run the hooks of services beside the agent's box, which is stopped first if it can be spared."""
        step = self._step
        hooks = [hook for hook in step.collect_hooks if hook.service != MAIN_SERVICE]
        asked = hooks or any(service_of(artifact) != MAIN_SERVICE for artifact in step.artifacts)
        last = step.number == len(self._session.steps) - 1
        if asked and last and step.verifier_definition is not None:
            services[MAIN_SERVICE].stop()
        run_hooks(hooks, services, self._record)

    def _agent_context(self, user: str | int | None, limit: float | None) -> AgentContext:
        session, step, agent = self._session, self._step, self._session.context.agent
        deadline = None if limit is None else time.monotonic() + limit
        tools, model = agent.uses_task_tools, session.context.model
        own = baseline(session.agent_definition.config)
        instruction = "\n\n".join([step.instruction, *session.context.extra_instructions])
        template = session.context.prompt_template
        return AgentContext(
            instruction=fill_template(template, instruction) if template else instruction,
            box=AgentBox(session.agent_box, user=user, env={}, cwd=None, deadline=deadline),
            logs=self._logs,
            solution=session.solution(step) if agent.needs_solution else None,
            solution_in_place=session.solution_in_place,
            solution_env=session.env.get("solution", {}),
            task=session.task.name,
            model=agent.model,
            step=step.name,
            mcp_servers=tuple(session.mcp_servers),
            skills_dir=session.task.config.environment.skills_dir if tools else None,
            trajectory=step.trajectory if tools else None,
            model_endpoint=model.endpoint(from_box=agent.calls_model_from_box) if model else None,
            resume=step.number > 0 and session.task.rlenv.agent_session == "keep",
            public_network=own.mode is NetworkMode.PUBLIC,
        )


def _make_folder(folder: Path) -> None:
    """Have a folder for logs there, whatever an agent made of it."""
    if folder.is_dir():
        return
    folder.unlink(missing_ok=True)
    folder.mkdir(parents=True)
