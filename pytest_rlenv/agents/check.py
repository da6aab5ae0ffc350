"""``check:NAME``: one of the checks that a task's framework has of an environment itself, as an agent."""

from __future__ import annotations

from typing import ClassVar

from pytest_rlenv._version import __version__
from pytest_rlenv.agents.protocol import Agent, AgentContext
from pytest_rlenv.errors import SpecError, Unsupported


class CheckAgent(Agent):
    """Look at the environment itself, where its framework can: 1 is earned if all is well, else 0.

    As an agent it is selected, retried, judged and reported like any other. What it does is up to the
    framework, which also says what is wrong.
    """

    name = "check"
    version = __version__
    variants = "contract, determinism or isolation"
    expectation: ClassVar[str | None] = ">= 1"
    uses_task_tools = False

    def check(self) -> None:
        """See that one is named."""
        if not self.variant:
            raise SpecError("agent check: which one is not said", hint=f"write check:NAME, {self.variants}")

    def run(self, context: AgentContext) -> None:
        """Refuse a task with a box."""
        raise Unsupported("checks are of OpenEnv environments; this task has a box instead")
