"""What is particular to a container among boxes; what all boxes have in common is in ``conformance/``."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.boxes import HANG_GUARD, ok, sh

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.docker import processes
from pytest_rlenv.sandboxes.docker.box import DockerBox
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.model import Entry

pytestmark = pytest.mark.docker


@pytest.mark.parametrize("code", [126, 127])
def test_the_runtimes_words_from_a_command_are_just_output(code: int, box: DockerBox) -> None:
    text = 'OCI runtime exec failed: exec failed: exec: "x": executable file not found in $PATH: unknown'
    done = sh(box, f"printf '%s\\r\\n' '{text}'; exit {code}")
    assert done.exit_code == code


def test_shell_that_does_not_kill(box: DockerBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was root in the box may have replaced its shell: then the container is started again."""
    monkeypatch.setattr(processes, "_DEATH_LIMIT", 1.0)
    box.put([Entry("bin/sh.new", b"#!/bin/bash\nexit 0\n", 0o755), Entry("file", b"kept")], "/usr")
    box.run(["bash", "-c", "cp /usr/bin/sh /usr/bin/sh.old; mv /usr/bin/sh.new /usr/bin/sh"])
    done = box.run(["sleep", "1000"], timeout=0.3)
    assert done.timed_out
    assert done.seconds < HANG_GUARD
    assert box.get("/usr/file", cap=10) == b"kept"


def test_files_of_the_kernel_are_not_there(box: DockerBox) -> None:
    """The engine reads the container's disk, not what is mounted on it."""
    assert ok(box, "cat /proc/1/comm; echo x >/dev/shm/x") == "sh\n"
    assert box.stat("/proc/1/comm") is None
    assert box.stat("/dev/shm/x") is None


def test_box_whose_container_was_removed(box: DockerBox, engine: Engine) -> None:
    engine.request("DELETE", f"/containers/{box.id}", params={"force": 1}, doing="remove")
    calls: tuple[Callable[[], object], ...] = (
        lambda: box.run(["true"]),
        box.quiesce,
        lambda: box.get("/x", cap=1),
        lambda: box.put([Entry("x", b"")]),
        lambda: box.stat("/x"),
        box.stop,
    )
    for call in calls:
        with pytest.raises(SandboxFailed, match="the box is gone: somebody removed its container"):
            call()
    box.destroy()
