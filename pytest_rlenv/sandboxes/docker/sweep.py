"""Removes boxes that are left over from runs that are dead."""

from __future__ import annotations

import json
import time
from typing import Any

from pytest_rlenv.sandboxes.docker import labels
from pytest_rlenv.sandboxes.docker.client import Engine, shared_engine
from pytest_rlenv.sandboxes.docker.failures import refusals_as_errors
from pytest_rlenv.sandboxes.docker.removal import remove_container


def sweep_stale(*, engine: Engine | None = None) -> int:
    """Remove boxes whose time is up, or whose owner was a process of this machine that is gone.

    Boxes of other machines' runs on the same engine are left alone until their time is up.

    Raises:
        EngineUnavailable: there is no engine to ask.
    """
    engine = engine or shared_engine()
    now = time.time()
    found = _containers(engine, [f"{labels.OURS}=1", labels.DEADLINE])
    return _remove(engine, [each["Id"] for each in found if labels.is_stale(each.get("Labels") or {}, now)])


def _containers(engine: Engine, wanted: list[str]) -> list[dict[str, Any]]:
    with refusals_as_errors():
        found: list[dict[str, Any]] = engine.get(
            "/containers/json",
            params={"all": 1, "filters": json.dumps({"label": wanted})},
            doing="look for boxes that are left over",
        )
    return found


def _remove(engine: Engine, containers: list[str]) -> int:
    return sum(not remove_container(engine, container) for container in containers)
