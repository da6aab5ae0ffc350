"""The finders of tasks that are no folders, one of each framework."""

from __future__ import annotations

from collections.abc import Callable

from pytest_rlenv.environments.finders import Others, TaskFinder
from pytest_rlenv.frameworks.kept import Kept
from pytest_rlenv.sandboxes.model import SandboxContext
from pytest_rlenv.settings import Settings

OPENED = (".yaml", ".yml", ".jsonl")
"""How the names of files end that tell a finder of its tasks, where it is not asked for by name."""


def others(
    settings: Settings, context: Callable[[], SandboxContext] | None = None, kept: Kept | None = None
) -> Others:
    """Return where tasks beside those in folders are looked for.

    Args:
        settings: of the run; they may name what a framework needs to find its tasks.
        context: tells what a sandbox is told of the run, where tasks are asked of a server that needs one.
        kept: what this process keeps up: who is asked for tasks may be asked to run them.
    """

    def make() -> tuple[TaskFinder, ...]:
        from pytest_rlenv.frameworks.nemo_gym.finding import NemoGymFinder
        from pytest_rlenv.frameworks.openenv.finding import OpenEnvFinder
        from pytest_rlenv.frameworks.verifiers.finding import VerifiersFinder

        return (
            OpenEnvFinder(settings, context, kept),
            NemoGymFinder(settings),
            VerifiersFinder(settings, kept),
        )

    return Others(make, settings.framework, OPENED)
