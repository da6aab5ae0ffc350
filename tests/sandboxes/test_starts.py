"""A sandbox that is closed while threads start boxes: none is left, and nobody waits for ever."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from support.engine import BASE, containers, remove_all

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes import starts
from pytest_rlenv.sandboxes.docker import labels
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.model import NO_NETWORK, BoxSpec, ImageSpec, SandboxContext
from pytest_rlenv.sandboxes.starts import Starts

SPEC = BoxSpec(network=NO_NETWORK, lifetime=300)
SOON = 30.0


def test_no_start_begins_or_succeeds_after_the_end() -> None:
    these = Starts()
    with these.one():
        these.check()
        these.close()
        with pytest.raises(SandboxFailed, match="the run has ended"):
            these.check()
    with pytest.raises(SandboxFailed, match="the run has ended"), these.one():
        raise AssertionError("began")
    assert these.wait()


def test_a_start_that_hangs_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "END_LIMIT", 0.0)
    these = Starts()
    with these.one():
        assert not these.wait()
    assert these.wait()


class SlowEngine:
    """An engine of which one answer is held back until :attr:`go_on`."""

    def __init__(self, engine: Engine, slow: str) -> None:
        self._engine, self._slow = engine, slow
        self.asked, self.go_on = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def request(self, method: str, path: str, **rest: Any) -> Any:
        answer = self._engine.request(method, path, **rest)
        if path.endswith(self._slow):
            self.asked.set()
            assert self.go_on.wait(SOON)
        return answer


@pytest.fixture
def context(session_id: str, tmp_path: Any) -> SandboxContext:
    return SandboxContext(f"{session_id}s", "gw0", tmp_path / "cache", tmp_path / "run")


@pytest.mark.docker
@pytest.mark.parametrize("slow", ["/containers/create", "/start"])
def test_a_container_that_was_being_made(engine: Engine, context: SandboxContext, slow: str) -> None:
    """The engine has made it, and closing begins before its maker knows."""
    gate: Any = SlowEngine(engine, slow)
    sandbox = DockerSandbox(context, gate)
    image = sandbox.prepare(ImageSpec(name=BASE))
    ended: list[BaseException | None] = []

    def start() -> None:
        try:
            sandbox.start(image, SPEC)
            ended.append(None)
        except BaseException as error:
            ended.append(error)

    label = f"{labels.SESSION}={context.session}"
    maker = threading.Thread(target=start)
    try:
        maker.start()
        assert gate.asked.wait(SOON)
        assert len(containers(engine, label)) == 1
        closer = threading.Thread(target=sandbox.close)
        closer.start()
        while not sandbox._starts._closed:
            pass
        gate.go_on.set()
        closer.join(SOON)
        maker.join(SOON)
        assert containers(engine, label) == []
    finally:
        gate.go_on.set()
        remove_all(engine, label)
    # one that was all but up may still be handed out, and is removed like any other
    assert isinstance(ended[0], SandboxFailed) or slow == "/start"


@pytest.mark.docker
def test_after_close_no_container_is_made(engine: Engine, context: SandboxContext) -> None:
    used, unused = DockerSandbox(context), DockerSandbox(context)
    image = used.prepare(ImageSpec(name=BASE))
    for sandbox in (used, unused):
        sandbox.close()
        with pytest.raises(SandboxFailed, match="the run has ended"):
            sandbox.start(image, SPEC)
        sandbox.close()
    assert containers(engine, f"{labels.SESSION}={context.session}") == []
