"""Tasks as pytest nodes: a virtual module per environment, a function item per rollout.

The nodes use pytest's public constructors only, and sit at the rootdir below a ``Directory`` node: any other
place makes ``--lf`` drop them or hides the root conftest's hooks and fixtures from them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

from pytest_rlenv.arguments import PREFIX
from pytest_rlenv.errors import RlenvError
from pytest_rlenv.execution import Planned, SelectedTask
from pytest_rlenv.reports.messages import failure_text, usage_text
from pytest_rlenv.rollout import Rollout
from pytest_rlenv.rollout_ids import SEPARATOR, RolloutId, rollouts_of_a_task
from pytest_rlenv.secrets import SECRETS
from pytest_rlenv.state import JUDGED, get_run, is_dry, is_worker
from pytest_rlenv.task_marks import register_marks, task_marks
from pytest_rlenv.verdict import Outcome, judge

Named = tuple[tuple[str, ...], Planned]
"""A rollout with its names in a node id, the task's first."""

FIXTURES = pytest.StashKey[Any]()
"""What pytest knows of the fixtures of an environment's items."""


def test_rollout(rollout: Any, request: pytest.FixtureRequest) -> None:
    """The test of a task: its verdict. Errors and skips never come this far."""
    judged = request.node.stash.get(JUDGED, None)
    if judged is None or not isinstance(rollout, Rollout):
        pytest.fail(
            "rlenv: an overridden `rollout` fixture must ask for the original one and return a Rollout",
            pytrace=False,
        )
    judged = replace(judged, rollout=rollout, verdict=judge(rollout, judged.expectation))
    if judged.verdict.outcome is not Outcome.PASSED:
        pytest.fail(SECRETS.redact(failure_text(judged)), pytrace=False)


class RolloutItem(pytest.Function):
    """One rollout: a task with an agent."""

    def __init__(self, *, planned: Planned, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.planned = planned
        for mark in task_marks(planned, self.config):
            self.add_marker(mark)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Return where a reader finds the task: its own file, where that is in the tree."""
        task = self.planned.task
        where = self.config.rootpath
        if task.ref.manifest is not None and task.environment.revision is None:
            definition = task.folder / task.ref.manifest
            where = definition if definition.is_relative_to(where) else where
        return (where, 0, self.nodeid)  # there is always a line: pytest needs one to report a fixture's skip


class TaskNode(pytest.Collector):
    """A task with several rollouts, or one agent's several attempts at it.

    Args:
        rollouts: what is below it.
        depth: how many levels of their ids are above.
    """

    def __init__(self, *, rollouts: Sequence[Named], depth: int, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.rollouts = rollouts
        self.depth = depth

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """Return the rollouts, named by their agents and attempts."""
        return rollout_nodes(self, self.rollouts, self.depth)


class EnvironmentNode(pytest.Module):
    """A virtual module: one environment's tasks."""

    obj = None  # no Python module stands behind it

    def __init__(
        self,
        *,
        tasks: Sequence[SelectedTask],
        agents: Sequence[str],
        attempts: int = 1,
        chosen: Sequence[str] = (),
        **keywords: Any,
    ) -> None:
        super().__init__(**keywords)
        self.tasks = tasks
        self.rollouts = rollouts_of_a_task(agents, attempts)
        self.chosen = chosen

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """Return an item for each rollout, below a node for each task if a task has several."""
        return task_nodes(self, self.tasks, self.rollouts, self.chosen)


class FileNode(pytest.Module):
    """A ``*.rlenv.toml`` file."""

    obj = None  # no Python module stands behind it

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """Resolve the file's environment and return its rollouts."""
        from pytest_rlenv.rlenv_file import read_rlenv_file, selected_tasks

        try:
            file = read_rlenv_file(self.path)
            run = get_run(self.config)
            settings = file.settings(run.settings)
            environment = run.resolve_once(
                file.repo, read_metadata=wants_metadata(self.config), base=self.path.parent, settings=settings
            )
        except RlenvError as error:
            raise self.CollectError(usage_text(error)) from None
        tasks = selected_tasks(file, environment, source=self.path.name)
        register_marks(self.config, tasks)
        return task_nodes(self, tasks, rollouts_of_a_task(settings.agent, settings.attempts))


class RootDirectory(pytest.Directory):
    """The rootdir, where the arguments produced no node for it.

    It is collected like any other: pytest 9.1 reads a conftest's fixtures when its directory is collected.
    """

    def collect(self) -> Iterable[pytest.Collector]:
        """Return the environments of the run."""
        return environment_nodes(self)


def task_nodes(
    parent: pytest.Collector,
    tasks: Sequence[SelectedTask],
    rollouts: Sequence[RolloutId],
    chosen: Sequence[str] = (),
) -> Iterator[pytest.Item | pytest.Collector]:
    """Yield the nodes of tasks below ``parent``.

    Args:
        parent: the environment's node.
        tasks: its selected tasks.
        rollouts: of each task; where there are several, each task gets a node of its own.
        chosen: if not empty, only these: ``task``, ``task::agent``, ``task::2`` or ``task::agent::2``.
    """
    wanted: dict[str, list[str]] = {}
    for text in chosen:
        id_, _, name = text.partition(SEPARATOR)
        wanted.setdefault(id_, []).append(name)
    for task in tasks:
        kept = rollouts
        if wanted:
            kept = [each for each in rollouts if any(map(each.is_called, wanted.get(task.id, ())))]
        named = [
            ((task.id, *each.levels), Planned(task, each.agent, each.agent_name, each.attempt))
            for each in kept
        ]
        yield from rollout_nodes(parent, named, depth=0)


def rollout_nodes(
    parent: pytest.Collector, rollouts: Sequence[Named], depth: int
) -> Iterator[pytest.Item | pytest.Collector]:
    """Yield the nodes of rollouts below ``parent``: items at the last level of their ids, else collectors."""
    for name, group in groupby(rollouts, key=lambda named: named[0][depth]):
        below = list(group)
        levels, planned = below[0]
        if len(levels) > depth + 1:
            yield TaskNode.from_parent(parent, name=name, rollouts=below, depth=depth + 1)
        else:
            yield rollout_item(parent, name, planned)


def rollout_item(parent: pytest.Collector, name: str, planned: Planned) -> RolloutItem:
    """Return the item of one rollout.

    All of one environment see the same fixtures, which pytest looks up once for the first of them, as it does
    for the items of a parametrized test: looking them up for each is most of what 10,000 items would cost.
    """
    module = parent.getparent(pytest.Module)
    known = None if module is None else module.stash.get(FIXTURES, None)
    item: RolloutItem = RolloutItem.from_parent(
        parent, name=name, callobj=test_rollout, planned=planned, fixtureinfo=known
    )
    if known is None and module is not None:
        module.stash[FIXTURES] = getattr(item, "_fixtureinfo", None)
    return item


def wants_metadata(config: pytest.Config) -> bool:
    """Return whether the tasks' own metadata is needed to select by ``-m``."""
    return bool(config.option.markexpr)


def top_nodes(session: pytest.Session, present: Sequence[Any]) -> list[pytest.Collector]:
    """Return what to add to the nodes that pytest's arguments produced, so that the environments are there.

    Args:
        session: the pytest session.
        present: the nodes that pytest's arguments produced.
    """
    root = session.config.rootpath
    for node in present:
        for ancestor in node.listchain():
            if isinstance(ancestor, pytest.Directory) and ancestor.path == root:
                return environment_nodes(ancestor)
    return [RootDirectory.from_parent(session, path=root)]


def environment_nodes(parent: pytest.Directory) -> list[pytest.Collector]:
    """Return a node for each environment of the run, below the rootdir's own node."""
    run = get_run(parent.config)
    nodes: list[pytest.Collector] = []
    for environment in run.environments:
        tasks = [SelectedTask(environment, ref) for ref in environment.tasks]
        register_marks(parent.config, tasks)
        name = PREFIX + environment.name
        nodes.append(
            EnvironmentNode.from_parent(
                parent,
                path=parent.config.rootpath,
                name=name,
                nodeid=name,
                tasks=tasks,
                agents=run.settings.agent,
                attempts=run.settings.attempts,
                chosen=run.chosen.get(environment.name, ()),
            )
        )
    return nodes


def fetch_selected(session: pytest.Session) -> None:
    """Bring the files of the selected tasks here, all in one go; a run that only lists brings none.

    Raises:
        UsageError: the Hub refuses, in the one process of a run without workers. A worker cannot end the
            run, so there the items that need the files are errors.
    """
    if is_dry(session.config):
        return
    run = get_run(session.config)
    tasks = {id(task): task for item in session.items if (task := task_of(item)) is not None}
    try:
        run.fetching.fetch(list(tasks.values()))
    except RlenvError as error:
        if not is_worker(session.config):
            raise pytest.UsageError(usage_text(error)) from None
        run.fetching.problem = error


def task_of(item: pytest.Item) -> SelectedTask | None:
    """Return the task that an item runs, ``None`` for an item that is none of ours."""
    planned = getattr(item, "planned", None) or getattr(getattr(item, "callspec", None), "params", {}).get(
        "rlenv_task"
    )
    return planned.task if isinstance(planned, Planned) else None
