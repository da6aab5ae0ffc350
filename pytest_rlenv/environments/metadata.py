"""Read what tasks say about themselves, for ``-m``: tags, difficulty, category."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_rlenv import toml, yaml_reader
from pytest_rlenv.environments.hub_client import HubClient
from pytest_rlenv.environments.hub_download import download_all
from pytest_rlenv.environments.layouts import IN_FOLDERS, TERMINAL_BENCH, manifest_of
from pytest_rlenv.environments.model import HUB, Environment, TaskRef


def add_metadata(environment: Environment, hub: Callable[[], HubClient]) -> Environment:
    """Return the environment with each task's tags and attributes.

    They are the ``[metadata]`` of ``task.toml``: its ``tags``, with the ``keywords`` of ``[task]``, and each
    text, number or truth value beside them; of a Terminal-Bench task, the same of its ``task.yaml``, all but
    the instruction. A file that cannot be read leaves its task as it is: what is wrong with it is told when
    the task runs.

    Args:
        environment: of any source; of the Hub only these files are fetched, all in one go.
        hub: makes the client, if one is needed.
    """
    manifests = _manifests(environment, hub)
    tasks = tuple(
        _with_metadata(task, manifests.get(task.path)) if task.framework in IN_FOLDERS else task
        for task in environment.tasks
    )
    return replace(environment, tasks=tasks)


def _manifests(environment: Environment, hub: Callable[[], HubClient]) -> dict[str, Path]:
    here = {
        task.path: environment.folder(task) / manifest_of(task.framework)
        for task in environment.tasks
        if task.problem is None and task.framework in IN_FOLDERS
    }
    if environment.source != HUB:
        return here
    away = {
        (manifest.name if path == "." else f"{path}/{manifest.name}"): path
        for path, manifest in here.items()
        if not manifest.is_file()
    }
    if not away:
        return here
    downloads = download_all(hub(), str(environment.repo_id), str(environment.revision), list(away))
    return {**here, **{away[file]: manifest for file, manifest in downloads.files.items()}}


def _with_metadata(task: TaskRef, manifest: Path | None) -> TaskRef:
    if manifest is None:
        return task
    try:
        text = manifest.read_text(encoding="utf-8")
        table = _of_yaml(text) if task.framework == TERMINAL_BENCH else toml.loads(text)
    except (OSError, ValueError):  # ValueError: not TOML, not YAML, not UTF-8
        return task
    metadata = _table(table, "metadata")
    tags = (*_words(metadata.get("tags")), *_words(_table(table, "task").get("keywords")))
    attributes = {
        key: value
        for key, value in metadata.items()
        if key != "tags" and isinstance(value, (str, int, float))
    }
    return replace(task, tags=tuple(dict.fromkeys(tags)), attributes=attributes)


def _of_yaml(text: str) -> dict[str, Any]:
    """Return a ``task.yaml``, whose fields all stand side by side, in the form of a ``task.toml``."""
    table = yaml_reader.loads(text)
    fields = table if isinstance(table, dict) else {}
    return {"metadata": {k: v for k, v in fields.items() if isinstance(k, str) and k != "instruction"}}


def _table(parent: dict[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key)
    return value if isinstance(value, dict) else {}


def _words(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [word for word in values if isinstance(word, str) and word]
