"""Finds the tasks of a taskset: its interpreter lists them once, for all processes of the run."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from pytest_rlenv.environments.finders import Finding, Place
from pytest_rlenv.environments.layouts import TASKSET_PREFIX, VERIFIERS
from pytest_rlenv.errors import RlenvError, SpecError, Stage
from pytest_rlenv.frameworks.kept import Kept
from pytest_rlenv.frameworks.verifiers.configuring import Given, give_data, user_options
from pytest_rlenv.frameworks.verifiers.process import ChildFailed, TasksetProcess, lease_interpreter
from pytest_rlenv.frameworks.verifiers.rows import Listed, store, task_refs
from pytest_rlenv.settings import Settings

ROWS = (".parquet", ".jsonl", ".arrow", ".csv", ".json")
"""Endings of files with rows, the surest first."""
LIST_LIMIT = 900.0
"""Seconds for a taskset to list its tasks: it may have to download them."""
LIST_BYTES = 4 * 1024**3
"""Of a list of tasks: a taskset that never ends, and does not say so, is to fill no disk."""

_OTHERS = "openenv.yaml"


class VerifiersFinder:
    """Lists the tasks of the taskset that the user names.

    Args:
        settings: of the run.
        kept: where the interpreter stays up to run the tasks; without it, it is ended.
    """

    framework = VERIFIERS
    looks_for = f"a taskset of Verifiers ({TASKSET_PREFIX}ID, or rows and --rlenv-taskset ID)"

    def __init__(self, settings: Settings, kept: Kept | None = None) -> None:
        self._settings = settings
        self._kept = kept

    def find(self, place: Place, *, asked: bool) -> Finding:
        """Return the taskset's tasks, if one is named for this place."""
        taskset = place.taskset or (self._settings.taskset if self._is_for(place, asked) else None)
        if taskset is None:
            return Finding(reason=self._missing(place, asked))
        if self._imports_from(place) and place.repo_id is not None:
            place.bring([path for path in place.files if path.endswith(".py")])
        kept = self._kept or Kept()
        try:
            with lease_interpreter(kept, self._settings, self._paths(place), stage=Stage.RESOLVE) as process:
                try:
                    return self._list(taskset, place, process)
                except ChildFailed as failure:
                    raise _cannot_be_loaded(taskset, failure, process) from None
        except SpecError:
            raise
        except RlenvError as error:
            raise SpecError(
                f"taskset {taskset}: {error.message}", hint=error.hint, detail=error.detail
            ) from error
        finally:
            if self._kept is None:
                kept.close()

    def _is_for(self, place: Place, asked: bool) -> bool:
        """Return whether the taskset that the user names is meant for this place."""
        of_others = place.has_folder_tasks or any(path.rpartition("/")[2] == _OTHERS for path in place.files)
        return place.taskset is None and (asked or not of_others)

    def _missing(self, place: Place, asked: bool) -> str:
        """Return why there are none, where something of Verifiers' is there."""
        if not asked and VERIFIERS not in place.tags:
            return ""
        rows = min((path for path in place.files if path.endswith(ROWS)), key=_likely_rows, default=None)
        what = f"its rows ({rows}) hold" if rows else "it holds"
        return (
            f"{what} no code that gives a reward: name the taskset that scores them with --rlenv-taskset ID, "
            "having installed its package beside verifiers (pip install, or prime env install)"
        )

    def _list(self, taskset: str, place: Place, process: TasksetProcess) -> Finding:
        own = user_options(self._settings.taskset_option)
        fields = process.ask("describe", {"taskset": taskset}, limit=LIST_LIMIT, stage=Stage.RESOLVE)[
            "fields"
        ]
        given = give_data(fields, place, own)
        place.root.mkdir(
            parents=True, exist_ok=True
        )  # else all of a repository would be fetched in its place
        if given.files:
            place.bring(place.files)
        options = {**own, **given.options}
        with tempfile.TemporaryDirectory(prefix="rlenv-verifiers-") as folder:
            into = Path(folder) / "rows.jsonl"
            request = {
                "taskset": taskset,
                "options": options,
                "into": str(into),
                "most_bytes": LIST_BYTES,
                "limit": self._settings.limit,
            }
            told = process.ask("list", request, limit=LIST_LIMIT, stage=Stage.RESOLVE)
            if "unbounded" in told:
                raise SpecError(
                    f"taskset {taskset} has tasks without end ({told['unbounded']}.INFINITE)",
                    hint="take the first N with --rlenv-limit N",
                )
            if not told["count"]:
                return Finding(
                    reason=f"taskset {taskset} has no tasks, configured with {options or 'nothing'}"
                )
            listed = Listed(taskset, options, self._paths(place), told["code"], given.words)
            stored = store(listed, into)
        refs = tuple(task_refs(stored, file=_inside(told["file"], place.root)))
        return Finding(refs, tuple(self._warnings(taskset, place, given, process)))

    def _paths(self, place: Place) -> tuple[str, ...]:
        """Return where a taskset may be imported from beside the interpreter's own places."""
        own = [str(place.root)] if self._imports_from(place) else []
        return (os.getcwd(), *own)  # noqa: PTH109 - as pytest was called

    def _imports_from(self, place: Place) -> bool:
        """Return whether a place's own code may be run: that of the Hub only if the user trusts it."""
        return place.taskset is None and (place.repo_id is None or self._settings.trust_code)

    def _warnings(self, taskset: str, place: Place, given: Given, process: TasksetProcess) -> list[str]:
        found = []
        if process.unknown_version:
            found.append(f"verifiers {process.version} is not known here: 0.4 is what this was written for")
        if place.taskset is None and not given.options:
            found.append(f"taskset {taskset} loaded data of {given.words}")
        return found


def _inside(file: Any, root: Path) -> str | None:
    """Return a file relative to a folder that it lies in, else ``None``."""
    if not file:
        return None
    path, folder = Path(str(file)), root.resolve()
    path = path.resolve()
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else None


def _cannot_be_loaded(taskset: str, failure: ChildFailed, process: TasksetProcess) -> SpecError:
    hint = ""
    if failure.missing and failure.missing != _module(taskset):
        hint = f"its code imports {failure.missing}: install that for {process.program}, with -m pip install"
    elif failure.type == "ModuleNotFoundError":
        hint = f"install its package beside verifiers, or start beside {_module(taskset)}.py"
    elif failure.type == "ImportError":
        hint = f"its code wants a package: install that for {process.program}, with -m pip install"
    elif failure.type == "ValidationError":
        hint = "see --rlenv-taskset-option: its configuration is refused"
    if failure.type in ("TypeError", "AttributeError") and "__all__" in failure.message:
        hint = (
            "a taskset of Verifiers 0.4 is a module whose __all__ names a Taskset; packages with "
            "load_environment() are of versions before 0.3.2, which are not run"
        )
    if process.unknown_version:
        hint = f"{process.words} is not known here: this was written for verifiers 0.4"
    return SpecError(f"taskset {taskset} cannot be loaded: {failure}", hint=hint, detail=failure.detail)


def _likely_rows(path: str) -> tuple[int, int, str]:
    """Return a key by which a file that surely has rows comes before one that may be anything."""
    kind = next(number for number, suffix in enumerate(ROWS) if path.endswith(suffix))
    return kind, path.count("/"), path


def _module(taskset: str) -> str:
    return taskset.rpartition("/")[2].partition("@")[0].replace("-", "_").lower()
