"""The oracle: runs the task's reference solution. What it cannot solve, nobody can be blamed for."""

from __future__ import annotations

from pytest_rlenv._version import __version__
from pytest_rlenv.agents.protocol import Agent, AgentContext, AgentOutcome, AgentTimedOut
from pytest_rlenv.sandboxes.model import Completed

SOLUTION_DIR = "/solution"


class OracleAgent(Agent):
    """Put the solution at ``/solution`` and run its ``solve.sh`` as the agent's user.

    Its exit code is a note, never a verdict: the verifier decides.
    """

    name = "oracle"
    version = __version__
    needs_solution = True
    solution_dir = SOLUTION_DIR
    uses_task_tools = False

    def run(self, context: AgentContext) -> AgentOutcome:
        """Run the solution."""
        if not context.solution_in_place:
            context.box.put(context.solution or (), SOLUTION_DIR)
        # As Harbor does; the solution's own variables win.
        env = {"DEBIAN_FRONTEND": "noninteractive", **context.solution_env}
        try:
            done = context.box.run(["bash", "-c", f"{SOLUTION_DIR}/solve.sh"], env=env)
        except AgentTimedOut as late:
            if late.completed is not None:
                self._keep(context, late.completed)
            raise
        self._keep(context, done)
        return AgentOutcome(exit_code=done.exit_code, completed=done)

    @staticmethod
    def _keep(context: AgentContext, done: Completed) -> None:
        (context.logs / "oracle.txt").write_bytes(done.output)
        if done.exit_code:
            (context.logs / "exit-code.txt").write_text(f"{done.exit_code}\n")
