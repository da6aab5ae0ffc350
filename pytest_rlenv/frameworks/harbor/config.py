"""``task.toml``, schema 1.0 to 1.4, with the coercions and rejections of Harbor 0.26.

Stricter than Harbor in one point only: numbers with which Harbor's behaviour is meaningless are refused
(see ``limits.py``). What Harbor drops without a word (unknown and deprecated fields) gives a warning.
"""

from __future__ import annotations

import math
import re
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from pytest_rlenv.frameworks.harbor.artifacts import Artifact, CollectHook
from pytest_rlenv.frameworks.harbor.config_findings import config_warnings, invalid_config, newer_schema
from pytest_rlenv.frameworks.harbor.config_text import parse_toml
from pytest_rlenv.frameworks.harbor.environment_config import EnvironmentConfig, HealthcheckConfig
from pytest_rlenv.frameworks.harbor.limits import TimeLimit
from pytest_rlenv.frameworks.harbor.network import NetworkMode, check_policy, normalize_host
from pytest_rlenv.frameworks.harbor.rlenv_metadata import RlenvMetadata
from pytest_rlenv.frameworks.harbor.step_names import check_step_name, step_name_key

__all__ = ["EnvironmentConfig", "HealthcheckConfig", "RlenvMetadata", "TaskConfig", "parse_config"]

SCHEMA_VERSION = "1.4"
"""The latest version of the schema that is known here."""

_PACKAGE_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*")


class Author(BaseModel):
    """Who wrote a task."""

    name: str
    email: str | None = None


class PackageInfo(BaseModel):
    """The ``[task]`` table: the task's identity as a package."""

    name: str
    version: str | None = Field(default=None, min_length=1)
    description: str = ""
    authors: list[Author] = Field(default_factory=list)
    keywords: list[str] = Field(default_factory=list)

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        if not _PACKAGE_NAME.fullmatch(value) or ".." in value:
            raise ValueError('expected "org/name" of letters, digits, ".", "_" and "-"')
        return value


class SolutionConfig(BaseModel):
    """The ``[solution]`` table: for the reference solution only."""

    env: dict[str, str] = Field(default_factory=dict)


class PhaseConfig(BaseModel):
    """Fields that the agent's and the verifier's table share."""

    user: str | int | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] | None = None

    @field_validator("allowed_hosts")
    @classmethod
    def _normalize_hosts(cls, hosts: list[str] | None) -> list[str] | None:
        return None if hosts is None else [normalize_host(host) for host in hosts]

    @model_validator(mode="after")
    def _check_policy(self) -> PhaseConfig:
        check_policy(self.network_mode, self.allowed_hosts)
        return self


class AgentConfig(PhaseConfig):
    """The ``[agent]`` table."""

    timeout_sec: TimeLimit = None


class VerifierMode(str, Enum):
    """Where the verifier runs."""

    SHARED = "shared"
    SEPARATE = "separate"


class VerifierConfig(PhaseConfig):
    """The ``[verifier]`` table."""

    timeout_sec: TimeLimit = 600.0
    env: dict[str, str] = Field(default_factory=dict)
    environment_mode: VerifierMode | None = None
    environment: EnvironmentConfig | None = None
    collect: list[CollectHook] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_mode(self) -> VerifierConfig:
        if self.environment_mode is VerifierMode.SHARED and self.environment is not None:
            raise ValueError('environment_mode = "shared" excludes a table [verifier.environment]')
        return self

    @property
    def own_mode(self) -> VerifierMode | None:
        """What this table says of the mode, in so many words or by having an environment."""
        implied = VerifierMode.SEPARATE if self.environment is not None else None
        return self.environment_mode or implied


class StepConfig(BaseModel):
    """One entry of ``[[steps]]``."""

    name: str
    agent: AgentConfig = Field(default_factory=AgentConfig)
    verifier: VerifierConfig = Field(default_factory=VerifierConfig)
    min_reward: float | dict[str, float] | None = None
    healthcheck: HealthcheckConfig | None = None
    artifacts: list[Artifact] = Field(default_factory=list)

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        return check_step_name(value)

    @field_validator("min_reward")
    @classmethod
    def _check_min_reward(cls, value: float | dict[str, float] | None) -> float | dict[str, float] | None:
        for least in value.values() if isinstance(value, dict) else [value or 0.0]:
            if math.isnan(least):
                raise ValueError("expected a number")
        return value


class StepRewards(str, Enum):
    """How the rewards of a task's steps become its reward; the mean where nothing is said."""

    MEAN = "mean"
    FINAL = "final"


class TaskConfig(BaseModel):
    """A whole ``task.toml``."""

    DEPRECATED: ClassVar[dict[str, str]] = {"version": "schema_version"}

    schema_version: str = SCHEMA_VERSION
    task: PackageInfo | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    verifier: VerifierConfig = Field(default_factory=VerifierConfig)
    agent: AgentConfig = Field(default_factory=AgentConfig)
    environment: EnvironmentConfig = Field(default_factory=EnvironmentConfig)
    solution: SolutionConfig = Field(default_factory=SolutionConfig)
    source: str | None = None
    multi_step_reward_strategy: StepRewards | None = None
    steps: list[StepConfig] | None = None
    artifacts: list[Artifact] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _deprecated_version(cls, data: Any) -> Any:
        if isinstance(data, dict) and "version" in data:
            return {"schema_version": data["version"], **data}
        return data

    @field_validator("steps")
    @classmethod
    def _unique_names(cls, steps: list[StepConfig] | None) -> list[StepConfig] | None:
        seen: set[str] = set()
        for step in steps or []:
            if step_name_key(step.name) in seen:
                raise ValueError(f"two steps are called {step.name!r} (letter case does not count)")
            seen.add(step_name_key(step.name))
        return steps

    @property
    def rlenv(self) -> RlenvMetadata:
        """Our own optional table ``[metadata.rlenv]``."""
        return RlenvMetadata.model_validate(self.metadata.get("rlenv", {}))

    def verifier_mode(self, step: StepConfig | None = None) -> VerifierMode:
        """Return where the verifier of the task, or of one step, runs."""
        of_step = step.verifier.own_mode if step else None
        return of_step or self.verifier.own_mode or VerifierMode.SHARED


def parse_config(text: bytes | str, path: Path | str) -> tuple[TaskConfig, list[str]]:
    """Return the configuration in a ``task.toml`` and one warning for each field that is ignored or old.

    Args:
        text: the file's content.
        path: the file's name for messages.

    Raises:
        TaskInvalid: not TOML, or fields that Harbor rejects; names file, fields, values and what is expected.
    """
    raw = parse_toml(text, path)
    try:
        config = TaskConfig.model_validate(raw)
    except ValidationError as error:
        raise invalid_config(error, raw, path) from None
    own = config.metadata.get("rlenv", {})
    try:
        RlenvMetadata.model_validate(own)
    except ValidationError as error:
        raise invalid_config(error, own, path, prefix=("metadata", "rlenv")) from None
    findings = config_warnings(raw, TaskConfig) + config_warnings(own, RlenvMetadata, "metadata.rlenv")
    findings += newer_schema(config.schema_version, SCHEMA_VERSION)
    return config, [f"{path}: {finding}" for finding in findings]
