"""At which stage of a task something was raised, and how long each stage took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Any


class StageFailed(Exception):
    """Something was raised in a stage.

    Args:
        stage: its name.
        error: what was raised.
    """

    def __init__(self, stage: str, error: BaseException) -> None:
        super().__init__(f"{stage}: {error}")
        self.stage = stage
        self.error = error


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
        begin = time.monotonic()
        try:
            return await asyncio.wait_for(work, self._limits.get(limit or stage))
        except BaseException as error:
            raise StageFailed(stage, error) from error
        finally:
            self.seconds[stage] = round(time.monotonic() - begin, 4)
