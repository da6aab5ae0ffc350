"""Terminal-Bench 1 behind the one interface that the rest of the package knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_rlenv.errors import Unsupported
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.harbor.definitions import DOCKERFILE
from pytest_rlenv.frameworks.harbor.lifecycle import HarborRollout
from pytest_rlenv.frameworks.protocol import NOTHING
from pytest_rlenv.frameworks.terminal_bench import step as _step  # noqa: F401 - registers the task's step
from pytest_rlenv.frameworks.terminal_bench.compose_file import read_client
from pytest_rlenv.frameworks.terminal_bench.compose_values import COMPOSE_FILE
from pytest_rlenv.frameworks.terminal_bench.task import TerminalBenchTask, load_task, resolved
from pytest_rlenv.sandboxes.model import ImageSpec

if TYPE_CHECKING:
    from pytest_rlenv.settings import Settings


class LoadedTerminalBenchTask:
    """A Terminal-Bench 1 task, ready to run."""

    reward_key: str | None = None
    reward_range: tuple[float, float] | None = (0.0, 1.0)

    def __init__(self, task: TerminalBenchTask) -> None:
        self.task = task

    @property
    def digest(self) -> str:
        """``sha256:...`` over all files of the task."""
        return self.task.digest

    @property
    def warnings(self) -> tuple[str, ...]:
        """What its author should know."""
        return self.task.warnings

    @property
    def expectations(self) -> Mapping[str, str]:
        """None: a ``task.yaml`` has no place for them."""
        return {}

    def run(self, context: RolloutContext) -> None:
        """Run one rollout.

        Raises:
            Unsupported: the task needs what is not there.
            RlenvError: there is no reward.
        """
        capabilities, more = context.sandbox.capabilities, self.task.client.more
        reasons = list(self.task.reasons)
        if more and not capabilities.services:
            reasons.append(f"{COMPOSE_FILE}: this sandbox runs no services, so it lacks {', '.join(more)}")
        if reasons:
            raise Unsupported("; ".join(reasons))
        task = self.task.with_surroundings(context.environ, switches_users=capabilities.users)
        HarborRollout(task, context).run()


class TerminalBenchFramework:
    """Folders with a ``task.yaml``."""

    def uses_boxes(self, settings: Settings) -> bool:
        """Always."""
        return True

    def load(self, folder: Path, name: str, data: Mapping[str, Any] = NOTHING) -> LoadedTerminalBenchTask:
        """Read the task in ``folder``; see :func:`pytest_rlenv.frameworks.terminal_bench.task.load_task`."""
        return LoadedTerminalBenchTask(load_task(folder, name))

    def images(self, folder: Path, name: str, *, build: bool = False) -> tuple[ImageSpec, ...]:
        """Return the image of its one box.

        Raises:
            Unsupported: its compose file asks for more than one container from an image; names the field.
            TaskInvalid: the compose file is wrong.
        """
        client = read_client(resolved(folder))
        if client.more:
            raise Unsupported(f"{COMPOSE_FILE}: only a container engine can run {', '.join(client.more)}")
        buildable = build and (client.context / DOCKERFILE).is_file()
        if client.image is not None and not buildable:
            return (ImageSpec(name=client.image),)
        return (ImageSpec(context=client.context, slug=name, options=client.options),)
