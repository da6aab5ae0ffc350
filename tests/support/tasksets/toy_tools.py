"""A taskset whose tasks have a tool."""

from __future__ import annotations

from collections.abc import Iterator

import verifiers.v1 as vf

__all__ = ["ToolsTaskset"]


class ToolsTask(vf.Task[vf.TaskData]):
    @classmethod
    def toolsets(cls, config) -> list:
        return ["stands for a toolset: nobody serves it here"]


class ToolsTaskset(vf.Taskset[ToolsTask]):
    def load(self) -> Iterator[ToolsTask]:
        yield ToolsTask(vf.TaskData(id="one", prompt="Search."), self.config.task)
