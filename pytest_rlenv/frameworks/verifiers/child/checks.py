"""What needs no model: a task's gold check, the score of the untouched task, the score of a given answer."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.runtimes import provision_runtime
from verifiers.v1.state import state_cls
from verifiers.v1.utils.compile import resolve_runtime_config
from verifiers.v1.utils.decorators import invoke

from .failing import StageFailed, Stages
from .runtimes import runtime_of
from .tasksets import task_of
from .telling import leave_record, told

Request = dict[str, Any]
Act = Callable[[Any, Any, Any, Stages], Awaitable[dict[str, Any]]]

RECORD = "trace.json"
_NUMPY_BOOLS = ("bool", "bool_")
"""What comparisons of arrays give is no ``bool``."""


def gold(request: Request) -> dict[str, Any]:
    """Ask the task to check its own reference answer."""
    return _run(request, _gold)


def noop(request: Request) -> dict[str, Any]:
    """Score the task as it is before anybody has acted."""
    return _run(request, _score)


def answer(request: Request) -> dict[str, Any]:
    """Score the task as if the model had said ``text``."""

    async def act(task: Any, trace: Any, runtime: Any, stages: Stages) -> dict[str, Any]:
        _say(task, trace, request["text"])
        return await _score(task, trace, runtime, stages)

    return _run(request, act)


async def _gold(task: Any, trace: Any, runtime: Any, stages: Stages) -> dict[str, Any]:
    if type(task).validate is vf.Task.validate:
        return {"valid": None, "task": type(task).__name__}
    # by names: what a later version gives to it beside the runtime need not be asked for
    valid = await stages.run(
        "validate", invoke(task.validate, {"trace": trace, "runtime": runtime}), "scoring"
    )
    if type(valid).__name__ in _NUMPY_BOOLS and hasattr(valid, "item"):
        valid = valid.item()
    return {"valid": valid, "task": type(task).__name__}


async def _score(task: Any, trace: Any, runtime: Any, stages: Stages) -> dict[str, Any]:
    await stages.run("finalize", invoke(task.finalize, {"trace": trace, "runtime": runtime}))
    await stages.run("scoring", task.score(trace, runtime))
    return {}


def _say(task: Any, trace: Any, text: str) -> None:
    """Have the model say something: a turn after the prompt, as if it had been called."""
    from verifiers.v1 import graph

    prompt: list[Any] = []
    data = task.data
    if data.system_prompt:
        prompt.append(vf.SystemMessage(content=data.system_prompt))
    prompt += (
        [vf.UserMessage(content=data.prompt)] if isinstance(data.prompt, str) else list(data.prompt or ())
    )
    response = vf.Response(
        id=uuid.uuid4().hex,
        created=int(time.time()),
        model="none",
        message=vf.AssistantMessage(content=text),
        finish_reason="stop",
    )
    graph.prepare_turn(trace, prompt).commit(response)


def _run(request: Request, act: Act) -> dict[str, Any]:
    return asyncio.run(_in_runtime(request, act))


async def _in_runtime(request: Request, act: Act) -> dict[str, Any]:
    stages = Stages(request["limits"])
    try:
        task = task_of(request)
        runtime_config = runtime_of(task, trusted=request["trusted"])
        trace = vf.Trace(
            task=vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
            state=state_cls(type(task))(),
            agent=vf.AgentInfo(
                config=vf.AgentConfig(runtime=runtime_config), name=request["agent"], trainable=False
            ),
        )
        box = provision_runtime(resolve_runtime_config(runtime_config, task), env=task.runtime_env())
    except Exception as error:
        raise StageFailed("load", error) from error
    runtime = await stages.run("boot", box.__aenter__(), "setup")
    try:
        await stages.run("setup", invoke(task.setup, {"trace": trace, "runtime": runtime}))
        found = await act(task, trace, runtime, stages)
    finally:
        await box.__aexit__(None, None, None)
    trace.ok = True  # nothing was raised; only a rollout would say so itself
    leave_record(trace, request["folder"], RECORD)
    judged = {**told(trace), "seconds": stages.seconds}
    return {**found, "runtime": runtime_config.type, "ok": True, "errors": [], "traces": [judged]}
