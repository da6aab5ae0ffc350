"""Removes what is left over from runs that are dead: boxes, and the networks and volumes of services."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_rlenv.sandboxes.docker import labels
from pytest_rlenv.sandboxes.docker.client import Engine, shared_engine
from pytest_rlenv.sandboxes.docker.failures import refusals_as_errors
from pytest_rlenv.sandboxes.docker.removal import delete, remove_container
from pytest_rlenv.sandboxes.leftovers import NETWORK, VOLUME


def sweep_stale(*, engine: Engine | None = None) -> int:
    """Remove boxes whose time is up, or whose owner was a process of this machine that is gone.

    Boxes of other machines' runs on the same engine are left alone until their time is up.

    Raises:
        EngineUnavailable: there is no engine to ask.
    """
    engine = engine or shared_engine()
    with refusals_as_errors():
        containers = stale_containers(engine)
        removed = sum(not remove_container(engine, each["Id"]) for each in containers)
        for _, _, path in stale_surroundings(engine):
            delete(engine, path)
    return removed


def stale_containers(
    engine: Engine, wanted: Sequence[str] = (f"{labels.OURS}=1",), *, sizes: bool = False
) -> list[dict[str, Any]]:
    """Return the engine's description of the boxes that :func:`sweep_stale` removes.

    Args:
        engine: whose.
        wanted: labels that a box must have.
        sizes: have the engine add up what each has written, which takes it a while.
    """
    now = time.time()
    found: list[dict[str, Any]] = engine.get(
        "/containers/json",
        params={
            "all": 1,
            "size": int(sizes),
            "filters": json.dumps({"label": [*wanted, labels.DEADLINE]}),
        },
        doing="look for boxes that are left over",
    )
    return [each for each in found if labels.is_stale(each.get("Labels") or {}, now)]


def stale_surroundings(
    engine: Engine, wanted: Sequence[str] = (f"{labels.OURS}=1",)
) -> Iterator[tuple[str, str, str]]:
    """Yield the networks and volumes that :func:`sweep_stale` removes: kind, name, and the engine's path.

    Args:
        engine: whose.
        wanted: labels that one must have.
    """
    now = time.time()
    params = {"filters": json.dumps({"label": [*wanted, labels.DEADLINE]})}
    doing = "look for what services have left over"
    for network in engine.get("/networks", params=params, doing=doing):
        if labels.is_stale(network.get("Labels") or {}, now):
            yield NETWORK, str(network["Name"]), f"/networks/{network['Id']}"
    for volume in engine.get("/volumes", params=params, doing=doing).get("Volumes") or ():
        if labels.is_stale(volume.get("Labels") or {}, now):
            yield VOLUME, str(volume["Name"]), f"/volumes/{volume['Name']}"
