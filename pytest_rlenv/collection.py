"""Tasks as pytest nodes: a virtual module per environment, a function item per rollout.

The nodes use pytest's public constructors only, and sit at the rootdir below a ``Directory`` node: any other
place makes ``--lf`` drop them or hides the root conftest's hooks and fixtures from them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pytest_rlenv.agents.loading import agent_names
from pytest_rlenv.arguments import PREFIX
from pytest_rlenv.environments.layouts import manifest_of
from pytest_rlenv.errors import RlenvError
from pytest_rlenv.execution import Judged, Planned, SelectedTask
from pytest_rlenv.reports.messages import failure_text, usage_text
from pytest_rlenv.rollout import Rollout
from pytest_rlenv.state import INI_MARKS, TAKEN_MARKS, get_run, is_dry, is_worker
from pytest_rlenv.verdict import Outcome, judge

FIXTURES = pytest.StashKey[Any]()
"""What pytest knows of the fixtures of an environment's items."""


def test_rollout(rollout: Any, request: pytest.FixtureRequest) -> None:
    """The test of a task: its verdict. Errors and skips never come this far."""
    judged: Judged | None = request.node.judged
    if judged is None or not isinstance(rollout, Rollout):
        pytest.fail(
            "rlenv: an overridden `rollout` fixture must ask for the original one and return a Rollout",
            pytrace=False,
        )
    judged = replace(judged, rollout=rollout, verdict=judge(rollout, judged.expectation))
    if judged.verdict.outcome is not Outcome.PASSED:
        pytest.fail(failure_text(judged), pytrace=False)


class RolloutItem(pytest.Function):
    """One rollout: a task with an agent."""

    def __init__(self, *, planned: Planned, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.planned = planned
        self.judged: Judged | None = None
        for mark in task_marks(planned, self.config):
            self.add_marker(mark)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Return where a reader finds the task: its own file, where that is in the tree."""
        task = self.planned.task
        definition = task.folder / manifest_of(task.ref.framework)
        inside = task.environment.revision is None and definition.is_relative_to(self.config.rootpath)
        # there is always a line: pytest needs one to report a skip of a fixture's
        return (definition if inside else self.config.rootpath, 0, self.nodeid)


class TaskNode(pytest.Collector):
    """A task with several rollouts."""

    def __init__(self, *, rollouts: Sequence[Planned], **keywords: Any) -> None:
        super().__init__(**keywords)
        self.rollouts = rollouts

    def collect(self) -> Iterable[RolloutItem]:
        """Return the rollouts, named by their agents."""
        return [rollout_item(self, planned.agent_name, planned) for planned in self.rollouts]


class EnvironmentNode(pytest.Module):
    """A virtual module: one environment's tasks."""

    obj = None  # no Python module stands behind it

    def __init__(
        self,
        *,
        tasks: Sequence[SelectedTask],
        agents: Sequence[str],
        chosen: Sequence[str] = (),
        **keywords: Any,
    ) -> None:
        super().__init__(**keywords)
        self.tasks = tasks
        self.agents = agents
        self.chosen = chosen

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """Return an item for each rollout, below a node for each task if a task has several."""
        return task_nodes(self, self.tasks, self.agents, self.chosen)


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
        return task_nodes(self, tasks, settings.agent)


class RootDirectory(pytest.Directory):
    """The rootdir, where the arguments produced no node for it.

    It is collected like any other: pytest 9.1 reads a conftest's fixtures when its directory is collected.
    """

    def collect(self) -> Iterable[pytest.Collector]:
        """Return the environments of the run."""
        return environment_nodes(self)


def task_nodes(
    parent: pytest.Collector, tasks: Sequence[SelectedTask], agents: Sequence[str], chosen: Sequence[str] = ()
) -> Iterator[pytest.Item | pytest.Collector]:
    """Yield the nodes of tasks below ``parent``.

    Args:
        parent: the environment's node.
        tasks: its selected tasks.
        agents: as the user named them; with more than one, each task gets a node of its own.
        chosen: if not empty, only these: ``task`` or ``task::agent``.
    """
    names = agent_names(agents)
    wanted = set(chosen)
    for task in tasks:
        rollouts = [
            Planned(task, agent, name)
            for agent, name in names.items()
            if not wanted or task.id in wanted or f"{task.id}::{name}" in wanted
        ]
        if len(names) > 1 and rollouts:
            yield TaskNode.from_parent(parent, name=task.id, rollouts=rollouts)
        elif rollouts:
            yield rollout_item(parent, task.id, rollouts[0])


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


def task_marks(planned: Planned, config: pytest.Config) -> Iterator[pytest.MarkDecorator]:
    """Yield the marks of a task: its tags, and ``rlenv_task`` with its metadata for ``-m``."""
    ref = planned.task.ref
    attributes = {key: value for key, value in ref.attributes.items() if key.isidentifier()}
    yield pytest.mark.rlenv_task(**{**attributes, "agent": planned.agent_name, "framework": ref.framework})
    yield from tag_marks(planned, config)


def tag_marks(planned: Planned, config: pytest.Config) -> Iterator[pytest.MarkDecorator]:
    """Yield a mark for each tag of a task."""
    for tag in planned.task.ref.tags:
        yield getattr(pytest.mark, mark_name(tag, config))


def mark_name(tag: str, config: pytest.Config) -> str:
    """Return a tag as a word that ``-m`` can take: ``file-operations`` is ``file_operations``.

    A word that means something to pytest or to a plugin (``skip``, ``xfail``, ``timeout``) becomes
    ``tag_skip``: a task repository must not turn itself green.
    """
    word = re.sub(r"\W", "_", tag).lstrip("_")
    return word if word.isidentifier() and word not in taken_marks(config) else f"tag_{word}"


def taken_marks(config: pytest.Config) -> frozenset[str]:
    """Return the marks that pytest and plugins have registered, less those of the user's ini file."""
    if TAKEN_MARKS not in config.stash:
        of_the_user = config.stash[INI_MARKS]
        theirs = [line for line in config.getini("markers") if line not in of_the_user]
        config.stash[TAKEN_MARKS] = frozenset(re.split(r"[:(\s]", line, maxsplit=1)[0] for line in theirs)
    return config.stash[TAKEN_MARKS]


def register_marks(config: pytest.Config, tasks: Iterable[SelectedTask]) -> None:
    """Register the tasks' tags, so that strict markers accept them."""
    for name in sorted({mark_name(tag, config) for task in tasks for tag in task.ref.tags}):
        config.addinivalue_line("markers", f"{name}: tag of tasks of RL environments")


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
    tasks = {id(task): task for item in session.items if (task := _task_of(item)) is not None}
    try:
        run.fetch(list(tasks.values()))
    except RlenvError as error:
        if not is_worker(session.config):
            raise pytest.UsageError(usage_text(error)) from None
        run.fetch_problem = error


def _task_of(item: pytest.Item) -> SelectedTask | None:
    planned = getattr(item, "planned", None) or getattr(getattr(item, "callspec", None), "params", {}).get(
        "rlenv_task"
    )
    return planned.task if isinstance(planned, Planned) else None
