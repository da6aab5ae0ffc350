"""A tiny framework whose tasks are lines of a file, to stand in for those whose tasks are no folders.

``openenv``'s are in ``guess.jsonl``, ``nemo-gym``'s in ``rows.jsonl``. :func:`install` puts it in their
place; a project's ``conftest.py`` calls it for processes of their own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.scripted_episodes import KINDS

import pytest_rlenv.frameworks.finders as finders
import pytest_rlenv.frameworks.protocol as protocol
from pytest_rlenv.agents.nop import NopAgent
from pytest_rlenv.agents.oracle import OracleAgent
from pytest_rlenv.environments.finders import Finding, Others, Place
from pytest_rlenv.environments.layouts import NEMO_GYM, OPENENV
from pytest_rlenv.environments.model import TaskRef
from pytest_rlenv.errors import RewardMissing, SpecError, Stage, TaskInvalid
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.playing import play, player_of
from pytest_rlenv.settings import Settings

CONFTEST = "from support.scripted_framework import install\ninstall()\n"
FILES = {OPENENV: "guess.jsonl", NEMO_GYM: "rows.jsonl"}


@dataclass(frozen=True)
class LineFinder:
    framework: str

    @property
    def looks_for(self) -> str:
        return FILES[self.framework]

    def find(self, place: Place, *, asked: bool) -> Finding:
        name = FILES[self.framework]
        files = [path for path in place.files if path.rpartition("/")[2] == name]
        if not files:
            tagged = self.framework in place.tags
            return Finding(reason=f"it is tagged {self.framework}, and has no {name}" if tagged else "")
        place.bring(files)
        tasks = [task for path in files for task in self._tasks(place.root / path, path)]
        return Finding(tuple(tasks))

    def _tasks(self, file: Path, path: str) -> list[TaskRef]:
        found = []
        folder = path.rpartition("/")[0] or "."
        try:
            lines = [json.loads(line) for line in file.read_text().splitlines()]
        except ValueError as error:
            raise SpecError(f"{path} is not JSON: {error}") from None
        for number, row in enumerate(lines, 1):
            data = {"file": FILES[self.framework], "line": number, **row}
            found.append(TaskRef(row["id"], folder, self.framework, data=data, problem=row.get("problem")))
        return found


@dataclass(frozen=True)
class LineTask:
    name: str
    data: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    reward_key: str | None = None
    reward_range: tuple[float, float] | None = None
    expectations: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return f"sha256:{self.data['line']}"

    def run(self, context: RolloutContext) -> None:
        row = self.data
        episode = KINDS[row["kind"]](
            row.get("target", 7),
            row.get("steps", 5),
            breaks=row.get("breaks", False),
            hangs=row.get("hangs", 0.0),
        )
        if isinstance(context.agent, OracleAgent):
            reward = 1.0
        elif isinstance(context.agent, NopAgent):
            reward = row.get("floor", 0.0)
        else:
            player_of(context.agent, "scripted")
            seconds = row.get("seconds")
            deadline = None if seconds is None else time.monotonic() + seconds
            play(
                context.agent,
                episode,
                context,
                deadline=deadline,
                parameters=row.get("parameters"),
                framework="scripted",
            )
            reward = 1.0 if episode.right or "7" in episode.made else 0.0
        with context.clock.stage(Stage.VERIFY):
            if row.get("reward", 0) is None:
                raise RewardMissing("the environment gave no reward")
            context.rollout.rewards = {"reward": reward}


class LineFramework:
    def uses_boxes(self, settings: Settings) -> bool:
        return False

    def load(self, folder: Path, name: str, data: Mapping[str, Any]) -> LineTask:
        if not (folder / data["file"]).is_file():
            raise TaskInvalid(f"{folder / data['file']} is not there")
        return LineTask(name, data)

    def images(self, folder: Path, name: str, *, build: bool = False) -> Sequence[Any]:
        return ()


def scripted_others(settings: Settings, *_: object) -> Others:
    return Others(lambda: (LineFinder(OPENENV), LineFinder(NEMO_GYM)), settings.framework)


def install(set_attribute: Callable[[Any, str, Any], None] = setattr) -> None:
    """Put it in the place of the real ones, in this process; may be called twice."""
    if finders.others is not scripted_others:
        set_attribute(finders, "others", scripted_others)
        where = f"{__name__}:{LineFramework.__name__}"
        set_attribute(protocol, "WHERE", {**protocol.WHERE, OPENENV: where, NEMO_GYM: where})
