"""What an image says about how it wants to be run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

_SECOND = 1_000_000_000
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class HealthCheck:
    """An image's HEALTHCHECK; times in seconds, with Docker's defaults."""

    argv: tuple[str, ...]
    interval: float = 30.0
    timeout: float = 30.0
    start_period: float = 0.0
    retries: int = 3

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> HealthCheck | None:
        """Read an engine's description; ``None`` for none, and for one that is switched off."""
        test = list(described.get("Test") or [])
        if len(test) < 2 or test[0] not in ("CMD", "CMD-SHELL"):
            return None

        def seconds(name: str, default: float) -> float:
            return float(described[name]) / _SECOND if described.get(name) else default

        return cls(
            argv=("/bin/sh", "-c", test[1]) if test[0] == "CMD-SHELL" else tuple(test[1:]),
            interval=seconds("Interval", cls.interval),
            timeout=seconds("Timeout", cls.timeout),
            start_period=seconds("StartPeriod", cls.start_period),
            retries=int(described.get("Retries") or cls.retries),
        )


@dataclass(frozen=True)
class ImageConfig:
    """The part of an image's description that a box follows."""

    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = ""
    entrypoint: tuple[str, ...] = ()
    healthcheck: HealthCheck | None = None

    @classmethod
    def of(cls, inspected: Mapping[str, Any]) -> ImageConfig:
        """Read an engine's description of an image."""
        config = inspected.get("Config") or {}
        pairs = [each.partition("=") for each in config.get("Env") or []]
        return cls(
            env={name: value for name, _, value in pairs},
            workdir=config.get("WorkingDir") or "/",
            user=config.get("User") or "",
            entrypoint=tuple(config.get("Entrypoint") or ()),
            healthcheck=HealthCheck.of(config.get("Healthcheck") or {}),
        )

    def as_json(self) -> dict[str, Any]:
        """Return the form that is stored beside an extracted image."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> ImageConfig:
        """Read what :meth:`as_json` gave."""
        check = stored["healthcheck"]
        if check:
            check = HealthCheck(**{**check, "argv": tuple(check["argv"])})
        return cls(
            env=dict(stored["env"]),
            workdir=stored["workdir"],
            user=stored["user"],
            entrypoint=tuple(stored["entrypoint"]),
            healthcheck=check,
        )
