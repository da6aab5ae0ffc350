from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from .task import Task, TaskConfig


class TasksetConfig(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str = ""
    task: TaskConfig = TaskConfig()


class Taskset:
    INFINITE: ClassVar[bool] = False
    task_class: ClassVar[type[Task]] = Task
    config_type: ClassVar[type[TasksetConfig]] = TasksetConfig
    most: int | None = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)

    def __class_getitem__(cls, parameters):
        """Take ``Taskset[MyTask, MyConfig]`` as Verifiers does."""
        task, config = parameters if isinstance(parameters, tuple) else (parameters, TasksetConfig)
        return type(cls.__name__, (cls,), {"task_class": task, "config_type": config})

    def __init__(self, config) -> None:
        self.config = config

    @classmethod
    def toolsets(cls, config) -> list:
        return []

    def load(self) -> Iterable[Task]:
        raise NotImplementedError

    @property
    def bounded(self) -> bool:
        return not self.INFINITE or self.most is not None

    def take(self, most: int):
        view = copy.copy(self)
        view.most = most
        return view

    def __iter__(self):
        for index, task in enumerate(itertools.islice(self.load(), self.most)):
            task.data = task.data.model_copy(update={"idx": index})
            yield task
