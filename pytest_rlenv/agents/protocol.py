"""What an agent is: a class with a name that is given an instruction and a box.

Your own agent is a subclass of :class:`Agent`, chosen by ``--agent module:Class``.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pytest_rlenv.agents.ending import AgentOutcome, AgentStopped, AgentTimedOut, Stop
from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.sandboxes.model import DEFAULT_OUTPUT_CAP, Completed, Entry, Extracted, ImageLayer
from pytest_rlenv.sandboxes.protocol import Box

__all__ = [
    "Agent",
    "AgentBox",
    "AgentContext",
    "AgentOutcome",
    "AgentStopped",
    "AgentTimedOut",
    "McpServer",
    "ModelEndpoint",
    "Stop",
]
"""All that an agent needs of us."""


class AgentBox:
    """The box as an agent may use it: as the task's agent user, within the agent's time.

    Once the agent's time is up, every call raises :class:`AgentTimedOut`: a late agent cannot touch the box
    while the verifier runs.
    """

    def __init__(
        self,
        box: Box,
        *,
        user: str | int | None,
        env: Mapping[str, str],
        cwd: str | None,
        deadline: float | None,
    ) -> None:
        self._box = box
        self._user = user
        self._env = dict(env)
        self._cwd = cwd
        self._deadline = deadline
        self._revoked = False

    @property
    def user(self) -> str | int | None:
        """The task's agent user; ``None`` is the image's own."""
        return self._user

    @property
    def remaining(self) -> float | None:
        """Seconds left of the agent's time; ``None`` is no limit."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def revoke(self) -> None:
        """Refuse every later call."""
        self._revoked = True

    def run(
        self,
        command: str | Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | int | None = None,
        timeout: float | None = None,
        cap: int = DEFAULT_OUTPUT_CAP,
    ) -> Completed:
        """Run a command; a string is given to ``bash -c``.

        Args:
            command: argument list, or a line for bash.
            env: variables on top of the task's.
            cwd: working directory; the task's by default.
            user: another user than the task's agent user.
            timeout: seconds for this command alone. When it fires, the command's box is cleared of all
                processes and the result says ``timed_out``; the agent goes on.
            cap: bytes to keep of each stream.

        Raises:
            AgentTimedOut: the agent's own time is up.
        """
        left = self._left()
        limits = [x for x in (left, timeout) if x is not None]
        argv = ["bash", "-c", command] if isinstance(command, str) else list(command)
        done = self._box.run(
            argv,
            user=self._user if user is None else user,
            env={**self._env, **(env or {})},
            cwd=cwd or self._cwd,
            timeout=min(limits) if limits else None,
            cap=cap,
        )
        if self._revoked or (done.timed_out and (timeout is None or (left is not None and left <= timeout))):
            raise AgentTimedOut(done)
        return done

    def put(self, entries: Iterable[Entry], dest: str = "/") -> None:
        """Write files into the box as root."""
        self._left()
        self._box.put(entries, dest)

    def get(self, path: str, *, cap: int = DEFAULT_OUTPUT_CAP) -> bytes:
        """Return a regular file of the box."""
        self._left()
        return self._box.get(path, cap=cap)

    def get_tree(self, path: str, dest: Path, *, cap: int = DEFAULT_OUTPUT_CAP) -> Extracted:
        """Copy the regular files below a folder of the box into ``dest``, up to ``cap`` bytes."""
        self._left()
        return self._box.get_tree(path, dest, cap=cap)

    def _left(self) -> float | None:
        left = self.remaining
        if self._revoked or left == 0.0:
            raise AgentTimedOut
        return left


@dataclass(frozen=True)
class McpServer:
    """A server of tools that the task has for its agent. Addresses are meant as seen from the box.

    Attributes:
        name: its name.
        transport: ``sse``, ``streamable-http`` or ``stdio``.
        url: where it is, for the first two.
        command, args: what to start in the box, for the last.
        headers: what to send along, credentials included: they are for the server only.
    """

    name: str
    transport: str
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass
class AgentContext:
    """What an agent is given for one rollout, or for one step of a task that has several.

    Attributes:
        instruction: the task's text for the agent.
        box: where it acts.
        logs: a folder on this machine for its own logs and its ``trajectory.json``; kept with the rollout.
        solution: the reference solution's files to put at ``/solution``; only for agents that ask for it.
        solution_env: variables of the reference solution; likewise.
        solution_in_place: True if it is at :attr:`Agent.solution_dir` already.
        task: the task's id, for messages.
        model: ``provider/name`` where the user chose one.
        step: the step's name; empty for a task without steps.
        mcp_servers: servers of tools, for agents with :attr:`Agent.uses_task_tools`.
        skills_dir: the folder of skills in the box; likewise.
        trajectory: a file on this machine: what the agent is meant to have done before, as an ATIF document;
            likewise, and for the first step only.
        resume: True if the agent is to go on with the session of the step before; else it begins anew.
        model_endpoint: where to ask the model, for agents with :attr:`Agent.needs_model`.
        public_network: False if the box reaches less than the whole world when it is not the agent's turn, as
            in :meth:`Agent.prepare`.
    """

    instruction: str
    box: AgentBox
    logs: Path
    solution: Sequence[Entry] | None = None
    solution_env: Mapping[str, str] = field(default_factory=dict)
    solution_in_place: bool = False
    task: str = ""
    model: str | None = None
    step: str = ""
    mcp_servers: Sequence[McpServer] = ()
    skills_dir: str | None = None
    trajectory: Path | None = None
    resume: bool = False
    model_endpoint: ModelEndpoint | None = None
    public_network: bool = True


class Agent(ABC):
    """Base class of agents. One instance serves one rollout.

    For a task of several steps it is prepared once and run once for each step, in the same box, with the
    step's instruction and time. :attr:`AgentContext.resume` says whether it goes on where it was.
    """

    name: ClassVar[str] = ""
    """The word in ids and records; the class's name by default."""
    version: str | None = None
    """What the record says; an agent that learns it in :meth:`prepare` may set it there."""
    needs_solution: ClassVar[bool] = False
    """True for an agent that runs the reference solution: a task without one is skipped."""
    solution_dir: ClassVar[str | None] = None
    """Where such an agent wants the solution. It may then be there from the start, in a box in which nothing
    else runs before the agent; :attr:`AgentContext.solution_in_place` tells."""
    must_not_score: ClassVar[bool] = False
    """True for a negative control: it passes while it stays below the threshold."""
    expectation: ClassVar[str | None] = None
    """What its reward must be, such as ``>= 0.55``, where neither file nor task says."""

    uses_task_tools: ClassVar[bool] = True
    """False for an agent that has no use for a task's MCP servers, skills and earlier trajectory."""
    needs_model: bool = False
    """True for an agent that calls the user's model: it is given :attr:`AgentContext.model_endpoint`."""
    variants: ClassVar[str] = ""
    """What may follow the agent's name after a colon, in a few words; empty for an agent of one kind."""

    variant: str = ""
    """What followed it, such as ``fast`` of ``NAME:fast``. Set after the agent is made."""

    def __init__(self, model: str | None = None) -> None:
        self.model = model

    @property
    def calls_model_from_box(self) -> bool:
        """False if it calls its model from this machine, not from the box: the endpoint is here then."""
        return True

    @property
    def acts_in_boxes(self) -> bool:
        """False if it only does what needs no box: a task with one is skipped."""
        return True

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    def check(self) -> None:  # noqa: B027 - most agents need nothing
        """See that it can run at all, once for a run and before any sandbox starts.

        Raises:
            SpecError: what is missing: a variant, a file, a program.
        """

    def image_layer(self) -> ImageLayer | None:
        """Return what it wants to have in the image of its box, where the sandbox can extend images.

        It is made once for all rollouts on that image, outside the agent's time, whatever network the task
        has. :meth:`prepare` sees whether it is there.
        """
        return None

    def prepare(self, context: AgentContext) -> None:  # noqa: B027 - most agents need nothing
        """Set up in the box, on a clock of its own. An exception here is an error: the agent never ran."""

    @abstractmethod
    def run(self, context: AgentContext) -> AgentOutcome | None:
        """Act on the task until done.

        Raises:
            AgentStopped: to end early with a reason; what was done is judged.
            Exception: anything else is an error of the agent; nothing is judged.
        """

    def finish(self, context: AgentContext) -> AgentOutcome | None:
        """Make of its logs what is to be kept of them, such as ``trajectory.json``, however it ended.

        Called after each :meth:`run`, also one that ran out of time. By now ``context.logs`` has what was in
        the box's ``/logs/agent``, and the box is out of reach.

        Returns:
            Usage and notes beside those that ``run`` reported, if any.
        """
        return None
