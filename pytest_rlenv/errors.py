"""The tree of errors: each knows the stage it broke, whose fault it is, and what to do about it.

An error never becomes a reward. The class name is the stable token that reports print first, so that a
consumer can match it (``RewardMissing``, ``BuildFailed`` ...).
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar


class Kind(str, Enum):
    """Whose fault an error is. Steers retries and alarms; never changes a score (design, section 4)."""

    INFRA = "infra"
    """The machine, the engine, a registry, the Hub: the same task may pass on the next try."""
    TASK = "task"
    """The task as its author wrote it: a retry gives the same error."""
    AGENT = "agent"
    """The agent never ran or broke."""
    CONFIG = "config"
    """What the user asked for cannot be done as asked."""


class Stage(str, Enum):
    """Where in the life of a rollout something happened; also the names of the stage clocks."""

    RESOLVE = "resolve"
    FETCH = "fetch"
    LOAD = "load"
    BUILD = "build"
    START = "start"
    HEALTHCHECK = "healthcheck"
    AGENT_SETUP = "agent_setup"
    AGENT = "agent"
    VERIFY = "verify"
    COLLECT = "collect"
    STOP = "stop"
    WORKER = "worker"
    """At an unknown moment: the process that would know is gone."""


class RlenvError(Exception):
    """Base of all errors of this package.

    Args:
        message: what is wrong and where, in one line.
        hint: what to do about it; one line (for several ways out, one each), or empty.
        detail: the evidence, such as the tail of an output; several lines, already cut.
        stage: overrides the class's stage where one error can happen at several.
    """

    kind: ClassVar[Kind] = Kind.INFRA
    default_stage: ClassVar[Stage] = Stage.START
    anywhere: ClassVar[bool] = False
    """True for what may happen at any stage: the rollout's clock knows which it was."""

    def __init__(self, message: str, *, hint: str = "", detail: str = "", stage: Stage | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail
        self.stage = stage or self.default_stage
        self._placed = stage is not None

    def happened_at(self, stage: Stage | None) -> None:
        """Take the stage of the rollout's clock, if this error may happen anywhere and names none."""
        if self.anywhere and not self._placed and stage is not None:
            self.stage = stage


class SpecError(RlenvError):
    """An environment, option or file named by the user cannot be used: a usage error, exit code 4."""

    kind = Kind.CONFIG
    default_stage = Stage.RESOLVE


class FetchFailed(RlenvError):
    """A task's files could not be brought here."""

    default_stage = Stage.FETCH


class TaskInvalid(RlenvError):
    """The task's own files are wrong: a field, a missing file, a link that leaves the task."""

    kind = Kind.TASK
    default_stage = Stage.LOAD


class VariableMissing(TaskInvalid):
    """A ``${VAR}`` of the task has no value in the caller's environment and no default."""

    kind = Kind.CONFIG


class EngineUnavailable(RlenvError):
    """No container engine answers, or it refuses us."""

    anywhere = True


class BuildFailed(RlenvError):
    """The image could not be built from the task's Dockerfile."""

    kind = Kind.TASK
    default_stage = Stage.BUILD


class ImageUnavailable(RlenvError):
    """A prebuilt or base image is neither here nor to be had from its registry."""

    default_stage = Stage.BUILD


class StageTimeout(RlenvError):
    """A stage that is not the agent's ran into its time limit."""


class SandboxFailed(RlenvError):
    """The sandbox did not start, or died while it was needed."""

    anywhere = True


class DiskFull(SandboxFailed):
    """The engine or this machine has no space left."""


class BoxUnfit(SandboxFailed):
    """A command cannot be started, or a box not be used, for what the image or the task says.

    A user, shell or working directory that is not there, a value that cannot be passed.
    """

    kind = Kind.TASK


class EntrypointExited(SandboxFailed):
    """The image's ENTRYPOINT ended instead of handing over to the command it was given."""

    kind = Kind.TASK
    anywhere = False


class HealthcheckFailed(RlenvError):
    """The task's health check never succeeded."""

    default_stage = Stage.HEALTHCHECK


class StepSetupFailed(RlenvError):
    """A step's ``setup.sh`` failed, so its agent was not run."""

    kind = Kind.TASK


class ArtifactsTooLarge(RlenvError):
    """What a verifier in a box of its own is to be given is more than what is carried there."""

    kind = Kind.TASK
    default_stage = Stage.COLLECT


class AgentFailed(RlenvError):
    """The agent never ran, or broke in a way that leaves nothing to judge."""

    kind = Kind.AGENT
    default_stage = Stage.AGENT


class AgentUnavailable(RlenvError):
    """What an agent's program is installed from cannot be reached, or does not answer now."""

    default_stage = Stage.AGENT_SETUP


class BudgetExceeded(RlenvError):
    """A budget ended the agent where what it did cannot be judged any more; elsewhere that is a note."""

    kind = Kind.AGENT
    default_stage = Stage.AGENT


class ModelUnavailable(RlenvError):
    """The model's endpoint does not answer, or only with errors of its own, however often it is asked."""

    default_stage = Stage.AGENT


class ModelAccessDenied(RlenvError):
    """The model's provider does not take the key, or there is no credit behind it."""

    kind = Kind.CONFIG
    default_stage = Stage.AGENT


class ModelNotFound(RlenvError):
    """The provider has no model of that name."""

    kind = Kind.CONFIG
    default_stage = Stage.AGENT


class ModelRequestInvalid(RlenvError):
    """The provider refuses a request as it is, or its answer is none that can be read."""

    kind = Kind.AGENT
    default_stage = Stage.AGENT


class RecordingUnusable(RlenvError):
    """There is no recording of this rollout's model, or none that can be read."""

    kind = Kind.CONFIG
    default_stage = Stage.AGENT


class ReplayDiverged(RlenvError):
    """The agent asked its model for something else than what was recorded."""

    kind = Kind.AGENT
    default_stage = Stage.AGENT


class RewardMissing(RlenvError):
    """The verifier ended and left no reward file, or an empty one."""

    kind = Kind.TASK
    default_stage = Stage.VERIFY


class RewardInvalid(RlenvError):
    """There is a reward file, but what it holds is not a reward."""

    kind = Kind.TASK
    default_stage = Stage.VERIFY


class RewardContractBroken(RewardInvalid):
    """The reward is a number, but outside the range that the task declares."""


class EnvironmentFailed(RlenvError):
    """The environment's own code failed: it answers with an error where an observation belongs."""

    kind = Kind.TASK
    default_stage = Stage.AGENT
    anywhere = True


class SelectionIgnored(RlenvError):
    """The environment plays another task than the one that it was asked for."""

    kind = Kind.TASK
    default_stage = Stage.AGENT_SETUP


class ReferenceInvalid(TaskInvalid):
    """The recorded actions of a reference do not fit the environment, which does not take them."""

    default_stage = Stage.AGENT


class JudgementFailed(RlenvError):
    """The verifier says itself that what it gives in place of a reward is no measurement."""

    default_stage = Stage.VERIFY


class VerifierTimeout(StageTimeout):
    """The verifier ran into its time limit, so nothing that it may have written counts."""

    kind = Kind.TASK
    default_stage = Stage.VERIFY


class WorkerDied(RlenvError):
    """The process that ran this rollout was killed under it."""

    default_stage = Stage.WORKER


class Unsupported(Exception):
    """The task needs what this sandbox, agent or version does not have: the rollout is skipped.

    Args:
        reason: one line for the skip message, naming the field that asks for it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
