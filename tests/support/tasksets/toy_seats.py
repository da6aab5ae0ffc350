"""A taskset with an environment of its own: a solver and a judge take part."""

from __future__ import annotations

from collections.abc import Iterator

import verifiers.v1 as vf

__all__ = ["SeatsEnv", "SeatsTaskset"]


class SeatsTask(vf.Task[vf.TaskData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace) -> float:
        return float("42" in trace.last_reply)


class SeatsTasksetConfig(vf.TasksetConfig):
    own_tasks: bool = False
    """Give the agents tasks that the environment makes itself."""


class SeatsTaskset(vf.Taskset[SeatsTask, SeatsTasksetConfig]):
    def load(self) -> Iterator[SeatsTask]:
        yield SeatsTask(vf.TaskData(id="one", prompt="What is the answer?"), self.config.task)


class SeatsConfig(vf.EnvConfig):
    solver: vf.AgentConfig = vf.AgentConfig()
    judge: vf.AgentConfig = vf.AgentConfig()


class SeatsEnv(vf.Env[SeatsConfig]):
    async def run(self, task, agents) -> None:
        if self.config.taskset.own_tasks:
            task = SeatsTask(task.data)
        await agents.solver.run(task)
        await agents.judge.run(task)
