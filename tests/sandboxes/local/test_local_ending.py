"""Boxes that end under the threads that use them, or that are about to have them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_rlenv.errors import EngineUnavailable, SandboxFailed
from pytest_rlenv.sandboxes.local import namespace, uses
from pytest_rlenv.sandboxes.local.sandbox import HostSandbox
from pytest_rlenv.sandboxes.local.uses import Uses, counted
from pytest_rlenv.sandboxes.model import NO_NETWORK, BoxSpec, ImageRef, ImageSpec, SandboxContext

SPEC = BoxSpec(network=NO_NETWORK)
SOON = 30.0


@pytest.fixture
def own(tmp_path: Path) -> Iterator[HostSandbox]:
    sandbox = HostSandbox(SandboxContext("s", "gw0", tmp_path / "cache", tmp_path / "run"))
    try:
        sandbox.check()
    except EngineUnavailable as error:
        pytest.skip(f"no local boxes on this machine: {error}")
    yield sandbox
    sandbox.close()
    assert list((tmp_path / "cache" / "boxes").iterdir()) == []


@pytest.fixture
def nothing(own: HostSandbox, tmp_path: Path) -> ImageRef:
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "Dockerfile").write_text("FROM x\n")
    return own.prepare(ImageSpec(context=tmp_path / "environment"))


def call_in_thread(call: Callable[[], Any], into: list[Any]) -> threading.Thread:
    """Start a thread that keeps what comes of a call."""

    def run() -> None:
        try:
            into.append(call())
        except Exception as error:
            into.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_box_that_was_being_made_when_its_sandbox_closed(
    own: HostSandbox, nothing: ImageRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    up, go_on, became = threading.Event(), threading.Event(), []
    real = namespace.start

    def start(*args: Any, **keywords: Any) -> namespace.Namespace:
        space = real(*args, **keywords)
        became.append(space)
        up.set()
        assert go_on.wait(SOON)
        return space

    monkeypatch.setattr(namespace, "start", start)
    ended: list[Any] = []
    maker = call_in_thread(lambda: own.start(nothing, SPEC), ended)
    assert up.wait(SOON)
    closer = threading.Thread(target=own.close)
    closer.start()
    while not own._parts().boxes._starts._closed:
        pass
    go_on.set()
    for thread in (maker, closer):
        thread.join(SOON)
    assert isinstance(ended[0], SandboxFailed)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(became[0].pidfd)


def test_after_close_no_box_is_made(own: HostSandbox, nothing: ImageRef, tmp_path: Path) -> None:
    unused = HostSandbox(SandboxContext("s", "gw1", tmp_path / "cache", tmp_path / "run"))
    for sandbox in (own, unused):
        sandbox.close()
        with pytest.raises(SandboxFailed, match="the run has ended"):
            sandbox.start(sandbox.prepare(ImageSpec(context=tmp_path / "environment")), SPEC)
        sandbox.close()


def test_a_command_under_way_ends_with_its_box(own: HostSandbox, nothing: ImageRef) -> None:
    box, became = own.start(nothing, SPEC), []
    thread = call_in_thread(lambda: box.run(["sh", "-c", "echo here; sleep 100"]), became)
    while not box.uses._count:
        pass
    own.close()
    thread.join(SOON)
    assert isinstance(became[0], SandboxFailed)
    for call in (lambda: box.stat("/"), box.quiesce, lambda: box.get_tree("/", Path("/nowhere"), cap=1)):
        with pytest.raises(SandboxFailed, match="destroyed"):
            call()


def test_a_box_that_is_destroyed_while_it_is_stopped_goes_once(
    own: HostSandbox, nothing: ImageRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    box, discarded = own.start(nothing, SPEC), []
    real_end, real_discard = box._namespace.end, box._discard

    def end() -> None:
        monkeypatch.setattr(box._namespace, "end", real_end)
        box.destroy()

    def discard(which: Any) -> None:
        discarded.append(which)
        real_discard(which)

    monkeypatch.setattr(box._namespace, "end", end)
    monkeypatch.setattr(box, "_discard", discard)
    box.stop()
    box.destroy()
    assert discarded == [box]


class Thing:
    def __init__(self) -> None:
        self.uses = Uses()

    @counted
    def use(self, begun: threading.Event, end: threading.Event) -> int:
        begun.set()
        assert end.wait(SOON)
        return 3


def test_descriptors_are_kept_while_anybody_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    thing, begun, end, became = Thing(), threading.Event(), threading.Event(), []
    thread = call_in_thread(lambda: thing.use(begun, end), became)
    assert begun.wait(SOON)
    monkeypatch.setattr(uses, "END_LIMIT", 0.0)
    assert not thing.uses.wait()
    end.set()
    thread.join(SOON)
    assert thing.uses.wait()
    assert became == [3]
