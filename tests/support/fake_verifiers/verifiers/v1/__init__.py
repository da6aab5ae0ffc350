from __future__ import annotations

import importlib
import importlib.util

from .env import (
    AgentConfig,
    Env,
    EnvConfig,
    Episode,
    EvalClientConfig,
    Harness,
    HarnessConfig,
    ModelContext,
    SamplingConfig,
    SingleAgentEnv,
    SingleAgentEnvConfig,
)
from .errors import EnvError, HarnessError, ProviderError, RolloutError, SandboxError, TaskError
from .runtimes import DockerConfig, SubprocessConfig
from .task import Task, TaskConfig, TaskData, TaskTimeout, metric, reward
from .taskset import Taskset, TasksetConfig
from .trace import AgentInfo, AssistantMessage, Response, SystemMessage, Trace, TraceTask, UserMessage

__all__ = [
    "AgentConfig",
    "AgentInfo",
    "AssistantMessage",
    "DockerConfig",
    "Env",
    "EnvConfig",
    "EnvError",
    "Episode",
    "EvalClientConfig",
    "Harness",
    "HarnessConfig",
    "HarnessError",
    "ModelContext",
    "ProviderError",
    "Response",
    "RolloutError",
    "SamplingConfig",
    "SandboxError",
    "SingleAgentEnv",
    "SingleAgentEnvConfig",
    "SubprocessConfig",
    "SystemMessage",
    "Task",
    "TaskConfig",
    "TaskData",
    "TaskError",
    "TaskTimeout",
    "Taskset",
    "TasksetConfig",
    "Trace",
    "TraceTask",
    "UserMessage",
    "metric",
    "reward",
]


def _module(name: str):
    module = name.rsplit("/", 1)[-1].split("@", 1)[0].replace("-", "_").lower()
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"taskset {name!r} not found (tried to import {module!r})") from error


def _exported(name: str, base: type):
    module = _module(name)
    names = getattr(module, "__all__", None)
    if names is None:
        raise AttributeError(f"taskset module {module.__name__!r} defines no `__all__`")
    found = [
        each
        for each in (getattr(module, name) for name in names)
        if isinstance(each, type) and issubclass(each, base) and each is not base
    ]
    if len(found) != 1:
        raise TypeError(
            f"taskset module {module.__name__!r} exports no {base.__name__} subclass via `__all__`"
        )
    return found[0]


def _taskset_class(name: str):
    return _exported(name, Taskset)


def taskset_config_type(name: str):
    return _taskset_class(name).config_type


def task_type(name: str):
    return _taskset_class(name).task_class


def load_taskset(config):
    return _taskset_class(config.id)(config)


def _env_class(name: str):
    try:
        return _exported(name, Env)
    except (ModuleNotFoundError, TypeError, AttributeError):
        return SingleAgentEnv


def env_config_type(name: str):
    return _env_class(name).config_type


def resolve_env_config(data: dict):
    name = data["taskset"]["id"]
    taskset = taskset_config_type(name).model_validate(data["taskset"])
    return env_config_type(name).model_validate({**data, "taskset": taskset})


def load_environment(config):
    return _env_class(config.taskset.id)(config, load_taskset(config.taskset))


def harness_config_type(name: str):
    return HarnessConfig


def load_harness(config):
    return Harness(config)
