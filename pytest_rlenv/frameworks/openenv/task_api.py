"""The tasks that a server lists itself, which few do: its environment has methods for it or it has not.

Asked by one process of a run, and for a commit of the Hub only once ever.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pytest_rlenv.environments.discovery import task_id
from pytest_rlenv.errors import EnvironmentFailed
from pytest_rlenv.frameworks.openenv.listed import Listed, name_of
from pytest_rlenv.frameworks.openenv.routes import NoRoute, Routes

PAGE = 256
MOST_TASKS = 10_000
"""Tasks that are listed of a server."""

_SCHEMA = 1


def list_tasks(routes: Routes) -> list[Listed] | None:
    """Return a server's tasks; ``None`` if it lists none, as its environment has no such methods.

    Raises:
        EnvironmentFailed: it has, and they fail. SandboxFailed: the server does not answer.
    """
    try:
        names = routes.ask("GET", "/list_environments")
    except NoRoute:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise EnvironmentFailed(f"GET /list_environments was answered with {names!r}, not a list of names")
    if not names:
        return None
    name = quote(names[0], safe="")
    try:
        splits = routes.ask("GET", f"/{name}/splits")
        found: list[Listed] = []
        for split in _named(splits, name):
            _add_split(routes, name, split, found)
    except NoRoute:
        return None
    return found


def cached(file: Path | None, ask: Callable[[], list[Listed] | None]) -> list[Listed] | None:
    """Return what is stored in a file, or ask and store it.

    Args:
        file: where; ``None`` keeps nothing, as for what may change under the same name.
        ask: asks the server.
    """
    if file is None:
        return ask()
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        return None if stored is None else [Listed(**each) for each in stored]
    except (OSError, ValueError, TypeError):
        found = ask()
    text = None if found is None else [_as_json(task) for task in found]
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".part")
    partial.write_text(json.dumps(text), encoding="utf-8")
    partial.replace(file)
    return found


def cache_file(cache_dir: Path, *parts: str) -> Path:
    """Return the file for the tasks of one environment at one commit."""
    key = hashlib.sha256(json.dumps([_SCHEMA, *parts]).encode()).hexdigest()[:24]
    return cache_dir / "openenv-tasks" / f"{key}.json"


def _as_json(task: Listed) -> dict[str, Any]:
    return {"id": task.id, "reset": dict(task.reset), "attributes": dict(task.attributes)}


def _named(splits: Any, name: str) -> list[str]:
    found = [each.get("name") if isinstance(each, Mapping) else each for each in splits or ()]
    if not isinstance(splits, list) or not all(isinstance(each, str) for each in found):
        raise EnvironmentFailed(f"GET /{name}/splits was answered with {splits!r}, not a list of splits")
    return [str(each) for each in found]


def _add_split(routes: Routes, name: str, split: str, found: list[Listed]) -> None:
    answer = routes.ask("POST", f"/{name}/num_tasks", {"split": split})
    total = answer.get("num_tasks") if isinstance(answer, Mapping) else None
    if not isinstance(total, int) or isinstance(total, bool) or total < 0:
        raise EnvironmentFailed(f"POST /{name}/num_tasks was answered with {answer!r}, not with a number")
    taken = {task.id for task in found}
    total = min(total, MOST_TASKS - len(found))
    for start in range(0, total, PAGE):
        for index, task in enumerate(_page(routes, name, split, start, min(total, start + PAGE)), start):
            own = name_of(task) if isinstance(task, Mapping) else None
            listed = task_id(f"{split}/{own or index}")
            if listed in taken:
                listed = f"{listed}~{index}"
            taken.add(listed)
            found.append(Listed(listed, {"split": split, "index": index}, attributes={"split": split}))


def _page(routes: Routes, name: str, split: str, start: int, stop: int) -> list[Any]:
    answer = routes.ask("POST", f"/{name}/task_range", {"split": split, "start": start, "stop": stop})
    page = answer.get("tasks") if isinstance(answer, Mapping) else None
    if not isinstance(page, list) or len(page) != stop - start:
        got = f"{len(page)} tasks" if isinstance(page, list) else repr(answer)
        raise EnvironmentFailed(
            f"POST /{name}/task_range for {split!r} {start} to {stop} was answered with {got}"
        )
    return page
