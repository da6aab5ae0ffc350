"""A taskset without end, whose tasks have no ids, no gold check and no reward."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import verifiers.v1 as vf

__all__ = ["EndlessTaskset"]


class EndlessTask(vf.Task[vf.TaskData]):
    pass


class EndlessTaskset(vf.Taskset[EndlessTask]):
    INFINITE = True

    def load(self) -> Iterator[EndlessTask]:
        for number in itertools.count():
            yield EndlessTask(vf.TaskData(prompt=f"Say {number}."), self.config.task)
