"""The negative control: does nothing. A task that it solves tests nothing."""

from __future__ import annotations

from pytest_rlenv._version import __version__
from pytest_rlenv.agents.protocol import Agent, AgentContext


class NopAgent(Agent):
    """Do nothing; pass while the reward stays below the threshold."""

    name = "nop"
    version = __version__
    must_not_score = True
    uses_task_tools = False

    def run(self, context: AgentContext) -> None:
        """Do nothing."""
