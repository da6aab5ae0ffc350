"""Episodes: a harness of one turn or several that asks the model as Verifiers' ``null`` harness does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
import traceback
import urllib.error
import urllib.request
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from .errors import EnvError, ProviderError, RolloutError, TaskError
from .runtimes import DockerConfig, SubprocessConfig, provision_runtime
from .taskset import TasksetConfig
from .trace import (
    AgentInfo,
    AssistantMessage,
    Error,
    MessageNode,
    ModelCall,
    SystemMessage,
    Trace,
    TraceTask,
    Usage,
    UserMessage,
)
from .utils.compile import resolve_runtime_config
from .utils.decorators import invoke


class HarnessConfig(BaseModel):
    id: str = "bash"


class Harness:
    NEEDS_CONTAINER: ClassVar[bool] = False

    def __init__(self, config) -> None:
        self.config = config


class Timeout(BaseModel):
    setup: float | None = None
    rollout: float | None = None
    finalize: float | None = None
    scoring: float | None = None


class AgentConfig(BaseModel):
    harness: HarnessConfig | None = None
    runtime: SubprocessConfig | DockerConfig | None = Field(None, discriminator="type")
    max_turns: int | None = None
    timeout: Timeout = Timeout()


class EpisodeTimeout(BaseModel):
    episode: float | None = None
    finalize: float | None = None


class EnvConfig(BaseModel):
    taskset: Any = TasksetConfig()
    timeout: EpisodeTimeout = EpisodeTimeout()


class SingleAgentEnvConfig(EnvConfig):
    agent: AgentConfig = AgentConfig()


class EvalClientConfig(BaseModel):
    base_url: str
    api_key_var: str


class SamplingConfig(BaseModel):
    model_config = {"extra": "allow"}


class ModelContext:
    def __init__(self, model, client, sampling) -> None:
        self.model, self.client, self.sampling = model, client, sampling


class Episode(BaseModel):
    task: TraceTask
    ok: bool = False
    is_timeout: bool = False
    errors: list[Error] = []
    traces: list[Trace] = []

    def to_record(self) -> dict:
        return self.model_dump(mode="json", exclude_none=True)


class Slot:
    def __init__(self, task) -> None:
        self.task = task


def _error(error: BaseException) -> Error:
    return Error(
        type=type(error).__name__,
        message=str(error),
        status_code=getattr(error, "status_code", None),
        traceback="".join(traceback.format_exception(type(error), error, error.__traceback__)),
    )


class _Agent:
    def __init__(self, seat, play) -> None:
        self._seat, self._play = seat, play

    async def run(self, task) -> Trace:
        return await self._play(task, self._seat)


class _Agents:
    def __init__(self, play) -> None:
        self._play = play

    def __getattr__(self, seat: str) -> _Agent:
        return _Agent(seat, self._play)


class Env:
    config_type: ClassVar[type[EnvConfig]] = SingleAgentEnvConfig

    def __class_getitem__(cls, config):
        """Take ``Env[MyConfig]`` as Verifiers does."""
        return type(cls.__name__, (cls,), {"config_type": config})

    def __init__(self, config, taskset) -> None:
        self.config, self.taskset = config, taskset

    @contextlib.asynccontextmanager
    async def serving(self):
        yield

    def slots(self, task):
        return [Slot(task)]

    async def run(self, task, agents) -> None:
        raise NotImplementedError

    async def run_slot(self, slot, context) -> Episode:
        task = slot.task
        episode = Episode(
            task=TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        )

        async def play(played, seat: str) -> Trace:
            trace = await _rollout(played, seat, getattr(self.config, seat), context)
            episode.traces.append(trace)
            return trace

        try:
            await asyncio.wait_for(self.run(task, _Agents(play)), self.config.timeout.episode)
        except asyncio.TimeoutError:
            episode.is_timeout = True
            error = TimeoutError(
                f"{type(self).__name__}.run() exceeded its {self.config.timeout.episode:g}s deadline"
            )
            episode.errors.append(_error(error))
            return episode
        except Exception as error:
            raised = (
                error if isinstance(error, RolloutError) else EnvError(f"{type(error).__name__}: {error}")
            )
            episode.errors.append(_error(raised))
            return episode
        episode.ok = bool(episode.traces) and all(trace.ok for trace in episode.traces)
        return episode


class SingleAgentEnv(Env):
    async def run(self, task, agents) -> None:
        await agents.agent.run(task)


async def _rollout(task, seat, config, context) -> Trace:
    """One agent's run, with the endings that Verifiers' has."""
    trace = Trace(
        task=TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
        agent=AgentInfo(config=config.model_dump(), name=seat),
    )
    limits = config.timeout
    async with provision_runtime(
        resolve_runtime_config(config.runtime, task), env=task.runtime_env()
    ) as runtime:
        available = {"trace": trace, "runtime": runtime}
        try:
            if task.data.prompt is None:
                raise TaskError("the task has no prompt")
            done = await _within(trace, "setup", invoke(task.setup, available), limits.setup)
            if done:
                await _within(trace, "agent", _converse(task, trace, config, context), limits.rollout)
            await _within(trace, "finalize", invoke(task.finalize, available), limits.finalize)
            await _within(trace, "scoring", task.score(trace, runtime), limits.scoring)
            trace.ok = True
        except Exception as error:
            known = (
                error if isinstance(error, RolloutError) else TaskError(f"{type(error).__name__}: {error}")
            )
            trace.errors.append(_error(known))
            names = {"TaskError": "task_error", "ProviderError": "provider_error"}
            trace.stop_condition = trace.stop_condition or names.get(type(known).__name__, "error")
    return trace


async def _within(trace, stage: str, work, limit) -> bool:
    span = getattr(trace.timing, stage)
    span.start = time.time()
    try:
        await asyncio.wait_for(work, limit)
    except asyncio.TimeoutError:
        trace.stop_condition = f"{stage}_timeout"
        return False
    finally:
        span.end = time.time()
    return True


async def _converse(task, trace, config, context) -> None:
    """Ask the model until it calls no tool any more; what it calls is answered with the call's arguments."""
    data = task.data
    prompt = [UserMessage(content=data.prompt)] if isinstance(data.prompt, str) else []
    prompt = [SystemMessage(content=data.system_prompt), *prompt] if data.system_prompt else prompt
    for message in prompt:
        trace.nodes.append(MessageNode(parent=len(trace.nodes) - 1 if trace.nodes else None, message=message))
    while True:
        if config.max_turns is not None and trace.num_turns >= config.max_turns:
            trace.stop_condition = "max_turns"
            return
        for name, stop in task.plugged_stops().items():
            if await stop(trace):
                trace.stop_condition = name
                return
        reply = await asyncio.get_running_loop().run_in_executor(None, _ask, trace, context)
        message = reply["choices"][0]["message"]
        said = AssistantMessage(content=message.get("content"))
        trace.nodes.append(MessageNode(parent=len(trace.nodes) - 1, message=said, sampled=True))
        usage = reply.get("usage") or {"prompt_tokens": 0, "completion_tokens": 0}
        trace.calls.append(
            ModelCall(
                node=len(trace.nodes) - 1,
                model=context.model,
                usage=Usage(
                    prompt_tokens=usage["prompt_tokens"], completion_tokens=usage["completion_tokens"]
                ),
            )
        )
        if not message.get("tool_calls"):
            trace.stop_condition = "agent_completed"
            return
        trace.nodes.append(MessageNode(parent=len(trace.nodes) - 1, message=UserMessage(content="go on")))


def _ask(trace, context) -> dict:
    body = {
        "model": context.model,
        "messages": [node.message.model_dump(exclude_none=True) for node in trace.nodes],
    }
    request = urllib.request.Request(
        f"{context.client.base_url}/chat/completions",
        data=json.dumps(body).encode(),
        headers={
            "Content-Type": "application/json",
            "Authorization": f"Bearer {os.environ.get(context.client.api_key_var, 'EMPTY')}",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            raise ProviderError(error.read().decode()[:500], status_code=error.code) from error
    except OSError as error:
        raise ProviderError(str(error), status_code=503) from error
