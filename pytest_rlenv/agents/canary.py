"""``canary``: plays recorded episodes that must not score. An environment that they get through leaks."""

from __future__ import annotations

from pytest_rlenv._version import __version__
from pytest_rlenv.agents.protocol import Agent, AgentContext
from pytest_rlenv.errors import Unsupported


class CanaryAgent(Agent):
    """Play the task's canaries, where its framework has such; pass while none reaches the threshold."""

    name = "canary"
    version = __version__
    must_not_score = True
    uses_task_tools = False

    def run(self, context: AgentContext) -> None:
        """Refuse a task with a box."""
        raise Unsupported("canaries are recorded episodes of OpenEnv's; this task has a box instead")
