"""Artifacts that a ``task.toml`` declares: container paths to keep, or to hand to a separate verifier."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from pydantic import BaseModel, Field, field_validator, model_validator

from pytest_rlenv.frameworks.harbor.limits import CheckLimit

MAIN_SERVICE = "main"
_SERVICE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[/\\]")


def check_service(name: str) -> str:
    """Return a Docker Compose service name without white space around it.

    Raises:
        ValueError: it is not one.
    """
    name = name.strip()
    if not _SERVICE.fullmatch(name):
        raise ValueError(f"{name!r} is not a Docker Compose service name")
    return name


class Artifact(BaseModel):
    """One declared artifact; a plain string in the file is its ``source``."""

    source: str
    destination: str | None = None
    exclude: list[str] = Field(default_factory=list)
    service: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_string(cls, data: Any) -> Any:
        if not isinstance(data, (str, Mapping, Artifact)):
            raise ValueError("expected a path or a table")
        return {"source": data} if isinstance(data, str) else data

    @field_validator("service")
    @classmethod
    def _check_service(cls, value: str | None) -> str | None:
        return None if value is None else check_service(value)

    @field_validator("source")
    @classmethod
    def _check_source(cls, value: str) -> str:
        if ".." in PurePosixPath(value).parts:
            raise ValueError("expected a path without '..'")
        return value

    @field_validator("destination")
    @classmethod
    def _check_destination(cls, value: str | None) -> str | None:
        if not value:
            return None
        path = PurePosixPath(value)
        if "\\" in value:
            raise ValueError("expected '/' between the parts of the path, not '\\'")
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise ValueError("expected a relative path without '..' that names a file or folder")
        if value.rstrip("/") == "manifest.json":
            raise ValueError("'manifest.json' is reserved for the list of what was collected")
        return value

    @model_validator(mode="after")
    def _sidecar_source(self) -> Artifact:
        if self.service not in (None, MAIN_SERVICE) and not _ABSOLUTE.match(self.source):
            raise ValueError(f"source {self.source!r} of service {self.service!r} must be absolute")
        return self


class CollectHook(BaseModel):
    """A command that runs after the agent and before artifacts are collected."""

    command: str
    service: str = MAIN_SERVICE
    timeout_sec: CheckLimit = 60.0
    user: str | int | None = None

    @property
    def limit(self) -> float | None:
        """Seconds that it may take; Harbor drops the fraction and takes 0 as no limit."""
        return float(int(self.timeout_sec)) or None

    @field_validator("service")
    @classmethod
    def _check_service(cls, value: str) -> str:
        return check_service(value)
