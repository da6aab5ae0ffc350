"""Harbor behind the one interface that the rest of the package knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.harbor.images import all_images
from pytest_rlenv.frameworks.harbor.lifecycle import HarborRollout
from pytest_rlenv.frameworks.harbor.task import HarborTask, load_task, read_config
from pytest_rlenv.frameworks.protocol import NOTHING
from pytest_rlenv.sandboxes.model import ImageSpec

if TYPE_CHECKING:
    from pytest_rlenv.settings import Settings


class LoadedHarborTask:
    """A Harbor task, ready to run."""

    def __init__(self, task: HarborTask) -> None:
        self.task = task

    @property
    def digest(self) -> str:
        """``sha256:...`` over the files that Harbor's own lock file covers."""
        return self.task.digest

    @property
    def warnings(self) -> tuple[str, ...]:
        """What its author should know."""
        return tuple(self.task.warnings)

    @property
    def reward_key(self) -> str | None:
        """``[metadata.rlenv] reward_key``."""
        return self.task.rlenv.reward_key

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """``[metadata.rlenv] reward_range``."""
        return self.task.rlenv.reward_range

    @property
    def expectations(self) -> Mapping[str, str]:
        """``[metadata.rlenv.expect]``."""
        return self.task.rlenv.expect

    def run(self, context: RolloutContext) -> None:
        """Run one rollout."""
        HarborRollout(self.task, context).run()


class HarborFramework:
    """Folders with a ``task.toml``."""

    def uses_boxes(self, settings: Settings) -> bool:
        """Always."""
        return True

    def load(self, folder: Path, name: str, data: Mapping[str, Any] = NOTHING) -> LoadedHarborTask:
        """Read the task in ``folder``; see :func:`pytest_rlenv.frameworks.harbor.task.load_task`."""
        return LoadedHarborTask(load_task(folder, name))

    def images(self, folder: Path, name: str, *, build: bool = False) -> tuple[ImageSpec, ...]:
        """Return its images; see :func:`pytest_rlenv.frameworks.harbor.images.all_images`."""
        root, config, _ = read_config(folder)
        return all_images(root, config, name, build=build)
