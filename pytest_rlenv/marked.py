"""Users' own tests over rollouts: ``@pytest.mark.rlenv("org/repo")`` and the ``rollout`` fixture."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_rlenv.collection import wants_metadata
from pytest_rlenv.errors import RlenvError
from pytest_rlenv.execution import Planned
from pytest_rlenv.reports.messages import usage_text
from pytest_rlenv.rlenv_file import RlenvFile, check_request, selected_tasks
from pytest_rlenv.rollout_ids import rollouts_of_a_task
from pytest_rlenv.state import get_run
from pytest_rlenv.task_marks import register_marks, tag_marks

FIXTURES = ("rollout", "rlenv_task", "rlenv_agent", "rlenv_sandbox", "rlenv_expectation")


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Run a marked test once for each task and agent.

    A mark on a whole module or class counts only for the tests that use one of our fixtures.
    """
    own = any(mark.name == "rlenv" for mark in metafunc.definition.own_markers)
    if not own and not set(FIXTURES) & set(metafunc.fixturenames):
        return
    mark = metafunc.definition.get_closest_marker("rlenv")
    assert mark is not None
    try:
        plans = _plans(metafunc.config, mark)
    except RlenvError as error:
        raise pytest.Collector.CollectError(usage_text(error)) from None
    # Before pytest 9, the closure leaves out what an overridden fixture asks for.
    if "rlenv_task" not in metafunc.fixturenames:
        metafunc.fixturenames.append("rlenv_task")
    metafunc.parametrize(
        "rlenv_task",
        [pytest.param(plan, marks=list(tag_marks(plan, metafunc.config))) for _, plan in plans],
        indirect=True,
        ids=["-".join(names) for names, _ in plans],
    )


def _plans(config: pytest.Config, mark: pytest.Mark) -> list[tuple[tuple[str, ...], Planned]]:
    """Return what the test is to run, each with its names: the task's, then the agent's and the attempt's."""
    asked = _asked(mark)
    run = get_run(config)
    settings = asked.settings(run.settings, over_command_line=True)
    environment = run.resolve_once(
        asked.repo, read_metadata=wants_metadata(config), base=config.rootpath, settings=settings
    )
    tasks = selected_tasks(asked, environment, source="the test's mark")
    register_marks(config, tasks)
    rollouts = rollouts_of_a_task(settings.agent, settings.attempts)
    return [
        ((task.id, *each.levels), Planned(task, each.agent, each.agent_name, each.attempt))
        for task in tasks
        for each in rollouts
    ]


def _asked(mark: pytest.Mark) -> RlenvFile:
    """Read the mark: the same words as in a ``*.rlenv.toml`` file."""
    keywords: dict[str, Any] = dict(mark.kwargs)
    if len(mark.args) == 1:
        keywords["repo"] = mark.args[0]
    hint = 'write @pytest.mark.rlenv("org/repo", agent="oracle", task="hello-*")'
    return check_request(keywords, where="@pytest.mark.rlenv", hint=hint)
