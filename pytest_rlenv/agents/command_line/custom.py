"""``cmd:"..."``: any command, run in the box as the agent's user."""

from __future__ import annotations

from pytest_rlenv.agents.command_line.running import launch_of, start
from pytest_rlenv.agents.command_line.spec import CHAT, MESSAGES, RESPONSES, CommandLineSpec
from pytest_rlenv.agents.protocol import Agent, AgentContext, AgentOutcome
from pytest_rlenv.errors import SpecError
from pytest_rlenv.trajectory import TRAJECTORY
from pytest_rlenv.trajectory.model import FinalMetrics
from pytest_rlenv.trajectory.reading import TrajectoryInvalid, read_trajectory

_USAGE = {
    "input_tokens": "total_prompt_tokens",
    "output_tokens": "total_completion_tokens",
    "cached_tokens": "total_cached_tokens",
    "cost_usd": "total_cost_usd",
}


class CommandAgent(Agent):
    """Give ``sh`` the command, with the instruction in a file and the model in variables.

    Nothing is installed: the command is in the image, or fetches what it needs. An ATIF document that it
    leaves as ``/logs/agent/trajectory.json`` is the rollout's trajectory.
    """

    name = "cmd"
    variants = "the command, for `sh`"

    def __init__(self, model: str | None = None) -> None:
        super().__init__(model)
        self.needs_model = model is not None

    def check(self) -> None:
        """See that there is a command."""
        if not self.variant.strip():
            raise SpecError("agent cmd: there is no command", hint="say --agent 'cmd:\"my-agent --flag\"'")

    def run(self, context: AgentContext) -> AgentOutcome:
        """Run the command."""
        spec = CommandLineSpec(
            name=self.name,
            run=self.variant,
            wires=(CHAT, RESPONSES, MESSAGES),
            resume="1",
            takes_mcp=True,
            skills="",
        )
        done = start(spec, launch_of(spec, context, self.model), context)
        return AgentOutcome(exit_code=done.exit_code, completed=done)

    def finish(self, context: AgentContext) -> AgentOutcome | None:
        """See what the trajectory that the command may have left says of its usage."""
        path = context.logs / TRAJECTORY
        if not path.is_file():
            return None
        try:
            metrics = read_trajectory(path).final_metrics or FinalMetrics()
        except TrajectoryInvalid as invalid:
            return AgentOutcome(notes={"trajectory-invalid": f"{TRAJECTORY} is no ATIF document: {invalid}"})
        found = {key: getattr(metrics, name) for key, name in _USAGE.items()}
        return AgentOutcome(usage={key: value for key, value in found.items() if value is not None})
