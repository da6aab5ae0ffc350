from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.engine import BASE, remove_all, remove_image, write_context

from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.sandboxes.docker.box import DockerBox
from pytest_rlenv.sandboxes.docker.client import Engine, shared_engine
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.model import NO_NETWORK, BoxSpec, Entry, ImageRef, ImageSpec, SandboxContext


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
