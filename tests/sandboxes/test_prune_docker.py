"""Pruning a real engine, of the images of one test only."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.engine import BASE, write_context

from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.pruning import prune
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.leftovers import Pruned
from pytest_rlenv.sandboxes.model import NO_NETWORK, BoxSpec, ImageSpec, SandboxContext

pytestmark = pytest.mark.docker


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Callable[[], DockerSandbox]]:
    """Make a sandbox as another run of the same user would."""
    made: list[DockerSandbox] = []

    def run() -> DockerSandbox:
        session = f"t{uuid.uuid4().hex[:12]}"
        made.append(DockerSandbox(SandboxContext(session, "main", tmp_path / "cache", tmp_path / session)))
        return made[-1]

    yield run
    for sandbox in made:
        sandbox.close()


@pytest.fixture
def spec(tmp_path: Path) -> ImageSpec:
    return ImageSpec(
        context=write_context(tmp_path / "context", f"FROM {BASE}\nRUN echo hi >/x"), slug="prune"
    )


@pytest.fixture
def prune_it(
    engine: Engine, tmp_path: Path, runs: Callable[[], DockerSandbox], spec: ImageSpec
) -> Callable[[], Pruned]:
    """Prune what carries the image's key, and leave alone all that others have in the engine."""
    sandbox = runs()
    found = engine.get(f"/images/{sandbox.prepare(spec).id}/json", doing="look")
    sandbox.close()
    key = found["Config"]["Labels"]["rlenv.key"]
    return lambda: prune(engine, tmp_path / "cache", wanted=["rlenv=1", f"rlenv.key={key}"])


def test_an_image_is_removed_when_nobody_uses_it(
    engine: Engine, runs: Callable[[], DockerSandbox], spec: ImageSpec, prune_it: Callable[[], Pruned]
) -> None:
    sandbox = runs()
    image = sandbox.prepare(spec)
    assert (prune_it().removed, prune_it().in_use) == ([], 1), "a run may start a box of it"
    box = sandbox.start(image, BoxSpec(network=NO_NETWORK, lifetime=300))
    sandbox._parts().images.close()  # as another user's run, whose uses are not known here
    assert (prune_it().removed, prune_it().in_use) == ([], 1), "a box of it is up"
    box.destroy()
    sandbox.close()
    done = prune_it()
    assert [each.name for each in done.removed] == [image.name]
    assert engine.find(f"/images/{image.id}/json", doing="look") is None
    assert prune_it() == Pruned()


def test_pruning_all_the_time_disturbs_no_run(
    runs: Callable[[], DockerSandbox], spec: ImageSpec, prune_it: Callable[[], Pruned]
) -> None:
    """Each run finds the image gone, builds it, and starts a box, while somebody prunes again and again."""
    over, removed, problems = threading.Event(), threading.Semaphore(0), list[BaseException]()

    def go_on() -> None:
        try:
            while not over.is_set():
                for _ in prune_it().removed:
                    removed.release()
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        for _ in range(3):
            assert removed.acquire(timeout=120), problems or "an image that nobody uses was not removed"
            sandbox = runs()
            box = sandbox.start(sandbox.prepare(spec), BoxSpec(network=NO_NETWORK, lifetime=300))
            assert box.run(["cat", "/x"], timeout=60).stdout == b"hi\n"
            sandbox.close()
    finally:
        over.set()
        thread.join()
    assert problems == []
