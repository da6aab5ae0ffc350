"""Choose among the tasks that were found: by globs, by number, by exact id."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from pytest_rlenv.environments.layouts import IN_FOLDERS
from pytest_rlenv.environments.model import Environment, TaskRef
from pytest_rlenv.errors import SpecError

_EXAMPLES = 5


@dataclass(frozen=True)
class Selection:
    """Which tasks to keep.

    Globs are matched, with case, on a task's id, and its path where it has a folder of its own, and on the
    last parts of both.

    Attributes:
        include: keep a task if any of these matches; empty keeps all.
        exclude: then drop a task if any of these matches.
        limit: then keep the first so many of each environment.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    limit: int | None = None


def select(environments: Sequence[Environment], selection: Selection) -> list[Environment]:
    """Return the environments with the selected tasks only.

    Raises:
        SpecError: if a glob matches no task in any environment, if everything is excluded, or if the limit
            is below 1. A typing mistake must not look like a green run.
    """
    if selection.limit is not None and selection.limit < 1:
        raise SpecError(f"--rlenv-limit {selection.limit} leaves no task", hint="give a number of 1 or more")
    found = [task for environment in environments for task in environment.tasks]
    for option, globs in (("--rlenv-task", selection.include), ("--rlenv-exclude-task", selection.exclude)):
        for glob in globs:
            if not any(_matches(task, glob) for task in found):
                raise SpecError(
                    f"{option} {glob!r} matches none of {len(found)} tasks", hint=_near(glob, found)
                )
    chosen = [narrowed(each, _chosen(each.tasks, selection)) for each in environments]
    if found and not any(environment.tasks for environment in chosen):
        raise SpecError(
            f"all {len(found)} tasks are deselected by --rlenv-task and --rlenv-exclude-task",
            hint="widen one of them",
        )
    return chosen


def narrowed(environment: Environment, tasks: tuple[TaskRef, ...]) -> Environment:
    """Return the environment with some of its tasks only, which remembers the ids of the others."""
    kept = {task.id for task in tasks}
    others = tuple(task.id for task in environment.tasks if task.id not in kept)
    return replace(environment, tasks=tasks, unselected=(*environment.unselected, *others))


def pick(environment: Environment, ids: Iterable[str]) -> tuple[TaskRef, ...]:
    """Return the tasks with these exact ids, in the order asked for, each once.

    Raises:
        SpecError: for an id that is not there.
    """
    by_id = {task.id: task for task in environment.tasks}
    unique = list(dict.fromkeys(ids))
    for wanted in unique:
        if wanted not in by_id:
            raise SpecError(
                f"not found: rlenv:{environment.name}::{wanted}", hint=_near(wanted, environment.tasks)
            )
    return tuple(by_id[wanted] for wanted in unique)


def _chosen(tasks: tuple[TaskRef, ...], selection: Selection) -> tuple[TaskRef, ...]:
    kept = [
        task
        for task in tasks
        if (not selection.include or any(_matches(task, glob) for glob in selection.include))
        and not any(_matches(task, glob) for glob in selection.exclude)
    ]
    return tuple(kept[: selection.limit])


def matches_name(name: str, glob: str) -> bool:
    """Return whether a glob matches, with case, a name or its last part."""
    # Equality too: a name with [brackets] would otherwise never match itself.
    names = {name, _last(name)}
    return glob in names or any(fnmatchcase(each, glob) for each in names)


def _matches(task: TaskRef, glob: str) -> bool:
    if matches_name(task.id, glob):
        return True
    return task.framework in IN_FOLDERS and matches_name(task.path, glob)  # others share a folder


def _last(text: str) -> str:
    return text.rpartition("/")[2]


def _near(wanted: str, tasks: Iterable[TaskRef]) -> str:
    ids = [task.id for task in tasks]
    word = _last(wanted.strip("*"))
    near = [id_ for id_ in ids if word and word.lower() in id_.lower()][:_EXAMPLES]
    if not near:
        by_last = {_last(id_): id_ for id_ in ids}
        near = [by_last[name] for name in difflib.get_close_matches(word, by_last, n=_EXAMPLES, cutoff=0.5)]
    if near:
        return f"did you mean {', '.join(near)}?"
    return f"there are, for example, {', '.join(ids[:_EXAMPLES])}" if ids else "there are no tasks"
