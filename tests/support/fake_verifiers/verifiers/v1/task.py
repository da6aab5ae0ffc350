from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from .errors import TaskError
from .trace import Reward
from .utils.decorators import invoke


class TaskTimeout(BaseModel):
    setup: float | None = None
    agent: float | None = None
    finalize: float | None = None
    scoring: float | None = None


class TaskData(BaseModel):
    model_config = ConfigDict(frozen=True)

    idx: int | None = None
    id: str | None = None
    name: str | None = None
    prompt: str | list[dict] | None = None
    system_prompt: str | None = None
    image: str | None = None
    network_allow: list[str] = ["*"]
    network_block: list[str] = []
    timeout: TaskTimeout = TaskTimeout()


class PluggedFunction(BaseModel):
    fn: str


class TaskConfig(BaseModel):
    stops: dict[str, PluggedFunction] = {}


def reward(fn=None, *, weight: float = 1.0):
    def mark(fn):
        fn.reward_weight = weight
        return fn

    return mark if fn is None else mark(fn)


def metric(fn):
    fn.metric = True
    return fn


class Task:
    NEEDS_CONTAINER: ClassVar[bool] = False
    data_class: ClassVar[type[TaskData]] = TaskData

    def __class_getitem__(cls, parameters):
        """Take ``Task[MyData]`` as Verifiers does."""
        data = parameters[0] if isinstance(parameters, tuple) else parameters
        return type(cls.__name__, (cls,), {"data_class": data})

    def __init__(self, data, config=None) -> None:
        self.data = data
        self.config = config if config is not None else TaskConfig()

    @classmethod
    def data_type(cls):
        return cls.data_class

    @classmethod
    def toolsets(cls, config) -> list:
        return []

    @property
    def hash(self) -> str:
        row = self.data.model_dump(mode="json", exclude_none=True)
        return hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()

    @property
    def key(self) -> str:
        return self.hash

    def plugged_stops(self) -> dict:
        """Return the configured stops: coroutine functions by their names."""
        found = {}
        for name, stop in self.config.stops.items():
            module, _, attribute = stop.fn.rpartition(":")
            found[name] = getattr(importlib.import_module(module), attribute)
        return found

    def runtime_env(self) -> dict[str, str]:
        return {}

    async def setup(self, trace: Any, runtime: Any) -> None:
        return None

    async def finalize(self, trace: Any, runtime: Any) -> None:
        return None

    async def validate(self, runtime: Any) -> bool | None:
        return None

    async def score(self, trace: Any, runtime: Any = None) -> None:
        available = {"task": self.data, "trace": trace, "runtime": runtime}
        functions = [getattr(self, name) for name in dir(type(self)) if not name.startswith("_")]
        metrics = [fn for fn in functions if getattr(fn, "metric", False)]
        rewards = [fn for fn in functions if hasattr(fn, "reward_weight")]
        trace.rewards |= {fn.__name__: None for fn in rewards}
        try:
            for fn in metrics:
                trace.metrics[fn.__name__] = await invoke(fn, available)
            for fn in rewards:
                value = await invoke(fn, available)
                trace.rewards[fn.__name__] = Reward(score=float(value), weight=fn.reward_weight)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            raise TaskError(f"task {type(self).__name__} scoring: {type(error).__name__}: {error}") from error
