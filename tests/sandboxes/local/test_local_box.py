"""What is particular to a local box; what all boxes have in common is in ``conformance/``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.boxes import HANG_GUARD, eventually, processes, sh, unfit

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.local import LocalBox, LocalSandbox
from pytest_rlenv.sandboxes.model import Entry

Start = Callable[..., LocalBox]


def test_a_service_may_go_on_printing_where_nobody_listens(lbox: LocalBox) -> None:
    """Far more than a pipe holds: it must neither wait for a reader nor be killed for want of one."""
    script = "(sleep 0.5; head -c 3000000 /dev/zero; echo done >/printed; sleep 1000) & echo started"
    assert sh(lbox, script, timeout=HANG_GUARD).stdout == b"started\n"
    assert eventually(lambda: lbox.stat("/printed") is not None)
    assert lbox.get("/printed", cap=10) == b"done\n"
    assert processes(lbox) >= 1


def test_a_memory_disk_that_is_full_is_the_tasks_fault(lbox: LocalBox) -> None:
    """And no reason to think that this machine's disk is."""
    sh(lbox, "head -c 100000000 /dev/zero >/dev/shm/full", timeout=HANG_GUARD)
    with unfit("cannot write /dev/shm/a/b in the box: it is full there"):
        lbox.put([Entry("/dev/shm/a/b", b"x" * 10_000)])


def test_no_descriptors_are_left_open(start_local: Start, local: LocalSandbox) -> None:
    def use() -> None:
        box = start_local()
        sh(box, "sleep 1000 & echo x")
        box.run(["sleep", "9"], timeout=0.05)
        with pytest.raises(SandboxFailed):
            box.run(["no-such-command"])
        box.stop()
        box.destroy()

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    use()
    assert eventually(lambda: not local._parts().boxes._up)
    before = descriptors()
    for _ in range(3):
        use()
    assert eventually(lambda: not local._parts().boxes._up)
    assert descriptors() == before
