"""``replay``: does what a stored trajectory did, and tells where that now ends differently."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from pytest_rlenv._version import __version__
from pytest_rlenv.agents.bash.handing_over import leave_servers
from pytest_rlenv.agents.bash.limits import Limits
from pytest_rlenv.agents.bash.shell import Shell, find_shell
from pytest_rlenv.agents.episode import Episode, EpisodeContext, Player
from pytest_rlenv.agents.episode_log import EpisodeLog
from pytest_rlenv.agents.protocol import AgentContext, AgentOutcome
from pytest_rlenv.agents.replay.commands import Recorded, Script, script_of
from pytest_rlenv.agents.replay.comparing import DIFFERS, Comparison, compare, notes_of
from pytest_rlenv.agents.replay.episode import REPORT, replay_episode
from pytest_rlenv.agents.replay.finding import check_source, find_trajectory
from pytest_rlenv.errors import AgentFailed, SpecError
from pytest_rlenv.trajectory import TRAJECTORY
from pytest_rlenv.trajectory.model import AgentInfo, Observation, Result, Trajectory
from pytest_rlenv.trajectory.reading import TrajectoryInvalid, read_trajectory
from pytest_rlenv.trajectory.writing import GrowingTrajectory


class ReplayAgent(Player):
    """Run what another agent ran, in order, whatever comes of it: commands in a box, moves in an episode.

    ``replay:PATH`` names a ``trajectory.json``, the folder of a rollout, or the folder of a run, in which
    each task finds its own.
    """

    name = "replay"
    version = __version__
    uses_task_tools = True
    variants = "the path of a trajectory.json, of a rollout's folder, or of a run's"
    limits = Limits()

    def __init__(self, model: str | None = None) -> None:
        super().__init__(model)
        self._program = "bash"

    def check(self) -> None:
        """See that there is something to replay."""
        if not self.variant:
            raise SpecError("agent replay: it is not said what to replay", hint="write replay:PATH")
        check_source(self.source)

    def prepare(self, context: AgentContext) -> None:
        """See that there is a trajectory for this task, and which shell there is."""
        self._find(context)
        self._program = find_shell(context.box)

    def run(self, context: AgentContext) -> AgentOutcome:
        """Run the commands."""
        source = self._find(context)
        trajectory = _read(source)
        script = script_of(trajectory)
        if not script.commands:
            raise AgentFailed(f"agent replay: {source} has no commands: {_left_out(script) or 'no calls'}")
        if context.mcp_servers:
            leave_servers(context.box, context.mcp_servers)
        shell = Shell(context.box, self.limits, self._program)
        file = self._new_trajectory(context, source)
        done: list[Comparison] = []
        try:
            for recorded in script.commands:
                done.append(self._again(recorded, shell, file))
        finally:
            rows = [each.as_json() for each in done]
            (context.logs / REPORT).write_text(json.dumps(rows, indent=1) + "\n")
        return self._outcome(done, script)

    def play(self, episode: Episode, context: EpisodeContext) -> AgentOutcome:
        """Make the moves of a stored episode."""
        source = find_trajectory(self.source, context.task, "")
        extra = {"replayed": str(source)}
        log = EpisodeLog(context, self.name, self.version, context.instruction, extra=extra)
        return replay_episode(_read(source), str(source), episode, context, log)

    @property
    def source(self) -> Path:
        """What is replayed, as the user named it."""
        return Path(self.variant).expanduser()

    def _find(self, context: AgentContext) -> Path:
        return find_trajectory(self.source, context.task, context.step)

    def _new_trajectory(self, context: AgentContext, source: Path) -> GrowingTrajectory:
        agent = AgentInfo(name=self.name, version=str(self.version), extra={"replayed": str(source)})
        file = GrowingTrajectory(context.logs / TRAJECTORY, agent, session_id=uuid.uuid4().hex)
        file.add(source="user", message=context.instruction)
        return file

    @staticmethod
    def _again(recorded: Recorded, shell: Shell, file: GrowingTrajectory) -> Comparison:
        file.add(
            source="agent",
            message="",
            tool_calls=[recorded.call],
            llm_call_count=0,
            extra={"replayed_step": recorded.step},
        )
        came = compare(recorded, shell.run(recorded.command, recorded.timeout, cwd=recorded.cwd))
        facts = came.now.facts | {"end": came.end, "output": came.output}
        file.observe(
            Observation(
                results=[
                    Result(source_call_id=recorded.call.tool_call_id, content=came.now.text, extra=facts)
                ]
            )
        )
        return came

    @staticmethod
    def _outcome(done: list[Comparison], script: Script) -> AgentOutcome:
        notes = notes_of(done)
        if left_out := _left_out(script):
            notes["replay-partial"] = f"not replayed, since they are no commands: {left_out}"
        usage = {
            "commands": len(done),
            "diverged": sum(each.diverged for each in done),
            "outputs_differing": sum(each.output == DIFFERS for each in done),
        }
        return AgentOutcome(usage=usage, notes=notes)


def _read(source: Path) -> Trajectory:
    try:
        return read_trajectory(source)
    except TrajectoryInvalid as invalid:
        raise AgentFailed(f"agent replay: {source} is no ATIF document: {invalid}") from None


def _left_out(script: Script) -> str:
    return ", ".join(f"{name} ({count})" for name, count in script.left_out.most_common())
