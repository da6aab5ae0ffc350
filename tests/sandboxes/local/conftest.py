from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from support.sandbox_kinds import LOCAL_HOST, LOCAL_IMAGE, PLAIN, Kind, make_kind

from pytest_rlenv.sandboxes.local import LocalBox, LocalSandbox
from pytest_rlenv.sandboxes.model import NO_NETWORK, BoxSpec, Entry, ImageRef, SandboxContext


@pytest.fixture(scope="session", params=[LOCAL_HOST, LOCAL_IMAGE])
def kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kind:
    return make_kind(request.param, tmp_path_factory.mktemp("kind"))


@pytest.fixture(scope="session")
def local_context(tmp_path_factory: pytest.TempPathFactory) -> SandboxContext:
    base = tmp_path_factory.mktemp("local")
    return SandboxContext(f"t{uuid.uuid4().hex[:12]}", "gw0", base / "cache", base / "run")


@pytest.fixture(scope="session")
def local(kind: Kind, local_context: SandboxContext) -> Iterator[LocalSandbox]:
    with kind.opened(local_context) as sandbox:
        yield cast("LocalSandbox", sandbox)


@pytest.fixture(scope="session")
def image(kind: Kind, local: LocalSandbox) -> ImageRef:
    return kind.image(local, PLAIN)


@pytest.fixture
def start_local(local: LocalSandbox, image: ImageRef) -> Iterator[Callable[..., LocalBox]]:
    """Start a box that is destroyed with the test; without a network unless asked for."""
    boxes: list[LocalBox] = []

    def start(*, entries: tuple[Entry, ...] = (), **spec: Any) -> LocalBox:
        spec.setdefault("network", NO_NETWORK)
        spec.setdefault("lifetime", 600.0)
        box = local.start(image, BoxSpec(**spec), entries)
        boxes.append(box)
        return box

    yield start
    for box in boxes:
        box.destroy()


@pytest.fixture
def lbox(start_local: Callable[..., LocalBox]) -> LocalBox:
    return start_local()
