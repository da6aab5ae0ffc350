"""What a run was asked for, beside a baseline that has more: what nobody selected is not gone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_rlenv.environments.layouts import IN_FOLDERS
from pytest_rlenv.environments.model import Environment
from pytest_rlenv.execution import Planned
from pytest_rlenv.reports.comparison.pairing import AskedFor, Record
from pytest_rlenv.settings import Settings

TASKS = "tasks"
"""A folder that the ids of tasks in it do without."""

FILE = "selected.json"
"""Where the process that collects leaves it for the one that compares, in the run's shared folder."""


@dataclass(frozen=True)
class Selected:
    """What a run has collected.

    Attributes:
        tasks: the ids that each environment lists, selected or not.
        folders: of each environment the folders that the user named, none for all of it.
        rollouts: environment, task and agent of each test.
    """

    tasks: Mapping[str, frozenset[str]]
    folders: Mapping[str, Sequence[str]]
    rollouts: frozenset[tuple[str, str, str]]

    @classmethod
    def of(cls, environments: Iterable[Environment], plans: Sequence[Planned]) -> Selected:
        """Return what is known when the tests are.

        Args:
            environments: of the command line.
            plans: of the tests that are left to run.
        """
        known = {each.name: each for each in (*(plan.task.environment for plan in plans), *environments)}
        return cls(
            {name: frozenset((*(t.id for t in e.tasks), *e.unselected)) for name, e in known.items()},
            {name: each.folders for name, each in known.items()},
            frozenset((plan.task.environment.name, plan.task.id, plan.agent_name) for plan in plans),
        )

    @classmethod
    def load(cls, shared: Path) -> Selected | None:
        """Return what :meth:`store` left; ``None`` where no process came so far."""
        try:
            raw: dict[str, Any] = json.loads((shared / FILE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        tasks = {name: frozenset(ids) for name, ids in raw["tasks"].items()}
        folders = {name: tuple(named) for name, named in raw["folders"].items()}
        return cls(tasks, folders, frozenset((e, t, a) for e, t, a in raw["rollouts"]))

    def store(self, shared: Path, writer: str) -> None:
        """Leave it for the process that compares. All workers have collected the same, so any may be last.

        Args:
            shared: the folder of what the run's processes share.
            writer: this process's name, no other's.
        """
        tasks = {name: sorted(ids) for name, ids in self.tasks.items()}
        raw = {"tasks": tasks, "folders": dict(self.folders), "rollouts": sorted(self.rollouts)}
        partial = shared / f"{FILE}.{writer}.part"
        partial.write_text(json.dumps(raw), encoding="utf-8")
        partial.replace(shared / FILE)

    def asked_for(self, settings: Settings, run: Sequence[Record]) -> AskedFor:
        """Return what tells of a rollout that only the baseline has whether the run was to have it, too.

        It was if its test never had its turn, or if the run would list its task, were it still there.

        Args:
            settings: the run's.
            run: its records.
        """
        had_a_turn = {(each["environment"], each["task"], each["agent"]) for each in run}
        waiting = self.rollouts - had_a_turn

        def is_missed(record: Record) -> bool:
            environment, task = record["environment"], record["task"]
            is_listed = task in self.tasks.get(environment, ())
            return (environment, task, record["agent"]) in waiting or (
                not is_listed and self._would_list(record, settings)
            )

        return is_missed

    def _would_list(self, record: Record, settings: Settings) -> bool:
        environment, framework = record["environment"], record.get("framework")
        if environment not in self.tasks or not _is_within(record["task"], self.folders[environment]):
            return False
        if framework is None:  # a JUnit file does not say
            return True
        # where tasks are no folders, no more of them than the limit may have been listed
        is_cut = settings.limit is not None and framework not in IN_FOLDERS
        return settings.framework in (None, framework) and not is_cut


def _is_within(task: str, folders: Sequence[str]) -> bool:
    """Return whether a task's id is that of a folder in one of these; where there are none, all are meant."""
    return not folders or any(
        f"{path}/".startswith(f"{folder}/") for folder in folders for path in (task, f"{TASKS}/{task}")
    )
