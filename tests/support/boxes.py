"""What tests do in boxes of any kind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from pytest_rlenv.errors import BoxUnfit
from pytest_rlenv.sandboxes.model import Completed
from pytest_rlenv.sandboxes.protocol import Box

HANG_GUARD = 60.0
"""Seconds that nothing takes, unless it hangs."""


def sh(box: Box, script: str, **options: Any) -> Completed:
    return box.run(["sh", "-c", script], **options)


def ok(box: Box, script: str, **options: Any) -> str:
    """Return what a script prints that must succeed."""
    done = sh(box, f"set -e; {script}", **options)
    assert done.exit_code == 0, done.output
    return done.stdout.decode()


def processes(box: Box) -> int:
    """How many processes there are but the keeper, its sleep and the one that looks."""
    # `echo` is a built-in, so that the shell is all that there is of this
    return len(sh(box, "echo /proc/[0-9]*").stdout.split()) - 3


def none_left(box: Box) -> bool:
    """Whether all but those are gone or going; the keeper starts its sleep anew if that was killed."""
    return eventually(lambda: processes(box) <= 0)


def unfit(message: str) -> AbstractContextManager[pytest.ExceptionInfo[BoxUnfit]]:
    """Expect the error for what the image or the task got wrong, which a retry would not mend."""
    return pytest.raises(BoxUnfit, match=message)


def eventually(condition: Callable[[], bool]) -> bool:
    """Wait for what happens in the background."""
    give_up = time.monotonic() + HANG_GUARD
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True


def together(*calls: Callable[[], object]) -> None:
    """Make calls at the same time, each in a thread of its own, and wait for all."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
