"""What the tests of local boxes share."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pytest_rlenv.sandboxes.local import LocalBox
from pytest_rlenv.sandboxes.local.bwrap import is_privileged
from pytest_rlenv.sandboxes.protocol import Completed

BASE = "debian:bookworm-slim"
HANG_GUARD = 60.0
"""Seconds that nothing takes, unless it hangs."""

needs_users = pytest.mark.skipif(not is_privileged(), reason="a plain user's boxes have only root")


def sh(box: LocalBox, script: str, **options: object) -> Completed:
    return box.run(["sh", "-c", script], **options)


def processes(box: LocalBox) -> int:
    """How many processes there are but the keeper, its sleep and the one that looks."""
    # `echo` is a built-in, so that the shell is all that there is of this
    return len(sh(box, "echo /proc/[0-9]*").stdout.split()) - 3


def eventually(condition: Callable[[], bool]) -> bool:
    """Wait for what happens in the background."""
    give_up = time.monotonic() + HANG_GUARD
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True
