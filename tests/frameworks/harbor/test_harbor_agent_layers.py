"""What an agent has in its image, and what it makes of its logs, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from support import rollouts
from support.rollouts import Done, Runner, Scripted
from support.scripted import ScriptedSandbox
from support.tasks import write_task

from pytest_rlenv.agents.protocol import AgentContext, AgentOutcome, AgentStopped, AgentTimedOut
from pytest_rlenv.errors import BuildFailed, Stage, StageTimeout
from pytest_rlenv.sandboxes.model import ImageLayer, ImageRef, SandboxContext


class LayeringSandbox(ScriptedSandbox):
    capabilities = replace(ScriptedSandbox.capabilities, extends_images=True)
    fails: ClassVar[Exception | None] = None

    def __init__(self, context: SandboxContext) -> None:
        super().__init__(context)
        self.extended: list[tuple[str, ImageLayer, float | None]] = []

    def extend(self, image: ImageRef, layer: ImageLayer, *, timeout: float | None = None) -> ImageRef:
        self.extended.append((image.name, layer, timeout))
        if self.fails is not None:
            raise self.fails
        return ImageRef(f"{image.name}+{layer.name}", "sha256:1", built=True)


class Layered(Scripted):
    """Wants something in its image, and counts how often it could read its logs."""

    name = "layered"
    layer: ImageLayer | None = ImageLayer("tool", "install tool")

    def __init__(self, *files: str) -> None:
        super().__init__(*files)
        self.read: list[set[str]] = []

    def image_layer(self) -> ImageLayer | None:
        return self.layer

    def prepare(self, context: AgentContext) -> None:
        super().prepare(context)
        self.version = "2.0"

    def finish(self, context: AgentContext) -> AgentOutcome | None:
        self.read.append({path.name for path in context.logs.iterdir()})
        return AgentOutcome(usage={"tokens": 99, "cost_usd": 0.5}, notes={"agent-errors": "it says so"})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setattr(rollouts, "ScriptedSandbox", LayeringSandbox)
    return Runner(tmp_path)


def extended(done: Done) -> list[tuple[str, ImageLayer, float | None]]:
    assert isinstance(done.sandbox, LayeringSandbox)
    return done.sandbox.extended


def images(done: Done) -> Iterable[str]:
    return [image.name for image, _ in done.sandbox.started]


def test_its_box_has_the_layer_and_the_verifiers_has_not(run: Runner, tmp_path: Path) -> None:
    done = run(write_task(tmp_path / "task"), Layered("app/answer"), level="fresh")
    assert done.error is None
    assert images(done) == ["rlenv/t+tool", "rlenv/t"]
    assert extended(done) == [("rlenv/t", ImageLayer("tool", "install tool"), 1800.0)]
    assert done.rollout.image == "rlenv/t@sha256:0"
    assert done.rollout.reward == 1.0
    assert done.rollout.agent_version == "2.0"
    assert Stage.AGENT_SETUP in done.rollout.stages


@pytest.mark.parametrize("layer", [None, ImageLayer("tool", "install tool")])
def test_no_layer(
    run: Runner, tmp_path: Path, layer: ImageLayer | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the agent wants none, or the sandbox makes none, the image is the task's own."""
    if layer is not None:
        monkeypatch.setattr(LayeringSandbox, "capabilities", ScriptedSandbox.capabilities)
    monkeypatch.setattr(Layered, "layer", layer)
    done = run(write_task(tmp_path / "task"), Layered("app/answer"))
    assert (images(done), extended(done), done.rollout.reward) == (["rlenv/t"], [], 1.0)


def test_a_layer_that_cannot_be_made(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LayeringSandbox, "fails", BuildFailed("no", detail="no such package"))
    done = run(write_task(tmp_path / "task"), Layered())
    assert type(done.error).__name__ == "AgentFailed"
    assert done.error is not None
    assert (done.error.stage, done.error.detail) == (Stage.AGENT_SETUP, "no such package")
    assert "agent layered: it cannot be installed into the task's image rlenv/t" in done.error.message
    assert done.boxes == []
    monkeypatch.setattr(LayeringSandbox, "fails", StageTimeout("late", stage=Stage.BUILD))
    done = run(write_task(tmp_path / "other"), Layered())
    assert done.error is not None
    assert done.error.stage == Stage.AGENT_SETUP
    assert "within 1800.0 s" in done.error.message


def test_it_reads_its_logs_when_they_are_here(run: Runner, tmp_path: Path) -> None:
    agent = Layered("app/answer", "logs/agent/from-the-box.txt")
    done = run(write_task(tmp_path / "task"), agent)
    assert agent.read == [{"own.log", "from-the-box.txt"}]
    assert done.rollout.usage == {"tokens": 10, "model": "m1", "cost_usd": 0.5}
    assert "agent-errors" in done.codes()


class Late(Layered):
    def run(self, context: AgentContext) -> AgentOutcome:
        super().run(context)
        raise AgentTimedOut


class Stopped(Layered):
    def run(self, context: AgentContext) -> AgentOutcome:
        super().run(context)
        raise AgentStopped("enough")


class Broken(Layered):
    def run(self, context: AgentContext) -> AgentOutcome:
        super().run(context)
        raise KeyError("broken")


@pytest.mark.parametrize(("kind", "error"), [(Late, None), (Stopped, None), (Broken, "AgentFailed")])
def test_however_it_ended(run: Runner, tmp_path: Path, kind: type[Layered], error: str | None) -> None:
    agent = kind("app/answer", "logs/agent/from-the-box.txt")
    done = run(write_task(tmp_path / "task"), agent)
    assert agent.read == [{"own.log", "from-the-box.txt"}]
    assert (done.error and type(done.error).__name__) == error
    assert done.rollout.usage["cost_usd"] == 0.5


class Confused(Layered):
    def finish(self, context: AgentContext) -> AgentOutcome | None:
        raise SystemExit("over its logs")


class Wrong(Layered):
    def finish(self, context: AgentContext) -> AgentOutcome | None:
        return 5  # type: ignore[return-value]  # what a stranger's agent may do


@pytest.mark.parametrize("kind", [Confused, Wrong])
def test_logs_that_it_cannot_read_are_a_note(run: Runner, tmp_path: Path, kind: type[Layered]) -> None:
    done = run(write_task(tmp_path / "task"), kind("app/answer"))
    assert (done.error, done.rollout.reward) == (None, 1.0)
    assert done.codes() == ["agent-logs"]


def test_one_that_never_acted_reads_nothing(run: Runner, tmp_path: Path) -> None:
    class Unready(Layered):
        def prepare(self, context: AgentContext) -> None:
            raise OSError("no")

    agent = Unready()
    done = run(write_task(tmp_path / "task"), agent)
    assert done.error is not None
    assert agent.read == []
