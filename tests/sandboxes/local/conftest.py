from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.local_boxes import BASE

from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.sandboxes.local import LocalBox, LocalSandbox
from pytest_rlenv.sandboxes.protocol import NO_NETWORK, BoxSpec, Entry, ImageRef, ImageSpec, SandboxContext

HOST, IMAGE = "host", "image"


@pytest.fixture(scope="session", params=[HOST, pytest.param(IMAGE, marks=pytest.mark.docker)])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def local_context(tmp_path_factory: pytest.TempPathFactory) -> SandboxContext:
    base = tmp_path_factory.mktemp("local")
    return SandboxContext(f"t{uuid.uuid4().hex[:12]}", "gw0", base / "cache", base / "run")


@pytest.fixture(scope="session")
def local(mode: str, local_context: SandboxContext) -> Iterator[LocalSandbox]:
    """A sandbox that has made up its mind: for host mode, no engine could be found."""
    sandbox = LocalSandbox(local_context)
    with pytest.MonkeyPatch.context() as patch:
        if mode == HOST:
            patch.setenv("DOCKER_HOST", "unix:///nowhere")
        try:
            description = sandbox.describe()
        except EngineUnavailable as error:
            pytest.skip(f"no local boxes on this machine: {error}")
    if mode == IMAGE and "image root file systems" not in description:
        pytest.skip(f"no images here: {description}")
    yield sandbox
    sandbox.close()
    boxes = local_context.cache_dir / "boxes"
    assert list(boxes.iterdir()) == [], "boxes were left over after close()"


@pytest.fixture(scope="session")
def image(mode: str, local: LocalSandbox, tmp_path_factory: pytest.TempPathFactory) -> ImageRef:
    if mode == IMAGE:
        return local.prepare(ImageSpec(name=BASE))
    folder = tmp_path_factory.mktemp("image-free") / "environment"
    folder.mkdir()
    (folder / "Dockerfile").write_text(f"FROM {BASE}\n")
    return local.prepare(ImageSpec(context=folder))


@pytest.fixture
def start_local(local: LocalSandbox, image: ImageRef) -> Iterator[Callable[..., LocalBox]]:
    """Start a box that is destroyed with the test; without a network unless asked for."""
    boxes: list[LocalBox] = []

    def start(which: ImageRef = image, *, entries: tuple[Entry, ...] = (), **spec: Any) -> LocalBox:
        spec.setdefault("network", NO_NETWORK)
        spec.setdefault("lifetime", 600.0)
        box = local.start(which, BoxSpec(**spec), entries)
        boxes.append(box)
        return box

    yield start
    for box in boxes:
        box.destroy()


@pytest.fixture
def lbox(start_local: Callable[..., LocalBox]) -> LocalBox:
    return start_local()
