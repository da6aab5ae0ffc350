"""``bash``: our own minimal harness, to have a model measured by little but itself."""

from __future__ import annotations

import json
import uuid
from typing import Any, ClassVar

from pytest_rlenv._version import __version__
from pytest_rlenv.agents.bash.earlier import messages_of
from pytest_rlenv.agents.bash.limits import Limits, Patience
from pytest_rlenv.agents.bash.prompt import first_message, system_prompt
from pytest_rlenv.agents.bash.shell import LEFT_OUT, TOOL, Shell, find_shell
from pytest_rlenv.agents.conversing.client import ChatClient
from pytest_rlenv.agents.conversing.conversation import Conversation
from pytest_rlenv.agents.conversing.session import Session
from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.agents.protocol import Agent, AgentContext, AgentOutcome
from pytest_rlenv.errors import AgentFailed, Stage, TaskInvalid
from pytest_rlenv.trajectory import TRAJECTORY
from pytest_rlenv.trajectory.model import AgentInfo, Step
from pytest_rlenv.trajectory.reading import TrajectoryInvalid, read_trajectory
from pytest_rlenv.trajectory.writing import GrowingTrajectory

TOOLS = [TOOL]


class BashAgent(Agent):
    """Have the model carry out the task with one tool, ``bash``, through chat completions.

    A subclass may set other limits::

        class Brief(BashAgent):
            limits = Limits(turns=20)
    """

    name = "bash"
    version = __version__
    needs_model = True
    calls_model_from_box = False
    limits: ClassVar[Limits] = Limits()
    patience: ClassVar[Patience] = Patience()

    def __init__(self, model: str | None = None) -> None:
        super().__init__(model)
        self._session: Session | None = None
        self._steps: list[Step] = []
        """What earlier steps of the task hold, to be copied into the trajectory of one that goes on."""
        self._session_id = uuid.uuid4().hex
        self._program = "bash"

    def prepare(self, context: AgentContext) -> None:
        """See which shell there is."""
        self._program = find_shell(context.box)

    def run(self, context: AgentContext) -> AgentOutcome:
        """Ask and act until the model is done."""
        endpoint = context.model_endpoint
        if endpoint is None:
            raise AgentFailed("agent bash: there is no model to ask", hint="name one with --rlenv-model")
        file = self._new_trajectory(context, endpoint)
        session = self._begin(context, file)
        client = ChatClient(
            endpoint,
            patience=self.patience,
            reply_seconds=self.limits.reply_seconds,
            remaining=lambda: context.box.remaining,
        )
        try:
            return session.run(client, Shell(context.box, self.limits, self._program), file)
        finally:
            client.close()
            self._steps = file.steps

    def finish(self, context: AgentContext) -> AgentOutcome | None:
        """Tell what was used, also where the time was up before that could be reported."""
        return self._session.outcome() if self._session is not None else None

    def _new_trajectory(self, context: AgentContext, endpoint: ModelEndpoint) -> GrowingTrajectory:
        agent = AgentInfo(
            name=self.name,
            version=str(self.version),
            model_name=context.model or endpoint.model,
            tool_definitions=TOOLS,
        )
        return GrowingTrajectory(context.logs / TRAJECTORY, agent, session_id=self._session_id)

    def _begin(self, context: AgentContext, file: GrowingTrajectory) -> Session:
        """Return the session to go on with, with what there is to do said in it."""
        if context.resume and self._session is not None:
            session = Session(self.limits, TOOLS, self._session.conversation)
            self._copy(self._steps, file)
        else:
            session = Session(self.limits, TOOLS, Conversation(len(json.dumps(TOOLS)), LEFT_OUT))
            session.tell(file, "system", system_prompt(self.limits))
            if context.trajectory is not None:
                earlier = self._read(context)
                self._copy(earlier, file)
                for message in messages_of(earlier):
                    session.conversation.add(message)
        self._session = session
        session.tell(file, "user", first_message(context, self._program))
        return session

    @staticmethod
    def _copy(steps: list[Step], file: GrowingTrajectory) -> None:
        for step in steps:
            file.add(**_copied(step))

    @staticmethod
    def _read(context: AgentContext) -> list[Step]:
        assert context.trajectory is not None
        try:
            return read_trajectory(context.trajectory).steps
        except TrajectoryInvalid as invalid:
            raise TaskInvalid(
                f"{context.trajectory.name} is no ATIF document: {invalid}", stage=Stage.AGENT
            ) from None


def _copied(step: Step) -> dict[str, Any]:
    """Return a step of another trajectory as the fields of one here; what it cost was paid there."""
    fields = dict(step) | {"is_copied_context": True}
    return {name: value for name, value in fields.items() if name != "step_id"}
