"""``check:NAME``: one of the checks that a task's framework has of an environment itself, as an agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pytest_rlenv._version import __version__
from pytest_rlenv.agents.protocol import Agent, AgentContext
from pytest_rlenv.errors import SpecError, Unsupported

CHECKS: Mapping[str, str] = {
    "contract": "schemas, `episode_id`, `step_count` and the fields of observations are as OpenEnv says, "
    "rewards are numbers in range, the episode is graded",
    "determinism": "the same seed and actions give the same answers",
    "isolation": "a reset after an episode is as the first one, on the same connection and another",
    "floor-gap": "the oracle earns the highest reward less `oracle_tolerance`, and doing nothing is "
    "`floor_margin` below the highest",
    "task-count": "the server has as many tasks in each split as `declared_task_count` says, else as many as "
    "`tasks` in `openenv.yaml`",
    "seed-control": "another seed begins otherwise; where not, that is a note, never a failure",
}
"""All checks by their names, each with what holds where all is well."""


class CheckAgent(Agent):
    """Look at the environment itself, where its framework can: 1 is earned if all is well, else 0.

    As an agent it is selected, retried, judged and reported like any other. What it does is up to the
    framework, which also says what is wrong.
    """

    name = "check"
    version = __version__
    variants = ", ".join(CHECKS)
    expectation: ClassVar[str | None] = ">= 1"
    uses_task_tools = False

    def check(self) -> None:
        """See that one is named.

        Raises:
            SpecError: none is, or there is none of that name.
        """
        if self.variant in CHECKS:
            return
        wrong = f"there is no check {self.variant!r}" if self.variant else "which one is not said"
        raise SpecError(f"agent check: {wrong}", hint=f"write check:NAME with one of {self.variants}")

    def run(self, context: AgentContext) -> None:
        """Refuse a task with a box."""
        raise Unsupported("checks are of OpenEnv environments; this task has a box instead")
