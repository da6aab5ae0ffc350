"""What ``-m`` sees of a task: its tags and its metadata, as marks that cannot turn it green."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from pytest_rlenv.execution import Planned, SelectedTask
from pytest_rlenv.state import INI_MARKS, TAKEN_MARKS


def task_marks(planned: Planned, config: pytest.Config) -> Iterator[pytest.MarkDecorator]:
    """Yield the marks of a task: its tags, and ``rlenv_task`` with its metadata for ``-m``."""
    ref = planned.task.ref
    attributes = {key: value for key, value in ref.attributes.items() if key.isidentifier()}
    plain = _plain_mark(planned.agent_name, ref.framework)
    yield plain.with_args(**{**attributes, **plain.kwargs}) if attributes else plain
    yield from tag_marks(planned, config)


@cache
def _plain_mark(agent: str, framework: str) -> pytest.MarkDecorator:
    """Return the mark of a task without metadata: one object for all of them, since there may be 10,000."""
    return pytest.mark.rlenv_task.with_args(agent=agent, framework=framework)


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
