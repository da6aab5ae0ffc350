"""Tasks that are no folders: what a framework's finder is given, and how what they find comes together.

The shape of the files decides whose tasks they are, whatever the card says. Folders with ``task.toml`` are
found by their names alone (``discovery.py``); a finder may open files, and bring them here first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from pytest_rlenv.environments import nothing_found
from pytest_rlenv.environments.layouts import FRAMEWORKS, IN_FOLDERS
from pytest_rlenv.environments.model import TaskRef


@dataclass(frozen=True)
class Place:
    """An environment whose files are known by name.

    Attributes:
        title: the environment as shown to people.
        name: as in node ids: ``org/repo``, or a path.
        root: the folder on this machine where its files are, or will be once they are brought.
        files: those outside of task folders, relative to the root, with ``/`` between the parts.
        base: the folder of the environment to stay in, ``""`` for all of it. All of ``files`` are in it.
        tags: the card's.
        has_folder_tasks: True if it has tasks that are folders.
        repo_id: ``org/repo`` on the Hub, ``None`` for a local folder.
        revision: the commit on the Hub.
        taskset: the id of a taskset that the user named in the place of files: then there are none.
        bring: makes sure that these files are below ``root``, whole or not at all; raises FetchFailed or
            SpecError where one cannot be had. Costs nothing for a local folder and for what is there.
    """

    title: str
    name: str
    root: Path
    files: tuple[str, ...]
    base: str = ""
    tags: tuple[str, ...] = ()
    has_folder_tasks: bool = False
    repo_id: str | None = None
    revision: str | None = None
    taskset: str | None = None
    bring: Callable[[Sequence[str]], None] = lambda _: None


@dataclass(frozen=True)
class Finding:
    """What a finder found.

    Attributes:
        tasks: each with the finder's own framework.
        warnings: one line each, shown once per run.
        reason: why there are none, though something of its kind is there: what was seen and what to do.
    """

    tasks: tuple[TaskRef, ...] = ()
    warnings: tuple[str, ...] = ()
    reason: str = ""


class TaskFinder(Protocol):
    """Finds the tasks of one framework."""

    @property
    def framework(self) -> str:
        """Its framework's name."""
        ...

    @property
    def looks_for(self) -> str:
        """What it looks for, in a few words, for the message that there are no tasks."""
        ...

    def find(self, place: Place, *, asked: bool) -> Finding:
        """Return the framework's tasks in a place. Called once per environment, in the controller.

        Args:
            place: where to look.
            asked: True if the user named this framework: then look wherever it might be. Else open only
                files that are plainly this framework's by their names or the card's tags, and bring none of
                the Hub for a mere guess where there are tasks in folders.

        Raises:
            SpecError: something is there, and is wrong, for the whole environment. What is wrong with one
                task is its ``problem``.
        """
        ...


@dataclass(frozen=True)
class Others:
    """Where tasks that are no folders are looked for.

    Attributes:
        make_finders: makes those of all frameworks whose tasks are no folders; most environments need none.
        framework: the only framework that the user wants; ``None`` is all.
        opened: how the names of the files end that finders open beside tasks in folders, unless asked for.
    """

    make_finders: Callable[[], tuple[TaskFinder, ...]] = tuple
    framework: str | None = None
    opened: tuple[str, ...] = ("",)

    @cached_property
    def finders(self) -> tuple[TaskFinder, ...]:
        """All finders."""
        return self.make_finders()

    @property
    def looked_for(self) -> str:
        """What was looked for, as the message says it that nothing was found."""
        wanted = [finder.looks_for for finder in self._wanted()]
        if self.framework is None or self.framework in IN_FOLDERS:
            wanted.insert(0, nothing_found.IN_FOLDERS)
        only = f" (for nothing else, by --rlenv-framework {self.framework})" if self.framework else ""
        return "; ".join(wanted) + only

    def join(self, folders: Sequence[TaskRef], place: Place) -> tuple[tuple[TaskRef, ...], Finding]:
        """Return all tasks of an environment that are wanted, and what was found beside folders.

        Args:
            folders: its tasks that are folders.
            place: where to look for others.

        Raises:
            SpecError: what a finder met is wrong for the whole environment.
        """
        if folders and self.framework is None and not any(map(self._is_opened, place.files)):
            tasks = _together(folders, ())
            return tasks, Finding(tasks)
        place = replace(place, has_folder_tasks=bool(folders))
        found = [finder.find(place, asked=self.framework is not None) for finder in self._wanted()]
        kept = [task for task in folders if self.framework in (None, task.framework)]
        tasks = _together(kept, [task for each in found for task in each.tasks])
        reasons = [each.reason for each in found if each.reason]
        if not tasks:
            reasons = [*(reasons or _only_tagged(place.tags)), *self._of_others(folders)]
        warnings = tuple(line for each in found for line in each.warnings)
        return tasks, Finding(tasks, warnings, "; ".join(reasons))

    def _of_others(self, folders: Sequence[TaskRef]) -> list[str]:
        """Return what there is in folders for a user who named another framework.

        Finders are not asked for this: one may have to start a server to know.
        """
        counts = Counter(task.framework for task in folders)
        told = ", ".join(f"{count} task{'s' * (count > 1)} of {name}" for name, count in counts.items())
        return [f"it has {told}: leave --rlenv-framework out, or name that framework"] if told else []

    def _is_opened(self, file: str) -> bool:
        return file.endswith(self.opened)

    def _wanted(self) -> list[TaskFinder]:
        return [finder for finder in self.finders if self.framework in (None, finder.framework)]


FOLDERS_ONLY = Others()


def _together(folders: Sequence[TaskRef], others: Sequence[TaskRef]) -> tuple[TaskRef, ...]:
    """Return tasks of several frameworks in the order of their ids, which are made different.

    Those of folders are what they are.
    """
    uses = Counter(task.id for task in (*folders, *others))
    taken = {task.id for task in folders} | {id_ for id_, count in uses.items() if count == 1}
    apart = [task if uses[task.id] == 1 else _renamed(task, taken) for task in others]
    return tuple(sorted((*folders, *apart), key=lambda task: task.id))


def _renamed(task: TaskRef, taken: set[str]) -> TaskRef:
    name = id_ = f"{task.framework}/{task.id}"
    number = 1
    while id_ in taken:
        number += 1
        id_ = f"{name}#{number}"
    taken.add(id_)
    return replace(task, id=id_)


def _only_tagged(tags: Sequence[str]) -> list[str]:
    named = [tag for tag in tags if tag in FRAMEWORKS and tag not in IN_FOLDERS]
    return [f"it is tagged {', '.join(named)}, and has no files of that shape"] if named else []
