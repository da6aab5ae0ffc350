from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.sandboxes.docker.box import DockerBox
from pytest_rlenv.sandboxes.docker.client import Engine, shared_engine
from pytest_rlenv.sandboxes.docker.failures import EngineRefused
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.protocol import NO_NETWORK, BoxSpec, Entry, ImageRef, ImageSpec, SandboxContext

BASE = "debian:bookworm-slim"


@pytest.fixture(scope="session")
def engine() -> Engine:
    try:
        return shared_engine()
    except EngineUnavailable as error:
        pytest.fail(f"these tests need a Docker engine (scripts/setup_engine.sh): {error}", pytrace=False)


@pytest.fixture(scope="session")
def session_id() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def context(session_id: str, tmp_path_factory: pytest.TempPathFactory) -> SandboxContext:
    base = tmp_path_factory.mktemp("docker")
    return SandboxContext(session_id, "gw0", base / "cache", base / "run")


@pytest.fixture(scope="session")
def sandbox(engine: Engine, context: SandboxContext) -> Iterator[DockerSandbox]:
    sandbox = DockerSandbox(context)
    yield sandbox
    sandbox.close()
    left = remove_all(engine, f"rlenv.session={context.session}")
    assert not left, "boxes were left over after close()"


def remove_all(engine: Engine, label: str) -> list[str]:
    """Remove the containers with a label and return them."""
    left = containers(engine, label)
    for container in left:
        engine.request("DELETE", f"/containers/{container}", params={"force": 1}, doing="clean up")
    return left


@pytest.fixture(scope="session")
def debian(sandbox: DockerSandbox) -> ImageRef:
    return sandbox.prepare(ImageSpec(name=BASE))


@pytest.fixture
def start(
    sandbox: DockerSandbox, debian: ImageRef, build: Callable[..., ImageRef]
) -> Iterator[Callable[..., DockerBox]]:
    """Start a box that is destroyed with the test; without a network unless asked for, as that is faster.

    It asks for ``build`` so that boxes go before their images, which would lose their name only.
    """
    boxes: list[DockerBox] = []

    def start(image: ImageRef = debian, *, entries: tuple[Entry, ...] = (), **spec: Any) -> DockerBox:
        spec.setdefault("network", NO_NETWORK)
        spec.setdefault("lifetime", 600.0)
        box = sandbox.start(image, BoxSpec(**spec), entries)
        boxes.append(box)
        return box

    yield start
    for box in boxes:
        box.destroy()


@pytest.fixture
def box(start: Callable[..., DockerBox]) -> DockerBox:
    return start()


@pytest.fixture
def build(
    sandbox: DockerSandbox, engine: Engine, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., ImageRef]]:
    """Build an image from a Dockerfile's text and other files; it is removed with the test."""
    built: list[ImageRef] = []

    def build(dockerfile: str, files: dict[str, str] | None = None, **options: Any) -> ImageRef:
        folder = write_context(tmp_path / uuid.uuid4().hex[:8], dockerfile, files)
        image = sandbox.prepare(ImageSpec(context=folder, slug=f"test {request.node.name}"), **options)
        built.append(image)
        return image

    yield build
    if built:
        sandbox._parts().disposal.close()
    for image in built:
        remove_image(engine, image.name)


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
