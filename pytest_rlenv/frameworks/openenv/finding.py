"""Finds the tasks of environments with an ``openenv.yaml``, or of datasets that name one that is elsewhere.

From the cheapest source that has any: a list for us, recorded reference episodes, the rows of a dataset, the
list ``tasks`` of ``openenv.yaml``, the server's own list (it is started once for that), else one episode.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any

from pytest_rlenv.environments.finders import Finding, Place
from pytest_rlenv.environments.layouts import OPENENV
from pytest_rlenv.environments.model import TaskRef
from pytest_rlenv.errors import RlenvError, SpecError, Unsupported
from pytest_rlenv.frameworks.kept import Kept
from pytest_rlenv.frameworks.openenv import listed, task_api
from pytest_rlenv.frameworks.openenv.launch import DOCKER, URL, Launch, check_launcher, launcher_of
from pytest_rlenv.frameworks.openenv.listed import Listed
from pytest_rlenv.frameworks.openenv.manifest import (
    NAMES,
    POINTERS,
    Manifest,
    ManifestInvalid,
    read_manifest,
    read_pointer,
)
from pytest_rlenv.frameworks.openenv.routes import Routes
from pytest_rlenv.frameworks.openenv.session import check_installed
from pytest_rlenv.sandboxes.model import SandboxContext
from pytest_rlenv.settings import Settings

EPISODE = "episode"
"""The task of an environment that lists none."""

_DEEPEST, _DEEPEST_ASKED = 1, 3


class OpenEnvFinder:
    """Finds OpenEnv's tasks.

    Args:
        settings: the run's.
        context: what a sandbox is told of the run, for the server that is asked for its tasks; ``None`` has
            no server asked.
        kept: what this process keeps up: the server that was asked may be played on.
    """

    framework = OPENENV
    looks_for = "openenv.yaml, at most one folder deep, or environment.yaml with frameworks.openenv"

    def __init__(
        self,
        settings: Settings,
        context: Callable[[], SandboxContext] | None = None,
        kept: Kept | None = None,
    ) -> None:
        self._settings = settings
        self._context = context
        self._kept = kept

    def find(self, place: Place, *, asked: bool) -> Finding:
        """Return the tasks of all its environments in a place."""
        packages = _packages(place, _DEEPEST_ASKED if asked else _DEEPEST)
        tagged = OPENENV in place.tags
        if not packages and (asked or tagged or place.repo_id is None):
            packages = self._pointer(place)
        if not packages and asked and (self._settings.openenv_url or self._settings.openenv_image):
            packages = [(_folder(place.base), Manifest())]  # what is asked for needs no file to name it
        if not packages:
            return Finding(reason=_reason(place) if asked or (tagged and not place.has_folder_tasks) else "")
        check_launcher(self._settings)
        check_installed()
        findings = [self._tasks(place, folder, manifest, asked=asked) for folder, manifest in packages]
        return Finding(
            tuple(task for finding in findings for task in finding.tasks),
            tuple(line for finding in findings for line in finding.warnings),
            "; ".join(finding.reason for finding in findings if finding.reason),
        )

    def _pointer(self, place: Place) -> list[tuple[str, Manifest | str]]:
        folder = _folder(place.base)
        for name in POINTERS:
            file = f"{folder}{name}"
            if file not in place.files:
                continue
            place.bring([file])
            try:
                manifest = read_pointer(place.root / folder, name)
            except ManifestInvalid as problem:
                return [(folder, str(problem))] if OPENENV in place.tags else []
            if manifest is not None:
                return [(folder, manifest)]
        return []

    def _tasks(self, place: Place, folder: str, manifest: Manifest | str, *, asked: bool) -> Finding:
        if isinstance(manifest, str):
            file = next((name for name in NAMES if f"{folder}{name}" in place.files), NAMES[0])
            return Finding((_ref(folder, Manifest(file=file), Listed(EPISODE, problem=manifest)),))
        place.bring(_needed(place, folder, manifest))
        if manifest.file and manifest.file in NAMES:
            try:
                manifest = read_manifest(place.root / folder, manifest.file)
            except ManifestInvalid as problem:
                return self._tasks(place, folder, str(problem), asked=asked)
        try:
            tasks, warnings = self._written(place, folder, manifest)
        except SpecError as error:
            if asked or not place.has_folder_tasks:
                raise
            return Finding(warnings=(f"{place.title}: {error.message}",))
        if not tasks:
            if place.has_folder_tasks and not asked:
                return Finding()  # what has tasks in folders is not started to look for more
            tasks = self._of_server(place, folder, manifest) or [Listed(EPISODE)]
            if len(tasks) >= task_api.MOST_TASKS:
                warnings = (f"its server may list more than the {len(tasks)} tasks that are taken",)
        refs = tuple(_ref(folder, manifest, task) for task in tasks)
        return Finding(refs, tuple(f"{place.title}: {line}" for line in (*manifest.warnings, *warnings)))

    def _written(self, place: Place, folder: str, manifest: Manifest) -> tuple[list[Listed], tuple[str, ...]]:
        """Return the tasks that are written down, and what should be known of them."""
        settings, root = self._settings, place.root / folder
        if settings.openenv_tasks is not None:
            tasks, evaluate = listed.read_list(settings.openenv_tasks.expanduser())
            more = {} if evaluate is None else {"evaluate": dict(evaluate)}
            return [replace(task, data={**task.data, **more}) for task in tasks], ()
        for name in listed.LIST_FILES:
            if f"{folder}{name}" in place.files and (tasks := listed.read_list(root / name)[0]):
                return tasks, ()
        plans = listed.from_plans(place.files, folder)
        key = settings.openenv_task_key
        if manifest.tasks and (key or not plans):
            return listed.from_list(manifest.tasks, manifest.file, key=key), ()
        if plans:
            return plans, _lacking(manifest, len(plans))
        if rows := _rows(place, folder, manifest):
            place.bring([f"{folder}{rows}"])
            return listed.from_rows(root / rows, rows), ()
        return [], ()

    def _of_server(self, place: Place, folder: str, manifest: Manifest) -> list[Listed] | None:
        """Return the tasks that the environment's server lists."""
        if self._context is None:
            return None
        context = self._context()
        launcher = launcher_of(self._settings)
        file = None
        if place.repo_id and place.revision and launcher != URL:
            image = self._settings.openenv_image or ""
            file = task_api.cache_file(context.cache_dir, place.repo_id, place.revision, folder, image)
        return task_api.cached(file, lambda: self._ask(place, folder, manifest, context))

    def _ask(
        self, place: Place, folder: str, manifest: Manifest, context: SandboxContext
    ) -> list[Listed] | None:
        from pytest_rlenv.sandboxes.loading import create

        sandbox = create(DOCKER, context) if launcher_of(self._settings) == DOCKER else None
        logs = context.run_dir / "openenv"
        logs.mkdir(parents=True, exist_ok=True)
        folder_here = place.root / folder
        launch = Launch(self._settings, manifest, folder_here, logs, os.environ, sandbox, "listing")
        try:
            launch.check()
            # a container is its sandbox's, and that of the run is not chosen yet
            kept = self._kept if sandbox is None and self._kept is not None else Kept()
            with (
                nullcontext() if kept is self._kept else closing(kept),
                kept.lease(launch.key, launch.start) as server,
                closing(Routes(server)) as routes,
            ):
                return task_api.list_tasks(routes)
        except (RlenvError, Unsupported) as error:
            raise _not_listed(place, error) from error
        finally:
            if sandbox is not None:
                sandbox.close()


def _lacking(manifest: Manifest, plans: int) -> tuple[str, ...]:
    """Return the warning that not all tasks are run, where more are listed than have a recorded episode."""
    more = len(manifest.tasks) - plans
    if more <= 0:
        return ()
    how = "--rlenv-openenv-task-key NAME, the argument of reset that takes an id, runs them all"
    return (f"{manifest.file} lists {more} more tasks than {listed.PLANS}/ has; {how}",)


def _not_listed(place: Place, error: RlenvError | Unsupported) -> SpecError:
    detail = getattr(error, "detail", "")
    hint = getattr(error, "hint", "")
    ways = "write the tasks down in rlenv.yaml, or have the server run: " + (hint or str(error))
    return SpecError(
        f"{place.title}: its tasks are known to its server only, which cannot be asked: {error}",
        hint=ways,
        detail=detail,
    )


def _packages(place: Place, deepest: int) -> list[tuple[str, Manifest | str]]:
    """Return the folders with an ``openenv.yaml``, as paths with a slash at the end; none below another."""
    start = _folder(place.base)
    found: dict[str, str] = {}
    for file in place.files:
        folder, _, name = file.rpartition("/")
        folder = f"{folder}/" if folder else ""
        if name in NAMES and folder.startswith(start) and folder[len(start) :].count("/") <= deepest:
            found.setdefault(folder, name)
    outer = [
        folder
        for folder in sorted(found)
        if not any(folder != other and folder.startswith(other) for other in found)
    ]
    return [(folder, Manifest(file=found[folder])) for folder in outer]


def _needed(place: Place, folder: str, manifest: Manifest) -> Sequence[str]:
    """Return the files that running an environment takes: its folder, or of a dataset what names it."""
    files = [file for file in place.files if file.startswith(folder)]
    if manifest.file in NAMES:
        return files
    wanted = (f"{folder}{listed.PLANS}/", *(f"{folder}{name}" for name in (*POINTERS, *listed.LIST_FILES)))
    return [file for file in files if file.startswith(wanted)]


def _rows(place: Place, folder: str, manifest: Manifest) -> str | None:
    """Return the file with a dataset's rows: the one that is named, or the only one that there is."""
    if manifest.file in NAMES:
        return None
    if manifest.rows:
        if f"{folder}{manifest.rows}" not in place.files:
            raise SpecError(
                f"{place.title}: {manifest.file} names rows in {manifest.rows}, which is not there"
            )
        return manifest.rows
    found = [
        file[len(folder) :] for file in place.files if file.startswith(folder) and file.endswith(listed.ROWS)
    ]
    if len(found) > 1:
        raise SpecError(
            f"{place.title}: several files may hold the rows: {', '.join(found[:5])}",
            hint=f"name one as frameworks.openenv.rows in {manifest.file or POINTERS[0]}",
        )
    return found[0] if found else None


def _ref(folder: str, manifest: Manifest, task: Listed) -> TaskRef:
    data: dict[str, Any] = {"manifest": manifest.file, "reset": dict(task.reset), **task.data}
    data.setdefault("file", manifest.file)
    return TaskRef(
        id=f"{folder}{task.id}",
        path=folder.rstrip("/") or ".",
        framework=OPENENV,
        problem=task.problem,
        attributes=dict(task.attributes),
        data=_without_empty(data),
    )


def _without_empty(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value not in ("", {})}


def _folder(base: str) -> str:
    return f"{base}/" if base else ""


def _reason(place: Place) -> str:
    if any(file.endswith("task.toml") for file in place.files) or place.has_folder_tasks:
        return "its tasks are folders with task.toml, which are Harbor's whatever the card says"
    return (
        "there is no openenv.yaml, nor an environment.yaml that names an image or a Space below "
        "frameworks.openenv; give the server with --rlenv-openenv-url or --rlenv-openenv-image, and the "
        "tasks with --rlenv-openenv-tasks, together with --rlenv-framework openenv"
    )
