"""The records that travel and are stored: a rollout, its error, its notes and its stage times.

A :class:`Rollout` is written to ``results.jsonl`` as it stands, one line each; the JSON schema of that
line is ``Rollout.model_json_schema()`` and its version is :data:`SCHEMA_VERSION`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, timezone
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from pytest_rlenv.errors import Kind, RlenvError, Stage
from pytest_rlenv.text import text_of

SCHEMA_VERSION = 1
"""Version of the stored record. It grows when a field changes its meaning, not when one is added."""

MAIN_REWARD_KEY = "reward"
"""The key that is judged when a verifier gives several rewards."""


class ErrorInfo(BaseModel):
    """Why a rollout has no verdict on the agent: the stored form of an :class:`RlenvError`."""

    model_config = ConfigDict(extra="forbid")

    type: str
    stage: Stage
    kind: Kind
    message: str
    hint: str = ""
    detail: str = ""

    @classmethod
    def of(cls, error: RlenvError) -> ErrorInfo:
        """Return the stored form of an error."""
        return cls(
            type=type(error).__name__,
            stage=error.stage,
            kind=error.kind,
            message=text_of(error.message),
            hint=text_of(error.hint),
            detail=text_of(error.detail),
        )


class Note(BaseModel):
    """Something worth knowing that does not change the verdict, such as an agent that ran out of time."""

    model_config = ConfigDict(extra="forbid")

    code: str
    """A word with one meaning, such as ``agent-timeout``."""
    text: str


class CommandRecord(BaseModel):
    """How one script of the rollout (the agent's or the verifier's) ended."""

    model_config = ConfigDict(extra="forbid")

    exit_code: int | None = None
    """The exit code; ``None`` when the command was killed at its time limit."""
    timed_out: bool = False
    seconds: float = 0.0
    output_bytes: int = 0
    """How much it printed, whatever part of it was kept."""


class Checks(BaseModel):
    """What a verifier says of its single checks; it explains a reward and never changes one."""

    model_config = ConfigDict(extra="forbid")

    source: str
    """The file that says so, such as ``ctrf.json``."""
    passed: int = 0
    failed: int = 0
    other: int = 0
    """Neither."""
    statuses: dict[str, int] = Field(default_factory=dict)
    """What those are called, and how many of each: ``skipped``, ``pending``, ``other``."""
    failing: list[str] = Field(default_factory=list)
    """Names of those that failed, the first few."""


class StepRecord(BaseModel):
    """One step of a rollout, of a task that has several."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    name: str
    rewards: dict[str, float] | None = None
    gate: str | None = None
    """Why no step was run after this one: which reward is below the step's minimum."""
    error: ErrorInfo | None = None
    notes: list[Note] = Field(default_factory=list)
    stages: dict[Stage, float] = Field(default_factory=dict)
    agent_command: CommandRecord | None = None
    verifier_command: CommandRecord | None = None
    verifier_level: str | None = None
    verifier_image: str | None = None
    checks: Checks | None = None
    usage: dict[str, JsonValue] = Field(default_factory=dict)

    def note(self, code: str, text: str) -> None:
        """Add a note; its text is made safe to store and show."""
        self.notes.append(Note(code=code, text=text_of(text)))


class TryRecord(BaseModel):
    """An earlier try of a rollout, which an error ended that was worth another one in a fresh sandbox."""

    model_config = ConfigDict(extra="forbid")

    error: ErrorInfo
    seconds: float = 0.0
    stages: dict[Stage, float] = Field(default_factory=dict)
    started_at: datetime
    logs: str | None = None
    """Folder with the try's own logs, relative to the run's folder."""
    usage: dict[str, JsonValue] = Field(default_factory=dict)
    """What the agent had used by then, which was paid for all the same."""


class QuarantineInfo(BaseModel):
    """Why a rollout does not gate, and until when."""

    model_config = ConfigDict(extra="forbid")

    reason: str
    until: date
    """The last day, in UTC."""
    mode: str
    """``skip``, or ``run``: it is run and has a verdict, and its test is a skip whatever that is."""
    task: str
    """The glob of the entry."""


class Origin(BaseModel):
    """The rollout of an earlier run that a rollout was taken over from."""

    model_config = ConfigDict(extra="forbid")

    run: str
    node: str
    """The test that it was then."""


class RunAgain(Origin):
    """The rollout of an earlier run in whose place a rollout was run."""

    reason: str


def reward_of(rewards: Mapping[str, float] | None, key: str | None) -> float | None:
    """Return the reward to judge of several: the chosen key, else ``reward``, else the only one."""
    if not rewards:
        return None
    if key is not None:
        return rewards.get(key)
    if MAIN_REWARD_KEY in rewards:
        return rewards[MAIN_REWARD_KEY]
    return next(iter(rewards.values())) if len(rewards) == 1 else None


class Rollout(BaseModel):
    """One agent's run on one task in a fresh sandbox.

    ``rewards`` is ``None`` exactly when there is no reward: an error, or a skip. It is never 0 for want
    of a reward.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    schema_version: int = SCHEMA_VERSION
    environment: str
    revision: str | None = None
    """The commit of the environment on the Hub; ``None`` for a local folder."""
    framework: str
    task: str
    task_digest: str | None = None
    agent: str
    agent_version: str | None = None
    model: str | None = None
    attempt: int = 1
    sandbox: str = ""
    runner: str = ""
    """What ran the task beside or instead of a box, in words, such as ``openenv server (docker)``."""
    image: str | None = None
    """The image's name and id, as ``name@sha256:...``."""
    rewards: dict[str, float] | None = None
    reward_key: str | None = None
    """The key to judge, where the user or the task chose one."""
    error: ErrorInfo | None = None
    skip_reason: str | None = None
    notes: list[Note] = Field(default_factory=list)
    stages: dict[Stage, float] = Field(default_factory=dict)
    """Seconds per stage; a stage that was not reached is absent."""
    seconds: float = 0.0
    started_at: datetime = Field(default_factory=lambda: datetime.now(timezone.utc))
    agent_command: CommandRecord | None = None
    """For a task of several steps these are in its steps."""
    verifier_command: CommandRecord | None = None
    verifier_level: str | None = None
    """How far the verifier was kept from what the agent left: ``shared``, ``quiesce``, ``fresh`` or
    ``separate``; several where the steps differ."""
    verifier_image: str | None = None
    """The image of a verifier in a box of its own, like ``image``."""
    checks: Checks | None = None
    steps: list[StepRecord] = Field(default_factory=list)
    """The steps that were run, of a task that has several."""
    usage: dict[str, JsonValue] = Field(default_factory=dict)
    """What the agent says that it used: tokens, cost in US dollars, turns."""
    tries: list[TryRecord] = Field(default_factory=list)
    """Earlier tries of this rollout, in order; what the other fields say is the last one's."""
    quarantine: QuarantineInfo | None = None
    conditions: dict[str, JsonValue] = Field(default_factory=dict)
    """Those of the run's settings that a result depends on."""
    resumed_from: Origin | None = None
    """Set for a rollout of an earlier run, which this run took over as it was."""
    run_again: RunAgain | None = None
    """Set for a rollout that an earlier run has too, but that could not be taken over."""
    logs: str | None = None
    """Folder with the rollout's logs, relative to the run's folder."""

    @field_validator("agent_version", "model", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> str | None:
        """What an agent's class says of itself is a stranger's value: ``version = 3`` is as good as "3"."""
        return None if value is None else text_of(value)

    @property
    def reward(self) -> float | None:
        """The reward to judge: the chosen key, else ``reward``, else the only one.

        ``None`` if there is none, and for a rollout with an error, whatever its verifier wrote.
        """
        return None if self.error is not None else reward_of(self.rewards, self.reward_key)

    def note(self, code: str, text: str) -> None:
        """Add a note; its text is made safe to store and show."""
        self.notes.append(Note(code=code, text=text_of(text)))

    def as_record(self) -> dict[str, Any]:
        """Return the JSON-ready form that ``results.jsonl`` holds, with the judged reward beside the keys."""
        record: dict[str, Any] = self.model_dump(mode="json")
        record["reward"] = self.reward
        return record


class StageClock:
    """Times the stages of one rollout, each on its own; no stage eats another's time."""

    def __init__(self, rollout: Rollout) -> None:
        self._rollout = rollout
        self._begin = time.monotonic()
        self._seen: BaseException | None = None
        self._tables = [rollout.stages]
        self.broke: Stage | None = None
        """The innermost stage that an exception left last."""

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """Time one stage; a stage entered twice adds up."""
        begin = time.monotonic()
        try:
            yield
        except BaseException as error:
            if self._seen is not error:
                self.broke, self._seen = stage, error
            raise
        finally:
            spent = time.monotonic() - begin
            for table in self._tables:
                table[stage] = round(table.get(stage, 0.0) + spent, 4)

    @contextmanager
    def step(self, record: StepRecord) -> Iterator[None]:
        """Add the stages within to a step's own table, too."""
        self._tables.append(record.stages)
        try:
            yield
        finally:
            self._tables.pop()

    def finish(self) -> None:
        """Write the total to the rollout."""
        self._rollout.seconds = round(time.monotonic() - self._begin, 4)
