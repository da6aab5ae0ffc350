"""An agent that is a program of the table."""

from __future__ import annotations

import shlex
from typing import Any, ClassVar

from pytest_rlenv.agents.command_line.install import ROOT, Install, script
from pytest_rlenv.agents.command_line.running import (
    launch_of,
    notes_of,
    read_log,
    start,
    trajectory_of,
)
from pytest_rlenv.agents.command_line.spec import VERSION, CommandLineSpec, Launch
from pytest_rlenv.agents.install_failures import UNREACHABLE, install_error
from pytest_rlenv.agents.protocol import Agent, AgentContext, AgentOutcome
from pytest_rlenv.errors import AgentFailed, Stage
from pytest_rlenv.sandboxes.model import ImageLayer
from pytest_rlenv.text import decode, tail
from pytest_rlenv.trajectory import TRAJECTORY
from pytest_rlenv.trajectory.model import AgentInfo
from pytest_rlenv.trajectory.writing import write_trajectory

INSTALLED = "installed"
"""The variant that takes the program that the image has."""


class CommandLineAgent(Agent):
    """Install the program, run it on each instruction, and tell from its log what it did.

    A subclass names its entry of the table.
    """

    spec: ClassVar[CommandLineSpec]
    install: ClassVar[Install]
    needs_model = True
    variants = f"a version of the program, or `{INSTALLED}` for the one that is in the image"

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if cls.spec.install is None:
            raise TypeError(f"{cls.__name__}: {cls.spec.name} has nothing to install")
        cls.name = cls.spec.name
        cls.install = cls.spec.install
        cls.version = cls.install.version

    def image_layer(self) -> ImageLayer | None:
        """Return the program as a layer, unless the image has it."""
        if self.variant == INSTALLED:
            return None
        return ImageLayer(f"agent-{self.name}", self._installer(), UNREACHABLE)

    def prepare(self, context: AgentContext) -> None:
        """Install the program, unless it is there, and see that it starts."""
        if self.variant != INSTALLED and not self._is_there(context):
            self._install(context)
        found = self._try_it(context)
        self.version = found if self.variant == INSTALLED else self._wanted

    def run(self, context: AgentContext) -> AgentOutcome:
        """Run the program on the instruction."""
        launch = launch_of(self.spec, context, self.model)
        done = start(self.spec, launch, context)
        return AgentOutcome(exit_code=done.exit_code, completed=done)

    def finish(self, context: AgentContext) -> AgentOutcome:
        """Tell from the program's log what it did and used."""
        told = read_log(self.spec, context.logs)
        agent = AgentInfo(
            name=self.name, version=self.version or "unknown", model_name=context.model or self.model
        )
        trajectory = trajectory_of(told, agent, context.instruction)
        if trajectory is not None:
            write_trajectory(context.logs / TRAJECTORY, trajectory)
        usage = told.used()
        usage.pop("cost_usd", None)  # the endpoint knows it, if anyone does: programs make up prices
        return AgentOutcome(usage=usage, notes=notes_of(told))

    @property
    def _wanted(self) -> str:
        return self.variant or self.install.version

    def _installer(self) -> str:
        return script(self.name, self.install, self._wanted)

    def _is_there(self, context: AgentContext) -> bool:
        marker = shlex.quote(f"{ROOT}/{self.name}/version")
        done = context.box.run(["sh", "-c", f"cat {marker}"], user="root")
        return done.exit_code == 0 and decode(done.stdout).strip() == self._wanted

    def _install(self, context: AgentContext) -> None:
        done = context.box.run(["sh", "-c", f"cd /\n{self._installer()}"], user="root")
        if done.exit_code:
            raise install_error(
                self.name,
                f"its installer exited {done.exit_code}",
                decode(done.output),
                hint="in a box without network it has to be in the image, or the sandbox to extend images",
                network=context.public_network,
            )

    def _try_it(self, context: AgentContext) -> str:
        """Return the last line of what the program says of its version, if it can be asked for that.

        Raises:
            AgentFailed: it does not start.
        """
        command, probe = self.install.command, self.spec.probe
        path = f'PATH="{ROOT}/{self.name}/bin:$PATH"'
        env = self.spec.variables(Launch(self.name))
        done = context.box.run(["sh", "-c", f"{path} exec {shlex.quote(command)} {probe}"], env=env)
        if done.exit_code:
            where = "the image" if self.variant == INSTALLED else f"{ROOT}/{self.name}/bin"
            raise AgentFailed(
                f"agent {self.name}: {command} of {where} does not start (exit code {done.exit_code})",
                detail=tail(decode(done.output)),
                stage=Stage.AGENT_SETUP,
            )
        lines = decode(done.stdout).strip().splitlines()
        return lines[-1][:100] if lines and probe == VERSION else INSTALLED
