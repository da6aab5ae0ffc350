"""What the page of a task shows of one rollout: its record, and the evidence from its folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pytest_rlenv.reports.html.evidence import gather
from pytest_rlenv.reports.html.folder import locate

SHOWN = (
    "node", "framework", "task_digest", "agent_version", "model", "sandbox", "runner", "image", "rewards",
    "reward_key", "error", "skip_reason", "notes", "stages", "started_at", "agent_command",
    "verifier_command", "verifier_level", "verifier_image", "checks", "steps", "usage", "tries",
    "quarantine", "message", "expected", "expected_by", "outcome", "worker", "logs",
    "resumed_from", "run_again",
)  # fmt: skip
"""Fields of a record that the page knows, beside those of the table's row."""

MAX_NOTES = 50


class Links:
    """Addresses, relative to the report, of what is in the run's folder.

    Args:
        run: the run's folder; ``None`` if there is none.
        target: the report.
    """

    def __init__(self, run: Path | None, target: Path) -> None:
        self._base: str | None = None
        if run is not None:
            try:
                self._base = Path(os.path.relpath(run.resolve(), target.resolve().parent)).as_posix()
            except ValueError:  # another drive
                self._base = None

    def folder(self, path: object) -> str | None:
        """Return the address of something in the run's folder; never one with a scheme, as in javascript:."""
        if self._base is None or not isinstance(path, str):
            return None
        return "./" + quote(f"{self._base}/{path}", errors="replace")


def details(record: Mapping[str, Any], run: Path | None, share: int, links: Links) -> dict[str, Any]:
    """Return all that is shown of a rollout beside its row.

    Args:
        record: as stored.
        run: the run's folder, if there is one.
        share: bytes of logs and trajectory that may be shown.
        links: makes addresses.
    """
    found: dict[str, Any] = {key: record[key] for key in SHOWN if record.get(key) not in (None, [], {}, "")}
    notes = found.get("notes")
    if isinstance(notes, list):
        found["notes"] = notes[:MAX_NOTES]
        found["more_notes"] = max(len(notes) - MAX_NOTES, 0)
    tries = found.get("tries")
    if isinstance(tries, list):
        found["tries"] = [_with_link(each, run, links) for each in tries if isinstance(each, dict)]
    folder = locate(run, record.get("logs")) if run is not None else None
    found["evidence"] = asdict(gather(folder, share))
    found["link"] = links.folder(record.get("logs")) if folder is not None else None
    return found


def _with_link(earlier: Mapping[str, Any], run: Path | None, links: Links) -> dict[str, Any]:
    """Return an earlier try with the address of its logs, where there are any."""
    logs = earlier.get("logs")
    there = run is not None and locate(run, logs) is not None
    return {**earlier, "link": links.folder(logs) if there else None}
