"""Waits for an image's own HEALTHCHECK, as ``docker compose up --wait`` does."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pytest_rlenv.errors import BoxUnfit, Stage
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.postmortem import ImageFacts, cause_of_death, inspect

HEALTH_LIMIT = 120.0
"""Seconds that an image has to become healthy, when its own start period and retries do not need longer."""

_POLL = 0.1
_OUTPUT_CAP = 2000


def wait_healthy(engine: Engine, container: str, image: ImageFacts) -> None:
    """Return when the container is healthy.

    Raises:
        BoxUnfit: it is unhealthy, or not healthy in time. EntrypointExited: it ended.
    """
    begin = time.monotonic()
    limit = HEALTH_LIMIT
    while True:
        found = inspect(engine, container)
        health = (found or {}).get("State", {}).get("Health") or {}
        status = health.get("Status", "")
        dead = cause_of_death(engine, container, image, stage=Stage.HEALTHCHECK)
        if dead:
            raise dead
        if status == "healthy":
            return
        if status == "unhealthy":
            raise _unhealthy("the image's HEALTHCHECK failed", health)
        limit = max(limit, _own_limit(found or {}))
        if time.monotonic() - begin > limit:
            raise _unhealthy(f"the image's HEALTHCHECK did not succeed within {limit:g} s", health)
        time.sleep(_POLL)


def _own_limit(found: dict[str, Any]) -> float:
    """Return how long the check itself may take until it gives up, in seconds."""
    check = found.get("Config", {}).get("Healthcheck") or {}
    second = 1_000_000_000
    interval = (check.get("Interval") or 30 * second) / second
    timeout = (check.get("Timeout") or 30 * second) / second
    start = (check.get("StartPeriod") or 0) / second
    return float(start + (check.get("Retries") or 3) * (interval + timeout))


def probe_results(health: Mapping[str, Any]) -> list[str]:
    """Return the last results of a health check, one line or more each."""
    probes = health.get("Log") or []
    return [
        f"exit code {p.get('ExitCode')}: {str(p.get('Output', '')).strip()[:_OUTPUT_CAP]}" for p in probes
    ]


def _unhealthy(message: str, health: dict[str, Any]) -> BoxUnfit:
    return BoxUnfit(
        message,
        hint="its last results are below; it runs in the box as the image's user",
        detail="\n".join(probe_results(health)),
        stage=Stage.HEALTHCHECK,
    )
