"""A run as a CTRF document (Common Test Report Format, JSON), written as its rollouts end.

An error is ``other`` there, with ``rawStatus`` ``error``: CTRF has no status for it, and ``failed`` would say
of the agent what nobody knows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from pytest_rlenv._version import __version__
from pytest_rlenv.reports.growing import GrowingFile
from pytest_rlenv.reports.junit_case import full_text, one_line, outcome_of
from pytest_rlenv.reports.log_tails import log_tails

SPEC_VERSION = "0.0.0"
STATUSES = ("passed", "failed", "skipped", "pending", "other")

_STATUS = {
    "passed": "passed",
    "xpassed": "passed",
    "failed": "failed",
    "skipped": "skipped",
    "xfailed": "skipped",
}
_LABELS = (
    "environment",
    "revision",
    "framework",
    "agent",
    "agent_version",
    "model",
    "sandbox",
    "task_digest",
)
_EXTRA = (
    "verdict",
    "reward",
    "rewards",
    "expected",
    "attempt",
    "error",
    "stages",
    "usage",
    "checks",
    "image",
    "runner",
)
_EXTRA_TOO = ("quarantine", "notes", "logs", "trajectories")
_TAIL = "\n]}}\n"


class CtrfFile:
    """A CTRF document that grows.

    Args:
        path: the file.
        scratch: a folder for what it is made from meanwhile.
        run_dir: the run's folder, where the rollouts' logs are.
        run: the run's word.
    """

    def __init__(self, path: Path, *, scratch: Path, run_dir: Path, run: str) -> None:
        self._run_dir = run_dir
        self._run = run
        self._begin = datetime.now(timezone.utc)
        self._counts: Counter[str] = Counter()
        self._suites: set[str] = set()
        self._file = GrowingFile(path, scratch / "ctrf.part", head=self._head, tail=_TAIL, separator=",\n")

    def begin(self) -> None:
        """Put a document without tests in place. Raises ``OSError``, as all of these do."""
        self._file.begin()

    def add(self, record: Mapping[str, Any]) -> None:
        """Add a rollout; one that a plugin is going to run again is left out."""
        if outcome_of(record) == "rerun":
            return
        test = ctrf_test(record, self._run_dir)
        self._counts[test["status"]] += 1
        self._counts["flaky"] += test["flaky"]
        self._suites.add(str(record["environment"]))
        self._file.add(json.dumps(test, ensure_ascii=False, allow_nan=False))

    def refresh(self) -> None:
        """Bring the file up to date, if it is time."""
        self._file.refresh()

    def finish(self) -> None:
        """Write the file for the last time."""
        self._file.finish()

    def _head(self) -> str:
        now = datetime.now(timezone.utc)
        counts = {status: self._counts[status] for status in STATUSES}
        summary = {
            "tests": sum(counts.values()),
            **counts,
            "flaky": self._counts["flaky"],
            "suites": len(self._suites),
            "start": _milliseconds(self._begin),
            "stop": _milliseconds(now),
        }
        document = {
            "reportFormat": "CTRF",
            "specVersion": SPEC_VERSION,
            "runId": self._run,
            "timestamp": now.isoformat(timespec="milliseconds"),
            "generatedBy": "pytest-rlenv",
        }
        results = {"tool": {"name": "pytest-rlenv", "version": __version__}, "summary": summary}
        # both are left open: for the results, and for their tests
        return f'{json.dumps(document)[:-1]}, "results": {json.dumps(results)[:-1]}, "tests": [\n'


def ctrf_test(record: Mapping[str, Any], run_dir: Path) -> dict[str, Any]:
    """Return a rollout as a test of a CTRF document; what there is not, such as a reward, is absent."""
    outcome = outcome_of(record)
    status = _STATUS.get(outcome, "other")
    tries = record.get("tries") or ()
    seconds = float(record.get("seconds") or 0)
    test: dict[str, Any] = {
        "testId": str(record["node"]),
        "name": str(record["node"]).split("::", 1)[-1],
        "suite": [str(record["environment"])],
        "status": status,
        "rawStatus": outcome,
        "duration": round(seconds * 1000),
        "retries": len(tries),
        # in CTRF's sense: it passed after a try that did not
        "flaky": bool(tries) and status == "passed",
        "type": "rollout",
        "labels": {key: record[key] for key in _LABELS if record.get(key)},
        "extra": {key: record[key] for key in _EXTRA if record.get(key) not in (None, [], {}, "")},
    }
    if started := _time(record.get("started_at")):
        test |= {"start": _milliseconds(started), "stop": _milliseconds(started + timedelta(seconds=seconds))}
    if worker := record.get("worker"):
        test["threadId"] = str(worker)
    if status != "passed":
        test |= {"message": one_line(record), "trace": full_text(record)}
    if tries:
        test["retryAttempts"] = [_attempt(number, each) for number, each in enumerate(tries, start=1)]
    if lines := [line for tail in log_tails(run_dir, record) for line in tail.titled().splitlines()]:
        test["stdout"] = lines
    return test


def _attempt(number: int, earlier: Mapping[str, Any]) -> dict[str, Any]:
    error = earlier["error"]
    seconds = float(earlier.get("seconds") or 0)
    found = {
        "attempt": number,
        "status": "other",
        "duration": round(seconds * 1000),
        "message": f"{error['type']} [{error['stage']}]: {error['message']}",
    }
    if started := _time(earlier.get("started_at")):
        found |= {
            "start": _milliseconds(started),
            "stop": _milliseconds(started + timedelta(seconds=seconds)),
        }
    return found


def _time(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
