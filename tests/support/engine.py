"""Look at, fill and clean up a Docker engine in tests."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.failures import EngineRefused

BASE = "debian:bookworm-slim"


def remove_all(engine: Engine, label: str) -> list[str]:
    """Remove the containers with a label and return them."""
    left = containers(engine, label)
    for container in left:
        engine.request("DELETE", f"/containers/{container}", params={"force": 1}, doing="clean up")
    return left


def write_context(folder: Path, dockerfile: str, files: dict[str, str] | None = None) -> Path:
    """Write a build context that nobody else has, so that tests never share an image with anyone."""
    folder.mkdir(parents=True)
    (folder / "Dockerfile").write_text(f"{dockerfile}\n# {uuid.uuid4()}\n")
    for name, text in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def remove_image(engine: Engine, name: str) -> None:
    try:
        engine.request("DELETE", f"/images/{name}", params={"force": 1}, doing="clean up")
    except EngineRefused as refused:
        if refused.status != 404:
            raise


def containers(engine: Engine, *labels: str) -> list[str]:
    params = {"all": 1, "filters": json.dumps({"label": list(labels)})}
    return [each["Id"] for each in engine.get("/containers/json", params=params, doing="look")]
