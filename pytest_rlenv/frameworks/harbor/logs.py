"""Bring a rollout's logs here, laid out like a Harbor trial: ``agent/``, ``verifier/``, ``artifacts/``."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from pytest_rlenv.errors import RlenvError
from pytest_rlenv.rollout import Rollout
from pytest_rlenv.sandboxes.protocol import Box

LOGS_CAP = 256 * 1024 * 1024
"""Bytes of logs that are brought here from one box."""

PLACES = {"agent": "agent", "verifier": "verifier", "artifacts": "artifacts/logs/artifacts"}


def fetch_logs(box: Box, folder: Path, rollout: Rollout) -> None:
    """Stop the box and copy its ``/logs`` into ``folder``. What cannot be had is a note, never an error.

    Files that this machine wrote (the scripts' output) are not overwritten by the box's.
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix=".logs-") as scratch:
        try:
            box.stop()
            extracted = box.get_tree("/logs", Path(scratch), cap=LOGS_CAP)
        except (RlenvError, OSError) as error:
            rollout.note("logs-missing", f"the box's logs could not be fetched: {error}")
            return
        for name, place in PLACES.items():
            _merge(Path(scratch) / name, folder / place)
    if extracted.refused:
        more = f" and {len(extracted.refused) - 3} more" if len(extracted.refused) > 3 else ""
        rollout.note("logs-refused", f"left out of the logs: {'; '.join(extracted.refused[:3])}{more}")


def _merge(source: Path, dest: Path) -> None:
    if not source.is_dir():
        return
    dest.mkdir(parents=True, exist_ok=True)
    for child in source.iterdir():
        if not (dest / child.name).exists():
            shutil.move(child, dest / child.name)
