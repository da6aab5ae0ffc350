"""ATIF 1.0 to 1.8 as Harbor 0.26 reads it: the parts of a trajectory and the rules between them.

Types are taken as written, nothing is coerced, and no key may be there that the format does not have. So what
passes here is read everywhere; the other way round a few documents that Harbor would bend to fit do not.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Version = Literal[
    "ATIF-v1.0",
    "ATIF-v1.1",
    "ATIF-v1.2",
    "ATIF-v1.3",
    "ATIF-v1.4",
    "ATIF-v1.5",
    "ATIF-v1.6",
    "ATIF-v1.7",
    "ATIF-v1.8",
]
WRITTEN: Version = "ATIF-v1.7"
"""The version that we write: the first one in which a single call and result may have ``extra``."""

IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
AUDIO = (
    "audio/wav",
    "audio/mpeg",
    "audio/mp4",
    "audio/aac",
    "audio/ogg",
    "audio/flac",
    "audio/webm",
    "audio/aiff",
)

_FRACTION = re.compile(r"[.,](\d+)")
"""Of a second: Python before 3.11 reads three digits or six, and some write nine."""
_OF_AGENTS = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
_OF_MODELS = ("metrics", "reasoning_content")

Seconds = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class MediaSource(_Part):
    """Where an image or a recording is: a path relative to the document, an absolute one, or a URL."""

    media_type: str
    path: str
    duration_sec: Seconds | None = None

    @model_validator(mode="after")
    def _check(self) -> MediaSource:
        if self.media_type not in IMAGES + AUDIO:
            raise ValueError(f"media_type {self.media_type!r} is none of the format's")
        if self.duration_sec is not None and self.media_type in IMAGES:
            raise ValueError("duration_sec is for audio only")
        return self


class ContentPart(_Part):
    """A piece of a message: a text, an image or a recording."""

    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: MediaSource | None = None

    @model_validator(mode="after")
    def _check(self) -> ContentPart:
        wanted, other = ("text", "source") if self.type == "text" else ("source", "text")
        if getattr(self, wanted) is None:
            raise ValueError(f"a part of type {self.type} needs {wanted}")
        if getattr(self, other) is not None:
            raise ValueError(f"a part of type {self.type} has no {other}")
        if self.source is not None and not self.source.media_type.startswith(f"{self.type}/"):
            raise ValueError(f"a part of type {self.type} cannot be {self.source.media_type}")
        return self


Content = str | list[ContentPart]


class SubagentRef(_Part):
    """Which other trajectory a result stands for: one embedded in the document, or a file."""

    trajectory_id: str | None = None
    session_id: str | None = None
    trajectory_path: str | None = None
    extra: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check(self) -> SubagentRef:
        if self.trajectory_id is None and self.trajectory_path is None:
            raise ValueError("needs trajectory_id or trajectory_path")
        return self


class ToolCall(_Part):
    """A tool that the agent called."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: dict[str, Any] | None = None


class Result(_Part):
    """What came back from a call, or by itself."""

    source_call_id: str | None = None
    content: Content | None = None
    subagent_trajectory_ref: list[SubagentRef] | None = None
    extra: dict[str, Any] | None = None


class Observation(_Part):
    """What came back after a step."""

    results: list[Result]


class Metrics(_Part):
    """What a step's calls of the model have used; ``prompt_tokens`` include those from a cache."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: dict[str, Any] | None = None


class Step(_Part):
    """One turn: what system, user or agent said and did, and what came back."""

    step_id: Annotated[int, Field(ge=1)]
    timestamp: str | None = None
    source: Literal["system", "user", "agent"]
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    message: Content
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: Count | None = None
    extra: dict[str, Any] | None = None

    @field_validator("timestamp")
    @classmethod
    def _check_time(cls, value: str | None) -> str | None:
        if value is not None:
            micro = _FRACTION.sub(lambda match: f".{match[1]:0<6.6}", value)
            try:
                datetime.fromisoformat(micro.replace("Z", "+00:00"))
            except ValueError:
                raise ValueError(f"{value!r} is not a time in ISO 8601") from None
        return value

    @model_validator(mode="after")
    def _check(self) -> Step:
        if self.source != "agent" and (names := self._given(_OF_AGENTS)):
            raise ValueError(f"a step of the {self.source} has no {names[0]}")
        if self.source == "agent" and self.llm_call_count == 0 and (names := self._given(_OF_MODELS)):
            raise ValueError(f"a step without a call of the model (llm_call_count 0) has no {names[0]}")
        known = {call.tool_call_id for call in self.tool_calls or ()}
        for result in self.observation.results if self.observation else ():
            if result.source_call_id is not None and result.source_call_id not in known:
                raise ValueError(f"a result of call {result.source_call_id!r}, which the step lacks")
        return self

    def _given(self, names: tuple[str, ...]) -> list[str]:
        return [name for name in names if getattr(self, name) is not None]


class AgentInfo(_Part):
    """Who acted."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    extra: dict[str, Any] | None = None


class FinalMetrics(_Part):
    """The sums over all steps."""

    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: Count | None = None
    extra: dict[str, Any] | None = None


class Trajectory(_Part):
    """The whole document."""

    schema_version: Version
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: AgentInfo
    steps: Annotated[list[Step], Field(min_length=1)]
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: dict[str, Any] | None = None
    subagent_trajectories: list[Trajectory] | None = None

    @model_validator(mode="after")
    def _check(self) -> Trajectory:
        for number, step in enumerate(self.steps, 1):
            if step.step_id != number:
                raise ValueError(f"the step_id of step {number} is {step.step_id}: they go up from 1 by one")
        ids = [each.trajectory_id for each in self.subagent_trajectories or ()]
        if None in ids:
            raise ValueError("an embedded trajectory needs a trajectory_id")
        if len(set(ids)) < len(ids):
            raise ValueError("two embedded trajectories have one trajectory_id")
        return self


def text_of_content(content: Content | None) -> str:
    """Return the words of a message; images and recordings are named by where they are."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "\n".join(
        part.text if part.text is not None else f"[{part.type}: {part.source.path if part.source else ''}]"
        for part in content
    )
