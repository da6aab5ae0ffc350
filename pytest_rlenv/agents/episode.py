"""An episode: what an agent plays where a task has no box, but tools, a conversation, or actions to take.

The framework that a task belongs to makes the episode and keeps what it says: the agent sees neither rewards
nor the reference solution.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pytest_rlenv.agents.ending import AgentOutcome
from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.agents.protocol import Agent, AgentContext
from pytest_rlenv.errors import Unsupported


@dataclass(frozen=True)
class Tool:
    """Something that an agent can call.

    Attributes:
        name: as it is called by.
        description: for a model.
        parameters: JSON Schema of its arguments, an object.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """A call of a tool.

    Attributes:
        tool: its name, as the agent wrote it.
        arguments: its arguments; text is JSON as a model wrote it, and may be wrong.
        call_id: the model's name for the call, where there is one.
    """

    tool: str
    arguments: Mapping[str, Any] | str
    call_id: str = ""


class Episode(ABC):
    """One episode of one task, from the agent's side.

    A mistake of the agent's (a tool that is not there, arguments that do not fit) is answered with a text
    that says so, and costs a step. What is raised here is the environment's fault or the time-out: let it
    pass.
    """

    @property
    @abstractmethod
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """What the conversation begins with, in the form of OpenAI's chat messages (role, content).

        Where there are some they tell all that is to be known at first, a first observation included.
        """

    @property
    @abstractmethod
    def tools(self) -> Sequence[Tool]:
        """What can be called."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """True once the environment takes nothing more."""

    @abstractmethod
    def call(self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "") -> str:
        """Call a tool and return what it says, as text.

        Once the episode is over it says so, and changes nothing. All calls of one reply of a model are made,
        though an earlier one of them has ended it.

        Args:
            tool: its name, as the agent wrote it.
            arguments: its arguments; text is JSON as a model wrote it, and may be wrong.
            call_id: the model's name for the call, where there is one.

        Raises:
            AgentTimedOut: the agent's time is up. RlenvError: the environment broke.
        """

    @abstractmethod
    def say(self, text: str, *, reasoning: str = "") -> str | None:
        """Say something to the environment, and return its answer; ``None`` ends the conversation.

        Where there is nobody to talk to, the first thing said without calling a tool is the agent's answer.

        Raises:
            AgentTimedOut: the agent's time is up. RlenvError: the environment broke.
        """

    def remark(self, text: str, *, reasoning: str = "") -> None:  # noqa: B027 - most have no use for it
        """Hear what an agent says or thinks beside the calls that follow; it changes nothing."""

    def announce(self, calls: Sequence[Call]) -> None:  # noqa: B027 - most take each call for itself
        """Hear which calls a model makes in one reply, before they are made, in this order, one by one.

        An environment that takes a reply as a whole takes it at the first of them. An agent that asks no
        model need not say anything: each call is then a reply of its own.
        """

    @property
    def action_schema(self) -> Mapping[str, Any] | None:
        """JSON Schema of an action, for environments that are stepped with :meth:`act`; else ``None``.

        Tools do not count then: models are offered one that takes an action.
        """
        return None

    @property
    def observation(self) -> Mapping[str, Any] | None:
        """What the environment showed last, for those; else ``None``."""
        return None

    def act(self, action: Mapping[str, Any]) -> Mapping[str, Any]:
        """Take an action and return the next observation, for those.

        Raises:
            AgentTimedOut: the agent's time is up. RlenvError: the environment broke.
            Unsupported: this episode has tools, not actions.
        """
        raise Unsupported("this environment is played with tools or words, not with actions")


@dataclass
class EpisodeContext:
    """What an agent is given beside an episode.

    Attributes:
        instruction: the task in words, where there are any.
        logs: a folder on this machine for its own logs and its ``trajectory.json``.
        task: the task's id, for messages.
        model: ``provider/name`` where the user chose one.
        model_endpoint: where to ask the model, for agents with :attr:`Agent.needs_model`.
        deadline: on the monotonic clock, when the agent's time is up; ``None`` is no limit.
        parameters: sampling parameters that the task asks for (``temperature``, ``max_output_tokens``), by
            the names of OpenAI's Responses API.
    """

    instruction: str
    logs: Path
    task: str = ""
    model: str | None = None
    model_endpoint: ModelEndpoint | None = None
    deadline: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


class Player(Agent):
    """Base class of agents that play episodes. One instance serves one rollout."""

    uses_task_tools: ClassVar[bool] = False

    @property
    def calls_model_from_box(self) -> bool:
        """There is no box."""
        return False

    @property
    def acts_in_boxes(self) -> bool:
        """True for an agent that has a ``run`` of its own beside ``play``."""
        return type(self).run is not Player.run

    @abstractmethod
    def play(self, episode: Episode, context: EpisodeContext) -> AgentOutcome | None:
        """Play until :attr:`Episode.done`, or until there is nothing more to do.

        Raises:
            AgentStopped: to end early with a reason; what was done is judged.
            Exception: anything else is an error of the agent; nothing is judged.
        """

    def run(self, context: AgentContext) -> AgentOutcome | None:
        """Refuse a task with a box.

        Raises:
            Unsupported: always.
        """
        raise Unsupported(no_boxes(self))


def no_boxes(agent: Agent) -> str:
    """Return why an agent skips a task with a box."""
    return f"agent {agent.name} plays episodes, and this task has a box instead"
