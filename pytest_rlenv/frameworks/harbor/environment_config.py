"""The ``[environment]`` table of a ``task.toml``, which a separate verifier may have too."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, ClassVar

from pydantic import BaseModel, Field, field_validator, model_validator

from pytest_rlenv.frameworks.harbor.limits import (
    CheckLimit,
    Count,
    Mebibytes,
    Pause,
    Processors,
    TimeLimit,
    size_to_mebibytes,
)
from pytest_rlenv.frameworks.harbor.mcp import McpServer
from pytest_rlenv.frameworks.harbor.network import NetworkMode, check_policy, normalize_host

_TOPOLOGY = re.compile(r"[1-9]\d*(x[1-9]\d*)+")


class TaskOs(str, Enum):
    """The operating system of a task's container."""

    LINUX = "linux"
    WINDOWS = "windows"


class HealthcheckConfig(BaseModel):
    """A command that says when the environment is ready."""

    command: str
    interval_sec: Pause = 5.0
    timeout_sec: CheckLimit = 30.0
    start_period_sec: Pause = 0.0
    start_interval_sec: Pause = 5.0
    retries: int = 3

    @property
    def limit(self) -> float | None:
        """Seconds for one check; Harbor drops the fraction and takes 0 as no limit."""
        return float(int(self.timeout_sec)) or None


class TpuSpec(BaseModel):
    """A slice of TPUs."""

    type: str = Field(min_length=1)
    topology: str

    @field_validator("topology")
    @classmethod
    def _check_topology(cls, value: str) -> str:
        if not _TOPOLOGY.fullmatch(value.strip()):
            raise ValueError('expected dimensions such as "2x4" or "2x2x1"')
        return value.strip()


class EnvironmentConfig(BaseModel):
    """How the task's container is made and what it may use. Limits of ``None`` are no limit."""

    DEPRECATED: ClassVar[dict[str, str]] = {
        "memory": "memory_mb",
        "storage": "storage_mb",
        "allow_internet": "network_mode",
    }

    build_timeout_sec: TimeLimit = 600.0
    docker_image: str | None = None
    os: TaskOs = TaskOs.LINUX
    cpus: Processors = None
    memory_mb: Mebibytes = None
    storage_mb: Mebibytes = None
    gpus: Count = None
    gpu_types: list[str] | None = None
    tpu: TpuSpec | None = None
    mcp_servers: list[McpServer] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    skills_dir: str | None = None
    healthcheck: HealthcheckConfig | None = None
    workdir: str | None = None
    network_mode: NetworkMode = NetworkMode.PUBLIC
    allowed_hosts: list[str] | None = None
    allow_internet: bool | None = Field(default=None, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _deprecated_sizes(cls, data: Any) -> Any:
        """Read ``memory`` and ``storage``; like Harbor, drop what is not a string (a warning says so)."""
        if not isinstance(data, dict):
            return data
        data = dict(data)
        for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
            size = data.pop(old, None)
            if isinstance(size, str):
                mebibytes = _mebibytes(old, size)
                if data.setdefault(new, mebibytes) != mebibytes:
                    raise ValueError(f"{old} = {size!r} and {new} = {data[new]!r} disagree")
        return data

    @field_validator("os", mode="before")
    @classmethod
    def _lower_case(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @field_validator("allowed_hosts")
    @classmethod
    def _normalize_hosts(cls, hosts: list[str] | None) -> list[str] | None:
        return None if hosts is None else [normalize_host(host) for host in hosts]

    @model_validator(mode="after")
    def _network(self) -> EnvironmentConfig:
        check_policy(self.network_mode, self.allowed_hosts)
        stated = "network_mode" in self.model_fields_set or self.allowed_hosts is not None
        if self.allow_internet is not None and not stated:
            self.network_mode = NetworkMode.PUBLIC if self.allow_internet else NetworkMode.NO_NETWORK
        return self


def _mebibytes(field: str, size: str) -> int:
    try:
        return size_to_mebibytes(size)
    except ValueError as error:
        raise ValueError(f"{field} = {error}") from None
