"""The tasks that a server lists itself, which few do: its environment has methods for it or it has not.

Asked by one process of a run, and for a commit of the Hub only once ever.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from pytest_rlenv.errors import EnvironmentFailed
from pytest_rlenv.frameworks.openenv.listed import Listed, as_id, name_of
from pytest_rlenv.frameworks.openenv.routes import NoRoute, Routes
from pytest_rlenv.frameworks.rewards import shown

PAGE = 256
MOST_TASKS = 10_000
"""Tasks that are listed of a server."""
MOST_SPLITS = 100

_SCHEMA = 2

T = TypeVar("T")


def list_tasks(routes: Routes) -> list[Listed] | None:
    """Return a server's tasks; ``None`` if it lists none, as its environment has no such methods.

    Raises:
        EnvironmentFailed: it has, and they fail. SandboxFailed: the server does not answer.
    """
    return _unless_absent(lambda: _all_tasks(routes))


def count_tasks(routes: Routes) -> dict[str, int] | None:
    """Return how many tasks a server has, for each split; ``None`` if its environment does not say.

    Raises:
        EnvironmentFailed: it does, and that fails. SandboxFailed: the server does not answer.
    """
    return _unless_absent(lambda: _counted(routes))


def _unless_absent(ask: Callable[[], T | None]) -> T | None:
    try:
        return ask()
    except NoRoute:
        return None


def _all_tasks(routes: Routes) -> list[Listed] | None:
    name = _environment(routes)
    if name is None:
        return None
    found: list[Listed] = []
    taken: set[str] = set()
    for split in _splits(routes, name):
        total = min(_count(routes, name, split), MOST_TASKS - len(found))
        for start in range(0, total, PAGE):
            page = _page(routes, name, split, start, min(total, start + PAGE))
            found += [_listed(task, split, index, taken) for index, task in enumerate(page, start)]
        if len(found) >= MOST_TASKS:
            break
    return found


def _counted(routes: Routes) -> dict[str, int] | None:
    name = _environment(routes)
    return None if name is None else {each: _count(routes, name, each) for each in _splits(routes, name)}


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


def _environment(routes: Routes) -> str | None:
    """Return the name of a server's environment as it stands in addresses; the first of several."""
    names = routes.ask("GET", "/list_environments")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        told = f"GET /list_environments was answered with {_told(names)}, not a list of names"
        raise EnvironmentFailed(told)
    return quote(names[0], safe="") if names else None


def _splits(routes: Routes, name: str) -> list[str]:
    splits = routes.ask("GET", f"/{name}/splits")
    found = [each.get("name") if isinstance(each, Mapping) else each for each in _listing(splits)]
    if not isinstance(splits, list) or not all(isinstance(each, str) for each in found):
        raise EnvironmentFailed(f"GET /{name}/splits was answered with {_told(splits)}, not a list of splits")
    if len(found) > MOST_SPLITS:
        raise EnvironmentFailed(f"GET /{name}/splits was answered with {len(found)} splits")
    return list(dict.fromkeys(str(each) for each in found))


def _count(routes: Routes, name: str, split: str) -> int:
    answer = routes.ask("POST", f"/{name}/num_tasks", {"split": split})
    total = answer.get("num_tasks") if isinstance(answer, Mapping) else None
    if not isinstance(total, int) or isinstance(total, bool) or total < 0:
        raise EnvironmentFailed(
            f"POST /{name}/num_tasks was answered with {_told(answer)}, not with a number"
        )
    return total


def _listed(task: Any, split: str, index: int, taken: set[str]) -> Listed:
    own = name_of(task) if isinstance(task, Mapping) else None
    name = f"{as_id(split)}/{own or index}"
    while name in taken:
        name = f"{name}~{index}"
    taken.add(name)
    return Listed(name, {"split": split, "index": index}, attributes={"split": split})


def _page(routes: Routes, name: str, split: str, start: int, stop: int) -> list[Any]:
    answer = routes.ask("POST", f"/{name}/task_range", {"split": split, "start": start, "stop": stop})
    page = answer.get("tasks") if isinstance(answer, Mapping) else None
    if not isinstance(page, list) or len(page) != stop - start:
        got = f"{len(page)} tasks" if isinstance(page, list) else _told(answer)
        raise EnvironmentFailed(
            f"POST /{name}/task_range for {shown(split)} {start} to {stop} was answered with {got}"
        )
    return page


def _listing(answer: Any) -> list[Any]:
    return answer if isinstance(answer, list) else []


def _told(answer: Any) -> str:
    return shown(json.dumps(answer))
