"""A model plays a task: an episode of the taskset's environment, as Verifiers runs it."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import verifiers.v1 as vf

from .budgets import with_budgets
from .failing import StageFailed
from .runtimes import runtime_of
from .tasksets import task_of
from .telling import errors_of, leave_record, told

Request = dict[str, Any]

KEY = "RLENV_MODEL_API_KEY"
"""Verifiers keeps variables of such a name from what runs in a task's process."""
RECORD = "episode.json"
_SEVERAL = 4
"""Times the limits of one agent's that an environment of its own has for an episode."""


def run(request: Request) -> dict[str, Any]:
    """Play one episode.

    Args:
        request: ``model`` has the endpoint's address, key and the model's name; ``limits`` the seconds of
            each stage; ``budgets`` is true if the endpoint holds some; ``harness``, ``seat`` and
            ``max_turns`` may be ``None``.
    """
    os.environ[KEY] = request["model"]["key"]
    try:
        return asyncio.run(_run(request))
    finally:
        os.environ.pop(KEY, None)


async def _run(request: Request) -> dict[str, Any]:
    try:
        task = task_of(request)
        if request["budgets"]:
            task = with_budgets(task, request["model"]["url"], request["model"]["key"])
        seats = _seats(request["taskset"])
        chosen = request["seat"] or (seats[0] if seats else "")
        if chosen not in seats:
            raise ValueError(f"there is no seat {chosen!r}: the environment has {', '.join(seats) or 'none'}")
        config, runtime = _config(request, task, seats, chosen)
        env = vf.load_environment(config)
        client = vf.EvalClientConfig(base_url=request["model"]["url"], api_key_var=KEY)
        context = vf.ModelContext(
            model=request["model"]["name"], client=client, sampling=vf.SamplingConfig(**request["sampling"])
        )
    except Exception as error:
        raise StageFailed("load", error) from error
    async with env.serving():
        episode = await env.run_slot(env.slots(task)[0], context)
    leave_record(episode, request["folder"], RECORD)
    return {
        "runtime": runtime,
        "seat": chosen,
        "ok": episode.ok,
        "timed_out": episode.is_timeout,
        "errors": errors_of(episode),
        "traces": [told(trace) for trace in episode.traces],
    }


def _seats(taskset: str) -> list[str]:
    fields = vf.env_config_type(taskset).model_fields
    return [name for name, field in fields.items() if isinstance(field.default, vf.AgentConfig)]


def _config(request: Request, task: Any, seats: list[str], chosen: str) -> tuple[Any, str]:
    """Return the environment's configuration, with runtime and limits at each seat, and that runtime."""
    limits, harness = request["limits"], request["harness"]
    runtime = runtime_of(task, trusted=request["trusted"], harness=harness)
    stages = {"setup": "setup", "rollout": "agent", "finalize": "finalize", "scoring": "scoring"}
    seat: dict[str, Any] = {
        "runtime": {"type": runtime.type},
        "timeout": {name: limits[stage] for name, stage in stages.items()},
    }
    several = vf.env_config_type(request["taskset"]) is not vf.SingleAgentEnvConfig
    whole: dict[str, Any] = {
        "taskset": {**request["options"], "id": request["taskset"]},
        "timeout": {
            "episode": sum(limits.values()) * (_SEVERAL if several else 1),
            "finalize": limits["finalize"],
        },
        **{name: dict(seat) for name in seats},
    }
    if harness is not None:
        whole[chosen]["harness"] = {"id": harness}
    if request["max_turns"] is not None:
        whole[chosen]["max_turns"] = request["max_turns"]
    return vf.resolve_env_config(whole), runtime.type
