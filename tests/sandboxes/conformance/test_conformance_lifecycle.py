"""The life of a sandbox and of its boxes: what works when, and how the end of either is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.boxes import HANG_GUARD, eventually, ok, sh
from support.sandbox_kinds import PLAIN, Kind

from pytest_rlenv.errors import SandboxFailed, Unsupported
from pytest_rlenv.sandboxes.model import NO_NETWORK, PUBLIC, BoxSpec, Entry, SandboxContext
from pytest_rlenv.sandboxes.protocol import Box, Sandbox

Start = Callable[..., Box]


def calls(box: Box, tmp_path: Path) -> dict[str, Callable[[], object]]:
    """Everything that can be asked of a box, but to be destroyed."""
    return {
        "run": lambda: box.run(["true"]),
        "quiesce": box.quiesce,
        "get": lambda: box.get("/file", cap=10),
        "put": lambda: box.put([Entry("/x", b"y")]),
        "stat": lambda: box.stat("/file"),
        "get_tree": lambda: box.get_tree("/file", tmp_path / "out", cap=10),
        "stop": box.stop,
    }


FILES = ("get", "put", "stat", "get_tree")
"""What still works once nothing runs any more."""


# ---- a sandbox


def test_what_it_is(sandbox: Sandbox, box: Box) -> None:
    assert isinstance(sandbox, Sandbox)
    assert isinstance(box, Box)
    sandbox.check()
    assert sandbox.describe().startswith(sandbox.name.partition(" ")[0])
    can = sandbox.capabilities
    assert can.network_modes >= {PUBLIC, NO_NETWORK}
    assert can.gpus == 0
    assert can.cpus is not None
    assert can.cpus >= 1
    assert can.memory_mb is not None
    assert can.memory_mb > 100
    assert box.id


def test_closed_sandbox(kind: Kind, new_context: Callable[[], SandboxContext]) -> None:
    """Boxes that are up are removed, and none is started any more."""
    with kind.opened(new_context()) as sandbox:
        image = kind.image(sandbox, PLAIN)
        box = sandbox.start(image, BoxSpec(network=NO_NETWORK, lifetime=300))
        sandbox.close()
        sandbox.close()
        with pytest.raises(SandboxFailed, match=r"the box (was destroyed|is gone)"):
            box.run(["true"])
        with pytest.raises(SandboxFailed, match="no more boxes are started"):
            sandbox.start(image, BoxSpec(network=NO_NETWORK, lifetime=300))
        box.destroy()


def test_box_outlives_the_thread_that_started_it(start: Start) -> None:
    boxes: list[Box] = []
    thread = threading.Thread(target=lambda: boxes.append(start()))
    thread.start()
    thread.join()
    assert ok(boxes[0], "echo alive") == "alive\n"


# ---- a box that is ended


def test_stopped_box(start: Start, tmp_path: Path) -> None:
    box = start()
    ok(box, "echo 1 >/file; setsid sleep 1000 >/dev/null 2>&1 &")
    box.stop()
    box.stop()
    for name, call in calls(box, tmp_path).items():
        if name in ("run", "quiesce"):
            with pytest.raises(SandboxFailed, match="the box was stopped before this"):
                call()
        else:
            call()
    assert box.get("/file", cap=10) == b"1\n"
    assert box.get("/x", cap=1) == b"y"
    assert (tmp_path / "out/file").read_text() == "1\n"


def test_destroyed_box(start: Start, tmp_path: Path) -> None:
    box = start()
    box.destroy()
    box.destroy()
    for call in calls(box, tmp_path).values():
        with pytest.raises(SandboxFailed, match="the box was destroyed before this"):
            call()


@pytest.mark.parametrize("how", ["stop", "destroy"])
def test_box_ended_under_a_command(how: str, start: Start) -> None:
    box = start()
    ended = threading.Timer(0.15, getattr(box, how))
    ended.start()
    with pytest.raises(SandboxFailed, match=r"the box (died|was|is)\b"):
        box.run(["sleep", "1000"], timeout=HANG_GUARD)
    ended.join()


def test_quiesced_under_a_command(box: Box) -> None:
    quiesce = threading.Timer(0.15, box.quiesce)
    quiesce.start()
    done = box.run(["sleep", "1000"], timeout=HANG_GUARD)
    quiesce.join()
    assert (done.exit_code, done.timed_out) == (137, False)


# ---- a box that dies


def test_box_killed_under_a_command(start: Start, kind: Kind, tmp_path: Path) -> None:
    box = start()
    ok(box, "echo 1 >/file")
    kill = threading.Timer(0.15, lambda: kind.kill(box))
    kill.start()
    with pytest.raises(SandboxFailed, match="the box died: ") as caught:
        box.run(["sleep", "1000"], timeout=HANG_GUARD)
    kill.join()
    assert caught.value.hint == "it was killed from outside, or by the machine for want of memory"
    for name, call in calls(box, tmp_path).items():
        if name in (*FILES, "stop"):
            call()
        else:
            with pytest.raises(SandboxFailed, match="the box died: "):
                call()
    assert box.get("/x", cap=1) == b"y"


def test_first_process_cannot_be_killed_from_inside(box: Box) -> None:
    sh(box, "kill -9 1; kill -9 -1")
    assert ok(box, "echo alive") == "alive\n"


def test_box_ended_from_inside(start: Start) -> None:
    """Its first process may be asked to end, which ends the box."""
    box = start()

    def ask() -> bool:
        sh(box, "kill -TERM 1; sleep 0.1")
        return False

    with pytest.raises(SandboxFailed, match="the box died: "):
        eventually(ask)


# ---- the network of a box that is up


def test_network_that_a_box_was_not_made_ready_for(box: Box, sandbox: Sandbox) -> None:
    with pytest.raises(Unsupported):
        box.set_network("carrier-pigeon")
    assert box.take_denied() == {}
