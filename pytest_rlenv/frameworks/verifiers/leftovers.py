"""Containers that an interpreter has started and that outlive its kill: found by their label, and removed."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.sandboxes.owners import NAME_PREFIX, Owner

if TYPE_CHECKING:
    from pytest_rlenv.sandboxes.docker.reaper import Reaper

LABEL = "verifiers.run"
"""Verifiers gives it to each container; its value is the variable ``VF_RUN_ID``."""
_LIMIT = 60.0


def new_run_word() -> str:
    """Return a word for one interpreter, that tells whose it is."""
    return NAME_PREFIX + Owner.me().new_name()


def removed_after_us(run: str) -> Reaper | None:
    """Have an interpreter's containers removed when this process is killed; ``None`` without an engine.

    Returns:
        Who waits for that, to be stopped when they have been removed.
    """
    from pytest_rlenv.sandboxes.docker.endpoint import resolve_endpoint
    from pytest_rlenv.sandboxes.docker.reaper import Reaper

    with contextlib.suppress(EngineUnavailable, OSError):
        return Reaper(resolve_endpoint(), f"{LABEL}={run}")
    return None


def remove_containers(run: str) -> None:
    """Remove an interpreter's containers, those of Compose projects too; where no engine answers, none."""
    _remove([line.split()[0] for line in _listed() if line.split()[1:] == [run]])


def remove_abandoned() -> None:
    """Remove the containers of interpreters whose process here was killed."""
    gone: list[str] = []
    for line in _listed():
        found, _, run = line.partition(" ")
        owner = Owner.parse(run) if run.startswith(NAME_PREFIX) else None
        if owner is not None and owner.is_gone():
            gone.append(found)
    _remove(gone)


def _listed() -> list[str]:
    form = f'{{{{.ID}}}} {{{{.Label "{LABEL}"}}}}'
    text = _docker("ps", "--all", "--filter", f"label={LABEL}", "--format", form)
    return [line for line in text.splitlines() if line.strip()]


def _remove(containers: Sequence[str]) -> None:
    if containers:
        _docker("rm", "--force", "--volumes", *containers)


def _docker(*arguments: str) -> str:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["docker", *arguments], capture_output=True, text=True, timeout=_LIMIT, check=False
        )
        return done.stdout
    return ""
