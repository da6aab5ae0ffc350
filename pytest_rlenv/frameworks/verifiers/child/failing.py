"""At which stage of a task something was raised, and how long each stage took."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable
from typing import Any

_ME = os.getpid()


def end_twin() -> None:
    """End this process if a taskset forked it off and let it go on: two would answer."""
    if os.getpid() != _ME:
        os._exit(0)


class StageFailed(Exception):
    """Something was raised in a stage.

    Args:
        stage: its name.
        error: what was raised.
        late: True if that was for its time, which was up; what a stage raises may look the same.
    """

    def __init__(self, stage: str, error: BaseException, *, late: bool = False) -> None:
        super().__init__(stage)
        self.stage = stage
        self.error = error
        self.late = late


class Stages:
    """Runs the stages of one task, each within its limit.

    Args:
        limits: seconds by stage.
    """

    current = ""
    """The stage that was begun last: ``SystemExit`` leaves an event loop as it is, without a word of it."""

    def __init__(self, limits: dict[str, float]) -> None:
        self._limits = limits
        self.seconds: dict[str, float] = {}

    async def run(self, stage: str, work: Awaitable[Any], limit: str = "") -> Any:
        """Return what the work gives.

        Args:
            stage: the stage's name.
            work: what is done.
            limit: whose limit holds, where that is another stage's.

        Raises:
            StageFailed: it raised, or its time was up.
        """
        Stages.current = stage
        begin, most = time.monotonic(), self._limits.get(limit or stage)
        try:
            return await asyncio.wait_for(work, most)
        except BaseException as error:
            timed_out = isinstance(error, (TimeoutError, asyncio.TimeoutError, asyncio.CancelledError))
            late = timed_out and most is not None and time.monotonic() - begin >= most
            raise StageFailed(stage, error, late=late) from error
        finally:
            end_twin()
            self.seconds[stage] = round(time.monotonic() - begin, 4)
