"""Bring a rollout's logs here, laid out like a Harbor trial: ``agent/``, ``verifier/``, ``artifacts/``."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from pytest_rlenv.errors import RlenvError
from pytest_rlenv.rollout import StepRecord
from pytest_rlenv.sandboxes.model import Entry, Extracted
from pytest_rlenv.sandboxes.protocol import Box

LOGS_CAP = 256 * 1024 * 1024
"""Bytes of each kind of logs that are brought here from one box."""

AGENT, VERIFIER, ARTIFACTS = "agent", "verifier", "artifacts"
PLACES = {AGENT: "agent", VERIFIER: "verifier", ARTIFACTS: "artifacts/logs/artifacts"}

LOG_DIRS = tuple(Entry(f"logs/{name}", mode=0o777, watched=name != VERIFIER) for name in PLACES)
"""What is in every box from its start. The verifier's counts for its reward, so it is always looked into."""

_SHOWN = 3


def fetch_logs(
    box: Box,
    folder: Path,
    record: StepRecord,
    *kinds: str,
    look: Callable[[Extracted], None] = lambda fetched: None,
) -> None:
    """Copy parts of the box's ``/logs`` into ``folder``. What cannot be had is a note, never an error.

    Files that this machine wrote (the scripts' output) are not overwritten by the box's.

    Args:
        box: running or stopped.
        folder: the step's folder on this machine.
        record: where it is noted what is missing.
        kinds: of :data:`PLACES`.
        look: shown what came of each, before it is merged with what this machine wrote.
    """
    refused: list[str] = []
    for kind in kinds:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".logs-") as scratch:
            try:
                fetched = box.get_tree(f"/logs/{kind}", Path(scratch), cap=LOGS_CAP)
                look(fetched)
            except (RlenvError, OSError) as error:
                record.note("logs-missing", f"the box's logs could not be fetched: {error}")
                return
            refused += fetched.refused
            _merge(Path(scratch), folder / PLACES[kind])
    if refused:
        record.note("logs-refused", f"left out of the logs: {some(refused)}")


def agent_log_entries(box: Box, folder: Path) -> list[Entry]:
    """Return what the agent wrote on this machine, to be put (below ``/``) beside what it wrote in the box.

    A verifier may want to read it.

    Args:
        box: where it is to be put.
        folder: the step's folder on this machine.

    Raises:
        SandboxFailed: the box is gone.
    """
    root = folder / PLACES[AGENT]
    entries: list[Entry] = []
    size = 0
    for where, _, names in os.walk(root):
        for name in names:
            path = Path(where) / name
            status = path.lstat()
            size += status.st_size
            if stat.S_ISREG(status.st_mode) and size <= LOGS_CAP:
                entries.append(Entry(f"logs/{AGENT}/{path.relative_to(root).as_posix()}", source=path))
    # a link that the agent left in the box would lead what root writes there elsewhere
    safe = {parent for parent in {_parent(entry) for entry in entries} if _is_plain(box, parent)}
    return [entry for entry in entries if _parent(entry) in safe]


def some(lines: list[str]) -> str:
    """Return the first few of many lines as one text."""
    more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return f"{'; '.join(lines[:_SHOWN])}{more}"


def _parent(entry: Entry) -> str:
    return entry.path.rpartition("/")[0]


def _is_plain(box: Box, folder: str) -> bool:
    """Return True if what is put into a folder of the agent's logs in the box goes nowhere else."""
    parts = folder.split("/")
    for count in range(2, len(parts) + 1):
        found = box.stat("/" + "/".join(parts[:count]))
        if found is None:
            return count > 2  # the agent has removed all of it, or this part is not there yet
        if found.kind != "directory":
            return False
    return True


def _merge(source: Path, dest: Path) -> None:
    children = list(source.iterdir())
    if not children:
        return
    dest.mkdir(parents=True, exist_ok=True)
    for child in children:
        if not (dest / child.name).exists():
            shutil.move(child, dest / child.name)
