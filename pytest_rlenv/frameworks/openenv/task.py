"""One task of OpenEnv's: the arguments of a reset, and what its environment says of rewards and limits."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_rlenv.environments.discovery import is_ignored
from pytest_rlenv.errors import SpecError, TaskInvalid
from pytest_rlenv.frameworks.openenv import listed
from pytest_rlenv.frameworks.openenv.manifest import (
    NAMES,
    POINTERS,
    Manifest,
    ManifestInvalid,
    read_manifest,
    read_pointer,
)
from pytest_rlenv.frameworks.openenv.plans import Plan, read_plan
from pytest_rlenv.frameworks.openenv.scoring import DEFAULT_RANGE
from pytest_rlenv.verdict import number

MOST_FILES = 5000
"""Files of an environment that its digest covers."""


@dataclass(frozen=True)
class OpenEnvTask:
    """A task that can be run.

    Attributes:
        name: its id.
        folder: its environment's files.
        manifest: what its environment says of itself.
        reset: the arguments that choose it.
        plan: its recorded reference episode.
        evaluate: the action that has an episode graded, where the environment's authors name one for us.
        instruction: the task in words.
        max_steps: steps that an agent has; ``None`` is the user's choice.
        digest: of the environment's files and of what chooses the task.
        warnings: what its author should know.
    """

    name: str
    folder: Path
    manifest: Manifest
    reset: Mapping[str, Any] = field(default_factory=dict)
    plan: Plan | None = None
    evaluate: Mapping[str, Any] | None = None
    instruction: str = ""
    max_steps: int | None = None
    digest: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def expectations(self) -> dict[str, str]:
        """What the environment declares of rewards, as expectations of agents."""
        manifest = self.manifest
        declared = (manifest.reward_range, manifest.oracle_tolerance, manifest.floor_margin)
        return {} if all(each is None for each in declared) else self.bounds

    @property
    def bounds(self) -> dict[str, str]:
        """Expectations of agents, also where the environment declares nothing of its own."""
        tolerance, margin = self.manifest.oracle_tolerance or 0.0, self.manifest.floor_margin
        _, high = self.manifest.reward_range or DEFAULT_RANGE
        floor = f"<= {number(round(high - margin, 9))}" if margin else f"< {number(high)}"
        return {"oracle": f">= {number(round(high - tolerance, 9))}", "nop": floor, "canary": floor}


def load_task(folder: Path, name: str, data: Mapping[str, Any]) -> OpenEnvTask:
    """Read a task.

    Args:
        folder: of its environment.
        name: its id.
        data: what the finder kept of it.

    Raises:
        TaskInvalid: a file that it needs is missing or wrong.
    """
    file = str(data.get("manifest", ""))
    manifest = _manifest(folder, file)
    own = name.rpartition("/")[2]
    plan = _plan(folder, data.get("plan"), own)
    reset = data.get("reset")
    if isinstance(row := data.get("row"), (list, tuple)):
        reset = listed.arguments_of_row(folder / str(row[0]), int(row[1]))
    chosen = dict(reset) if isinstance(reset, Mapping) else {}
    if plan is not None:
        chosen = {**plan.reset, **chosen}
    return OpenEnvTask(
        name=name,
        folder=folder,
        manifest=manifest,
        reset=chosen,
        plan=plan,
        evaluate=data.get("evaluate") or _evaluate(folder),
        instruction=str(data.get("instruction", "")),
        max_steps=data.get("max_steps"),
        digest=_digest(folder, file, data),
        warnings=manifest.warnings,
    )


def read_manifest_of(folder: Path, file: str) -> Manifest:
    """Read a manifest of either kind.

    Raises:
        ManifestInvalid: it cannot be read.
    """
    if file in NAMES:
        return read_manifest(folder, file)
    if file in POINTERS and (found := read_pointer(folder, file)) is not None:
        return found
    return Manifest()


def _manifest(folder: Path, file: str) -> Manifest:
    try:
        return read_manifest_of(folder, file)
    except ManifestInvalid as error:
        raise TaskInvalid(str(error)) from None


def _plan(folder: Path, named: Any, own: str) -> Plan | None:
    if isinstance(named, str):
        if not listed.inside(named):
            raise TaskInvalid(f"its recorded episode {named!r} is outside of the environment")
        return read_plan(folder / named)
    usual = folder / listed.PLANS / f"{own}.json"
    return read_plan(usual) if usual.is_file() else None


def _evaluate(folder: Path) -> Mapping[str, Any] | None:
    for name in listed.LIST_FILES:
        if (folder / name).is_file():
            try:
                return listed.read_list(folder / name)[1]
            except SpecError as error:
                raise TaskInvalid(error.message, hint=error.hint) from None
    return None


def _digest(folder: Path, file: str, data: Mapping[str, Any]) -> str:
    parts = [_files_digest(folder, file), json.dumps(data, sort_keys=True, default=str)]
    return f"sha256:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}"


@lru_cache(maxsize=16)
def _files_digest(folder: Path, file: str) -> str:
    """Return the digest of an environment's files; of a dataset, of what names the environment."""
    total = hashlib.sha256()
    paths = _walk(folder) if file in NAMES else [folder / file] if file else []
    for path in paths:
        try:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            content = "unreadable"
        total.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode(errors="surrogateescape"))
    return total.hexdigest()


def _walk(folder: Path) -> list[Path]:
    found: list[Path] = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not is_ignored(each))
        found.extend(Path(root) / name for name in sorted(names) if not name.endswith(".pyc"))
        if len(found) > MOST_FILES:
            break
    return found[:MOST_FILES]
