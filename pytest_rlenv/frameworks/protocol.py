"""What a framework offers: it loads a task's folder into something that can be run and judged."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.environments.layouts import HARBOR, NEMO_GYM, OPENENV, TERMINAL_BENCH, VERIFIERS
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.sandboxes.model import ImageSpec

if TYPE_CHECKING:
    from pytest_rlenv.settings import Settings

NOTHING: Mapping[str, Any] = MappingProxyType({})


class LoadedTask(Protocol):
    """A task whose files have been read and found right."""

    @property
    def digest(self) -> str:
        """``sha256:...`` over the task's files, by which runs are compared."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What its author should know, one line each."""
        ...

    @property
    def reward_key(self) -> str | None:
        """The reward to judge, where the task chooses one."""
        ...

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """The lowest and highest reward that the task declares."""
        ...

    @property
    def expectations(self) -> Mapping[str, str]:
        """The task's own expectation per agent, such as ``{"oracle": ">= 0.55"}``."""
        ...

    def run(self, context: RolloutContext) -> None:
        """Run one rollout and write it into ``context.rollout``.

        Raises:
            Unsupported: the task needs what is not there.
            RlenvError: there is no reward.
        """
        ...


@runtime_checkable
class JudgesByAgent(Protocol):
    """A task whose expectation of an agent goes by more than the agent's name."""

    def expected_of(self, agent: Agent, attempt: int) -> tuple[str, str] | None:
        """Return what the reward must be, such as ``== 0.5``, and who says so; ``None`` for the usual.

        Raises:
            RlenvError: what would tell cannot be read.
        """
        ...


class Framework(Protocol):
    """A layout of tasks."""

    def uses_boxes(self, settings: Settings) -> bool:
        """Return whether its tasks are run in boxes of a sandbox; if none of a run's are, none is needed."""
        ...

    def load(self, folder: Path, name: str, data: Mapping[str, Any] = NOTHING) -> LoadedTask:
        """Read a task.

        Args:
            folder: where it is.
            name: its id.
            data: the :attr:`~pytest_rlenv.environments.model.TaskRef.data` of its finder.

        Raises:
            TaskInvalid: its files are wrong.
        """
        ...

    def images(self, folder: Path, name: str, *, build: bool = False) -> Sequence[ImageSpec]:
        """Return the images that boxes of the task in ``folder`` start from; asked of every task of a run.

        With ``build``, those that can be are built, also where the task names prebuilt ones.

        Raises:
            Unsupported: it needs more of an engine than images, such as services; names the file.
            TaskInvalid: the files that tell are wrong. Others may be, too: they are not looked at.
        """
        ...


@runtime_checkable
class TellsWhere(Protocol):
    """A framework whose tasks run in something of its own, not in boxes of the run's sandbox."""

    def where(self, settings: Settings) -> str:
        """Return where what of its tasks runs, in one line for the header."""
        ...


WHERE = {
    HARBOR: "pytest_rlenv.frameworks.harbor.framework:HarborFramework",
    NEMO_GYM: "pytest_rlenv.frameworks.nemo_gym.framework:NemoGymFramework",
    OPENENV: "pytest_rlenv.frameworks.openenv.framework:OpenEnvFramework",
    TERMINAL_BENCH: "pytest_rlenv.frameworks.terminal_bench.framework:TerminalBenchFramework",
    VERIFIERS: "pytest_rlenv.frameworks.verifiers.framework:VerifiersFramework",
}
"""Where the class of each framework is."""


def get_framework(name: str) -> Framework:
    """Return a framework by the name that :class:`pytest_rlenv.environments.model.TaskRef` carries."""
    if name not in WHERE:
        raise ValueError(f"unknown framework {name!r}")
    module, _, cls = WHERE[name].partition(":")
    framework: Framework = getattr(importlib.import_module(module), cls)()
    return framework


def uses_boxes(name: str, settings: Settings) -> bool:
    """Return whether a framework's tasks run in boxes of the run's sandbox; one that is not known may."""
    return name not in WHERE or get_framework(name).uses_boxes(settings)
