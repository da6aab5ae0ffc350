"""One rollout of a task of OpenEnv's: a server, an episode or several, and the reward."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from pytest_rlenv.agents.canary import CanaryAgent
from pytest_rlenv.agents.check import CheckAgent
from pytest_rlenv.agents.nop import NopAgent
from pytest_rlenv.agents.oracle import OracleAgent
from pytest_rlenv.agents.replay.agent import ReplayAgent
from pytest_rlenv.errors import Stage
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.openenv.checks.findings import Findings
from pytest_rlenv.frameworks.openenv.checks.table import Check, checks_of
from pytest_rlenv.frameworks.openenv.episode import OpenEnvEpisode
from pytest_rlenv.frameworks.openenv.floor import measure_floor
from pytest_rlenv.frameworks.openenv.frame_log import FrameLog
from pytest_rlenv.frameworks.openenv.host import Host
from pytest_rlenv.frameworks.openenv.launch import Launch
from pytest_rlenv.frameworks.openenv.plans import Plan
from pytest_rlenv.frameworks.openenv.recorded import recorded_of
from pytest_rlenv.frameworks.openenv.reference import canaries_of, reference_of, take
from pytest_rlenv.frameworks.openenv.retelling import leave_trajectory
from pytest_rlenv.frameworks.openenv.routes import Routes
from pytest_rlenv.frameworks.openenv.scoring import Score
from pytest_rlenv.frameworks.openenv.server import Server
from pytest_rlenv.frameworks.openenv.session import check_installed
from pytest_rlenv.frameworks.openenv.task import OpenEnvTask
from pytest_rlenv.frameworks.playing import play, player_of
from pytest_rlenv.rollout import MAIN_REWARD_KEY
from pytest_rlenv.trajectory.model import AgentInfo

FRAMEWORK = "OpenEnv"

Part = Callable[[Host], None]
"""What an agent does with a server."""


class OpenEnvRollout:
    """Runs one rollout and writes it into ``context.rollout``."""

    def __init__(self, task: OpenEnvTask, context: RolloutContext) -> None:
        self._task = task
        self._context = context
        self._rollout = context.rollout

    def run(self) -> None:
        """Run it.

        Raises:
            Unsupported: the agent, or what the environment needs, is not there.
            RlenvError: there is no reward.
        """
        context = self._context
        part = self._part()  # before a server is started, so that a skip costs nothing
        check_installed()
        launch = self._launch()
        launch.check()
        with ExitStack() as stack:
            with context.clock.stage(Stage.START):
                server = stack.enter_context(self._server(launch))
            self._rollout.runner = f"OpenEnv server ({server.words})"
            self._rollout.image = server.image
            log = FrameLog(context.folder)
            stack.callback(self._tell, log)
            part(Host(self._task, context, server, log))

    def _tell(self, log: FrameLog) -> None:
        """Leave a trajectory for readers, however the rollout ended."""
        log.close()
        rollout = self._rollout
        agent = AgentInfo(name=rollout.agent, version=rollout.agent_version or "0", model_name=rollout.model)
        leave_trajectory(self._context.folder, agent, self._task.instruction, log.began)

    # ---- the server

    def _launch(self) -> Launch:
        context = self._context
        return Launch(
            context.settings,
            self._task.manifest,
            self._task.folder,
            context.folder,
            context.environ,
            context.sandbox,
            self._task.name,
            context.enforce_limits,
            context.timeout_multiplier,
        )

    def _server(self, launch: Launch) -> AbstractContextManager[Server]:
        return self._context.kept.lease(launch.key, launch.start, at_most=self._context.settings.jobs)

    # ---- who acts

    def _part(self) -> Part:
        """Return what is to be done for the rollout's agent.

        Raises:
            Unsupported: it cannot act here, or lacks what it needs.
            TaskInvalid, AgentFailed: what it needs is there, and is wrong.
        """
        agent = self._context.agent
        if isinstance(agent, OracleAgent):
            reference = reference_of(self._task)
            return lambda host: self._score(reference.play(host))
        if isinstance(agent, NopAgent):
            return lambda host: self._score(measure_floor(host))
        if isinstance(agent, CanaryAgent):
            canaries = canaries_of(self._task)
            return lambda host: self._canaries(host, canaries)
        if isinstance(agent, CheckAgent):
            check = checks_of(agent.variant, self._task)
            return lambda host: self._check(host, check)
        if isinstance(agent, ReplayAgent) and (plan := recorded_of(agent, self._task.name)) is not None:
            return lambda host: self._replay(host, plan)
        player_of(agent, FRAMEWORK)
        return self._play

    def _canaries(self, host: Host, canaries: list[tuple[str, Plan]]) -> None:
        """Play what must not score; the one that scores highest is judged."""
        rewards: dict[str, float] = {}
        for name, plan in canaries:
            with host.episode({**self._task.reset, **plan.reset}, name=plan.episode_id) as ground:
                with self._context.clock.stage(Stage.AGENT):
                    take(ground, plan.actions)
                rewards[f"canary:{name}"] = ground.score.reward(self._task.manifest.reward_range)
        self._rollout.rewards = {MAIN_REWARD_KEY: max(rewards.values()), **rewards}

    def _check(self, host: Host, check: Check) -> None:
        found = Findings()
        check(host, found)
        checks = found.as_checks()
        self._rollout.checks = checks
        self._rollout.rewards = {MAIN_REWARD_KEY: 0.0 if checks.failed else 1.0, **found.rewards}

    def _replay(self, host: Host, plan: Plan) -> None:
        with host.episode({**self._task.reset, **plan.reset}, name=plan.episode_id) as ground:
            with self._context.clock.stage(Stage.AGENT):
                take(ground, plan.actions)
            self._score(ground.score)

    def _play(self, host: Host) -> None:
        context, task = self._context, self._task
        schema = _action_schema(host.server)
        with host.episode(task.reset) as ground:
            with host.in_time():
                episode = OpenEnvEpisode(
                    ground,
                    instruction=task.instruction,
                    action_schema=schema,
                    max_steps=task.max_steps or context.settings.openenv_max_steps,
                    forgiving=context.settings.openenv_env_error == "agent",
                )
            play(
                context.agent,
                episode,
                context,
                instruction=task.instruction,
                deadline=host.until,
                framework=FRAMEWORK,
            )
            if episode.used_up and not ground.score.done:
                host.note("step-limit", f"the agent has used up its {episode.steps} steps")
            self._rollout.usage = {"steps": episode.steps, **self._rollout.usage}
            self._score(ground.score)

    # ---- what it earned

    def _score(self, score: Score) -> None:
        """Write the episode's reward, and what is worth knowing of how it came about."""
        if score.booleans:
            self._rollout.note("boolean-reward", "the reward came as true or false, taken for 1 and 0")
        if score.steps and not score.done:
            self._rollout.note("truncated", "the environment has not ended the episode (done is false)")
        with self._context.clock.stage(Stage.VERIFY):
            reward = score.reward(self._task.manifest.reward_range)
        self._rollout.rewards = {MAIN_REWARD_KEY: reward}


def _action_schema(server: Server) -> dict[str, object]:
    routes = Routes(server)
    try:
        action = routes.schema().get("action")
    finally:
        routes.close()
    return dict(action) if isinstance(action, dict) else {}
