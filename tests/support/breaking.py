"""An agent that fails at the first tasks: at as many as the variable BROKEN says."""

from __future__ import annotations

import os

from pytest_rlenv.agents.oracle import OracleAgent
from pytest_rlenv.agents.protocol import AgentContext, AgentOutcome

BROKEN = "BROKEN"


class Breaking(OracleAgent):
    name = "breaking"

    def run(self, context: AgentContext) -> AgentOutcome:
        number = int(context.task.rpartition("-")[2])
        if number < int(os.environ.get(BROKEN, "0")):
            return AgentOutcome()
        return super().run(context)
