from __future__ import annotations

import time
import uuid
from typing import Any, Literal

from pydantic import BaseModel, Field

from .state import State


class SystemMessage(BaseModel):
    role: Literal["system"] = "system"
    content: Any


class UserMessage(BaseModel):
    role: Literal["user"] = "user"
    content: Any


class AssistantMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[dict] | None = None


class Response(BaseModel):
    id: str
    created: int
    model: str
    message: AssistantMessage
    finish_reason: str | None


class Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    cost: float | None = None

    @property
    def input_tokens(self) -> int:
        return self.prompt_tokens


class MessageNode(BaseModel):
    parent: int | None = None
    message: SystemMessage | UserMessage | AssistantMessage
    sampled: bool = False
    timestamp: float = Field(default_factory=time.time)


class ModelCall(BaseModel):
    node: int | None = None
    model: str | None = None
    usage: Usage | None = None


class TimeSpan(BaseModel):
    start: float = 0.0
    end: float = 0.0

    @property
    def duration(self) -> float:
        return max(0.0, self.end - self.start)


class Timing(BaseModel):
    boot: TimeSpan = Field(default_factory=TimeSpan)
    setup: TimeSpan = Field(default_factory=TimeSpan)
    agent: TimeSpan = Field(default_factory=TimeSpan)
    finalize: TimeSpan = Field(default_factory=TimeSpan)
    scoring: TimeSpan = Field(default_factory=TimeSpan)


class Error(BaseModel):
    type: str
    message: str
    status_code: int | None = None
    traceback: str | None = None


class AgentInfo(BaseModel):
    config: Any
    name: str = "agent"
    trainable: bool = True


class TraceTask(BaseModel):
    type: str
    data: Any
    key: str | None = None
    hash: str | None = None


class Reward(BaseModel):
    score: float
    weight: float = 1.0


class Trace(BaseModel):
    model_config = {"arbitrary_types_allowed": True}

    id: str = Field(default_factory=lambda: uuid.uuid4().hex)
    verifiers: dict = {"version": "0.4.0"}
    task: TraceTask
    agent: AgentInfo
    nodes: list[MessageNode] = []
    calls: list[ModelCall] = []
    rewards: dict[str, Reward | None] = {}
    metrics: dict[str, float | None] = {}
    state: State = Field(default_factory=State, exclude=True)
    ok: bool = False
    stop_condition: str | None = None
    errors: list[Error] = []
    timing: Timing = Field(default_factory=Timing)

    @property
    def num_turns(self) -> int:
        return sum(node.sampled for node in self.nodes)

    @property
    def usage(self) -> Usage | None:
        known = [call.usage for call in self.calls if call.usage is not None]
        if not known:
            return None
        return Usage(
            prompt_tokens=sum(each.prompt_tokens for each in known),
            completion_tokens=sum(each.completion_tokens for each in known),
        )

    @property
    def last_reply(self) -> str:
        said = [node.message.content for node in self.nodes if node.sampled]
        return (said[-1] or "").strip() if said else ""

    def to_record(self) -> dict:
        return self.model_dump(mode="json", exclude_none=True)
