"""What all parts of one rollout share: task, surroundings, variables, images, and how a box is started."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_rlenv.agents.protocol import McpServer
from pytest_rlenv.errors import Stage
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.harbor.agent_layer import LAYER_TIMEOUT, with_agent_layer
from pytest_rlenv.frameworks.harbor.compose import with_services
from pytest_rlenv.frameworks.harbor.definitions import BoxDefinition
from pytest_rlenv.frameworks.harbor.levels import Level
from pytest_rlenv.frameworks.harbor.logs import LOG_DIRS
from pytest_rlenv.frameworks.harbor.mcp import servers_for_agent
from pytest_rlenv.frameworks.harbor.phases import NetworkPolicy, baseline, policies_of_agents_box
from pytest_rlenv.frameworks.harbor.steps import Step, steps_of
from pytest_rlenv.frameworks.harbor.task import HarborTask
from pytest_rlenv.frameworks.harbor.templates import resolve_tables
from pytest_rlenv.frameworks.harbor.workdir import check_workdir, workdir_of
from pytest_rlenv.sandboxes.model import BoxSpec, Entry, ImageRef, ImageSpec, TakeListener
from pytest_rlenv.sandboxes.protocol import Box

AGENT_SETUP_TIMEOUT = 360.0
"""Seconds for an agent to set itself up; Harbor's own limit."""

SLACK = 1800.0
"""Seconds added to a box's lifetime for transfers, health checks and slow machines."""

UNLIMITED_LIFETIME = 7 * 24 * 3600.0
"""Lifetime in seconds of a box in which something has no time limit."""


class Session:
    """One rollout's shared things.

    Args:
        task: the task.
        context: its surroundings.
    """

    def __init__(self, task: HarborTask, context: RolloutContext) -> None:
        self.task = task
        self.context = context
        self.steps = steps_of(task)
        self.agent_definition = task.agent_definition
        self.env: Mapping[str, Mapping[str, str]] = {}
        """Variables by the table of ``task.toml`` that sets them, templates filled."""
        self.mcp_servers: list[McpServer] = []
        self.tests_in_agent_box = False
        """True once tests have been in the agent's box: the next agent must not see them."""
        self.workdir = "/"
        """The working directory of the agent's box before an agent acted, for a verifier in a fresh box."""
        self.solution_in_place = False
        """True if the solution has been in the agent's box from its start."""
        self._agent_box: Box | None = None
        self._solutions: dict[int, tuple[Entry, ...] | None] = {}
        self._images: dict[ImageSpec, ImageRef] = {}
        self._agents_image: ImageRef | None = None

    def definitions(self) -> list[BoxDefinition]:
        """Return what the rollout's boxes are made from, the agent's first."""
        return [
            self.agent_definition,
            *(own for step in self.steps if (own := step.verifier_definition) is not None),
        ]

    def resolve_variables(self) -> None:
        """Fill the templates of everything that the rollout needs.

        Raises:
            VariableMissing: naming all that have no value.
        """
        agent, config = self.context.agent, self.task.config
        tables: dict[str, Mapping[str, str]] = {
            definition.where: definition.config.env for definition in self.definitions()
        }
        tables |= {step.verifier_table: step.verifier_env for step in self.steps}
        if agent.needs_solution:
            tables["solution"] = config.solution.env
        self.env = resolve_tables(tables, self.context.environ)
        if agent.uses_task_tools:
            self.mcp_servers = servers_for_agent(config.environment.mcp_servers, self.context.environ)

    def prepare_images(self) -> None:
        """Build or pull the images of all boxes, before an agent's time is spent.

        Raises:
            BuildFailed, ImageUnavailable, StageTimeout, DiskFull, EngineUnavailable, Unsupported.
        """
        own = self.task.config.environment.build_timeout_sec
        for definition in self.definitions():
            image = self._image(definition)
            if image in self._images:
                continue
            said = "build_timeout_sec" in definition.config.model_fields_set
            limit = self.limit(definition.config.build_timeout_sec if said else own)
            with self.context.clock.stage(Stage.BUILD):
                self._images[image] = self.context.sandbox.prepare(image, timeout=limit)
            for note in self._images[image].notes:
                self.context.rollout.note("services", note)
            if self.context.build and image.name is not None:
                text = f"[{definition.where}] has no Dockerfile to build, so {image.name} was used"
                self.context.rollout.note("not-built", text)
        image_ref = self.image_of(self.agent_definition)
        rollout = self.context.rollout
        rollout.image = image_ref.pinned
        rollout.sandbox = image_ref.sandbox or rollout.sandbox

    def install_agent(self) -> None:
        """Put into the image of the agent's box what the agent wants there; see :func:`.with_agent_layer`."""
        context = self.context
        if context.agent.image_layer() is None:
            return
        timeout = LAYER_TIMEOUT * context.timeout_multiplier
        with context.clock.stage(Stage.AGENT_SETUP):
            self._agents_image = with_agent_layer(
                self.image_of(self.agent_definition), context.agent, context.sandbox, timeout
            )

    def image_of(self, definition: BoxDefinition) -> ImageRef:
        """Return the prepared image of a box."""
        return self._images[self._image(definition)]

    def _image(self, definition: BoxDefinition) -> ImageSpec:
        if self.context.build:
            definition = definition.built()
        return with_services(
            definition.image(self.task.name),
            definition,
            self.task.root,
            environ=self.context.environ,
            variables=self.env[definition.where],
        )

    def start(
        self,
        definition: BoxDefinition,
        network: NetworkPolicy,
        *later: NetworkPolicy,
        lifetime: float | None,
        early: Sequence[Entry] = (),
        image: ImageRef | None = None,
        take_listener: TakeListener | None = None,
    ) -> Box:
        """Start a box with its folders for logs, and with the loose files of a prebuilt image.

        Args:
            definition: what it is made from.
            network: its network.
            later: all that it gets while it is up, if that changes; its first one may be among them.
            lifetime: seconds for which it is needed; ``None`` if that is not known.
            early: what else is to be in it from the start, below ``/``.
            image: another image than its own.
            take_listener: as in :class:`~pytest_rlenv.sandboxes.model.BoxSpec`.

        Raises:
            SandboxFailed, EntrypointExited, DiskFull, Unsupported, TaskInvalid; no box is left then.
        """
        config, enforce = definition.config, self.context.enforce_limits
        spec = BoxSpec(
            network=network.mode.value,
            allowed_hosts=network.hosts,
            later_networks=frozenset(policy.mode.value for policy in later),
            cpus=config.cpus if enforce else None,
            memory_mb=config.memory_mb if enforce else None,
            env=self.env[definition.where],
            workdir=config.workdir,
            start_timeout=self.limit(config.build_timeout_sec),
            lifetime=UNLIMITED_LIFETIME if lifetime is None else lifetime + SLACK,
            labels={"task": self.task.name, "environment": self.context.rollout.environment},
            take_listener=take_listener,
        )
        box = self.context.sandbox.start(image or self.image_of(definition), spec, (*LOG_DIRS, *early))
        try:
            check_workdir(box, definition)
            self._put_loose_files(box, definition)
        except BaseException:
            box.destroy()
            raise
        return box

    def start_agent_box(self) -> None:
        """Start the agent's box; see :meth:`start`."""
        acting = [self.limit(step.agent_timeout) for step in self.steps]
        acting += [self.limit(step.verifier_timeout) for step in self.steps]
        known = [seconds for seconds in acting if seconds is not None]
        lifetime = sum(known) + AGENT_SETUP_TIMEOUT * self.context.timeout_multiplier
        definition = self.agent_definition
        own = baseline(definition.config)
        networks = policies_of_agents_box(self.steps, own)
        solution = self._early_solution()
        self._agent_box = self.start(
            definition,
            *networks,
            lifetime=lifetime if len(known) == len(acting) else None,
            early=solution,
            image=self._agents_image,
            take_listener=self._open_model(),
        )
        self.solution_in_place = bool(solution)
        if self.context.verifier_level == Level.FRESH:
            self.workdir = workdir_of(self._agent_box)

    def _open_model(self) -> TakeListener | None:
        """Have the agent's model where it is called from; return what takes the box's socket for that."""
        model = self.context.model
        if model is None or self.context.agent.calls_model_from_box:
            return None if model is None else model.take_listener
        model.open_here()
        return None

    @property
    def agent_box(self) -> Box:
        """The agent's box, which is up."""
        if self._agent_box is None:
            raise RuntimeError("there is no agent's box")
        return self._agent_box

    @property
    def has_agent_box(self) -> bool:
        """True while the agent's box is up."""
        return self._agent_box is not None

    def destroy_agent_box(self) -> None:
        """Remove the agent's box, if it is up."""
        if self._agent_box is not None:
            with self.context.clock.stage(Stage.STOP):
                self._agent_box.destroy()
            self._agent_box = None

    def solution(self, step: Step) -> tuple[Entry, ...] | None:
        """Return what goes to the solution's folder for a step, read once; ``None`` without a ``solve.sh``.

        Raises:
            TaskInvalid: as :meth:`.Step.solution_entries`.
        """
        if step.number not in self._solutions:
            entries = step.solution_entries()
            self._solutions[step.number] = None if entries is None else tuple(entries)
        return self._solutions[step.number]

    def _early_solution(self) -> list[Entry]:
        """Return the solution, if nothing can see it before the agent runs: then it may be there at once.

        It spares the engine a transfer into a running box, a tenth of a short rollout's time.
        """
        agent, config = self.context.agent, self.task.config.environment
        place = agent.solution_dir
        looked_at = config.healthcheck is not None or bool(self.task.config.steps)
        if place is None or looked_at or not self.image_of(self.agent_definition).idle:
            return []
        workdir = posixpath.normpath(f"/./{config.workdir or ''}")  # which keeps two slashes at the beginning
        if workdir.startswith(place) or self.task.environment_entries():
            return []  # these are looked at, or put, before it
        solution = self.solution(self.steps[0]) or ()
        return [replace(entry, path=f"{place[1:]}/{entry.path}") for entry in solution]

    def limit(self, seconds: float | None) -> float | None:
        """Return a time limit of the task as the user multiplies it; ``None`` is no limit."""
        return None if seconds is None else seconds * self.context.timeout_multiplier

    def _put_loose_files(self, box: Box, definition: BoxDefinition) -> None:
        """Bring the files of ``environment/`` to the working directory if nothing is built from them."""
        entries = [] if definition.bundles_tests else self.task.environment_entries()
        if entries:
            box.put(entries, workdir_of(box))
