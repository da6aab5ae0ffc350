"""OpenEnv behind the one interface that the rest of the package knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_rlenv.errors import Unsupported
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.openenv.launch import DOCKER, launcher_of
from pytest_rlenv.frameworks.openenv.task import OpenEnvTask, load_task
from pytest_rlenv.frameworks.protocol import NOTHING
from pytest_rlenv.sandboxes.model import ImageSpec

if TYPE_CHECKING:
    from pytest_rlenv.settings import Settings


class LoadedOpenEnvTask:
    """A task, ready to run."""

    reward_key = None
    """There is one reward."""
    reward_range = None
    """It is looked at where it is read: what a check gives is not on the environment's scale."""

    def __init__(self, task: OpenEnvTask) -> None:
        self.task = task

    @property
    def digest(self) -> str:
        """``sha256:...`` over the environment's files and what chooses the task."""
        return self.task.digest

    @property
    def warnings(self) -> tuple[str, ...]:
        """What its author should know."""
        return self.task.warnings

    @property
    def expectations(self) -> Mapping[str, str]:
        """What ``openenv.yaml`` declares of rewards."""
        return self.task.expectations

    def run(self, context: RolloutContext) -> None:
        """Run one rollout."""
        from pytest_rlenv.frameworks.openenv.running import OpenEnvRollout

        OpenEnvRollout(self.task, context).run()


class OpenEnvFramework:
    """Episodes of servers."""

    def uses_boxes(self, settings: Settings) -> bool:
        """Where the servers run in containers of the run's sandbox."""
        return launcher_of(settings) == DOCKER

    def load(self, folder: Path, name: str, data: Mapping[str, Any] = NOTHING) -> LoadedOpenEnvTask:
        """Read the task; see :func:`pytest_rlenv.frameworks.openenv.task.load_task`."""
        return LoadedOpenEnvTask(load_task(folder, name, data))

    def images(self, folder: Path, name: str, *, build: bool = False) -> tuple[ImageSpec, ...]:
        """Refuse: a server is no box.

        Raises:
            Unsupported: always.
        """
        raise Unsupported("its server runs in a container (openenv.yaml)")
