"""One suite for every kind of sandbox: what the protocol promises, each of them must keep in the same way.

A case that a sandbox does not claim to support is not skipped: it must be refused, in the protocol's words.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.sandbox_kinds import KINDS, PLAIN, Image, Kind, make_kind

from pytest_rlenv.sandboxes.model import NO_NETWORK, BoxSpec, Entry, ImageRef, SandboxContext
from pytest_rlenv.sandboxes.protocol import Box, Sandbox


@pytest.fixture(scope="session", params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kind:
    return make_kind(request.param, tmp_path_factory.mktemp("conformance"))


@pytest.fixture(scope="session")
def new_context(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], SandboxContext]:
    def new_context() -> SandboxContext:
        base = tmp_path_factory.mktemp("sandbox")
        return SandboxContext(f"t{uuid.uuid4().hex[:12]}", "gw0", base / "cache", base / "run")

    return new_context


@pytest.fixture(scope="session")
def sandbox(kind: Kind, new_context: Callable[[], SandboxContext]) -> Iterator[Sandbox]:
    with kind.opened(new_context()) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def image(kind: Kind, sandbox: Sandbox) -> Callable[[Image], ImageRef]:
    """Have an image, made once for all tests."""
    made: dict[str, ImageRef] = {}

    def image(which: Image) -> ImageRef:
        if which.name not in made:
            made[which.name] = kind.image(sandbox, which)
        return made[which.name]

    return image


@pytest.fixture
def start(sandbox: Sandbox, image: Callable[[Image], ImageRef]) -> Iterator[Callable[..., Box]]:
    """Start a box of the test's own; without a network unless asked for, as that is faster."""
    boxes: list[Box] = []

    def start(which: Image = PLAIN, *, entries: tuple[Entry, ...] = (), **spec: Any) -> Box:
        box = sandbox.start(image(which), spec_of(**spec), entries)
        boxes.append(box)
        return box

    yield start
    for box in boxes:
        box.destroy()


def spec_of(**spec: Any) -> BoxSpec:
    return BoxSpec(**{"network": NO_NETWORK, "lifetime": 900.0, **spec})


class Shared:
    """The box of all tests that leave it as it was, but for files in a place of their own.

    Starting one takes far longer than most tests. After a test that failed, nobody knows what it is worth.
    """

    def __init__(self, start: Callable[[], Box]) -> None:
        self._start = start
        self._box: Box | None = None
        self._failed = 0

    def box(self, failed: int) -> Box:
        if self._box is not None and failed != self._failed:
            self.close()
        self._failed = failed
        if self._box is None:
            self._box = self._start()
        return self._box

    def close(self) -> None:
        if self._box is not None:
            self._box.destroy()
            self._box = None


@pytest.fixture(scope="session")
def shared(sandbox: Sandbox, image: Callable[[Image], ImageRef]) -> Iterator[Shared]:
    shared = Shared(lambda: sandbox.start(image(PLAIN), spec_of()))
    yield shared
    shared.close()


@pytest.fixture
def box(shared: Shared, request: pytest.FixtureRequest) -> Box:
    """A box for tests that do not end it, and leave no process and no file but in their place."""
    return shared.box(request.session.testsfailed)


_numbers = itertools.count()


@pytest.fixture
def place(box: Box) -> str:
    """A folder of the test's own in that box."""
    path = f"/t{next(_numbers)}"
    box.put([Entry(path, mode=0o755)])
    return path
