"""Settles which sandbox a run uses where the user named none: once, for all of its processes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_rlenv.environments.model import Environment
from pytest_rlenv.errors import EngineUnavailable, FetchFailed, TaskInvalid, Unsupported
from pytest_rlenv.execution import SelectedTask
from pytest_rlenv.frameworks.protocol import TellsWhere, get_framework
from pytest_rlenv.sandboxes.auto import Choice, Need, choose
from pytest_rlenv.sandboxes.loading import NONE, create

if TYPE_CHECKING:
    from pytest_rlenv.run import Run


def choose_for_tasks(run: Run) -> Choice:
    """Return the sandbox for a run whose tasks are known.

    Raises:
        EngineUnavailable: none is there that all of these tasks can run in, with what was tried.
        SpecError: the Hub refuses to give the tasks' files, which tell what the tasks need.
    """
    context = run.sandbox_context()
    if run.environments and not any(_uses_boxes(environment, run) for environment in run.environments):
        return Choice(NONE, create(NONE, context))
    return choose(context, lambda: _needs(run))


def sandbox_of(run: Run) -> Choice:
    """Return a sandbox for this process of the run, as all others have it.

    Raises:
        EngineUnavailable: there is none to choose. SpecError: it cannot be made.
    """
    if run.sandbox_name is None:
        return _choose_once(run)
    return Choice(run.sandbox_name, create(run.sandbox_name, run.sandbox_context()))


def _choose_once(run: Run) -> Choice:
    """Choose for a run of which no tasks are known yet, as only a mark or a file names them.

    The first process that needs a sandbox chooses; all others do as it did, or fail as it did.
    """
    from filelock import FileLock

    shared = run.shared_dir()
    stored = shared / "sandbox.json"
    with FileLock(shared / "sandbox.lock"):
        if not stored.exists():
            try:
                choice = choose(run.sandbox_context(), lambda: ())
            except EngineUnavailable as error:
                _store(stored, {"message": error.message, "hint": error.hint, "detail": error.detail})
                raise
            _store(stored, {"name": choice.name})
            return choice
    found = json.loads(stored.read_text(encoding="utf-8"))
    if "name" not in found:
        raise EngineUnavailable(found["message"], hint=found["hint"], detail=found["detail"])
    return Choice(found["name"], create(found["name"], run.sandbox_context()))


def where_tasks_run(run: Run) -> Iterator[str]:
    """Yield where tasks run that bring something of their own to run in, a line for each framework."""
    for name in sorted({task.framework for environment in run.environments for task in environment.tasks}):
        framework = get_framework(name)
        if isinstance(framework, TellsWhere):
            yield f"{name}: {framework.where(run.settings)}"


def _uses_boxes(environment: Environment, run: Run) -> bool:
    frameworks = {task.framework for task in environment.tasks if task.problem is None}
    frameworks = frameworks or {task.framework for task in environment.tasks}  # their errors need no more
    return not frameworks or any(get_framework(name).uses_boxes(run.settings) for name in frameworks)


def _needs(run: Run) -> Iterator[Need]:
    """Yield what the run's tasks need: nothing, where one cannot be fetched or read, as that is its error."""
    with contextlib.suppress(FetchFailed):
        run.fetch_environments()
    for environment in run.environments:
        for ref in environment.tasks:
            if not get_framework(ref.framework).uses_boxes(run.settings):
                continue
            task = SelectedTask(environment, ref)
            try:
                images = get_framework(ref.framework).images(task.folder, task.id, build=run.settings.build)
            except Unsupported as reason:
                yield Need(task.id, refusal=reason.reason)
            except (TaskInvalid, OSError):
                yield Need(task.id)
            else:
                yield Need(task.id, images)


def _store(path: Path, facts: dict[str, str]) -> None:
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(facts), encoding="utf-8")
    partial.replace(path)
