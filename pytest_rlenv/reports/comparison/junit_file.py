"""A run read back from the JUnit file that pytest wrote of it: as much as its properties say."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from pytest_rlenv.arguments import PREFIX
from pytest_rlenv.errors import SpecError
from pytest_rlenv.reports.stored import StoredRun

_FIELDS = {
    "environment": "rlenv.repo",
    "task": "rlenv.task",
    "agent": "rlenv.agent",
    "verdict": "rlenv.verdict",
    "revision": "rlenv.revision",
    "task_digest": "rlenv.task_digest",
    "agent_version": "rlenv.agent_version",
    "model": "rlenv.model",
    "sandbox": "rlenv.sandbox",
    "expected": "rlenv.expected",
    "logs": "rlenv.logs",
}
_NEEDED = ("environment", "task", "agent", "verdict")


def read_junit_run(path: Path) -> StoredRun:
    """Read a JUnit file; test cases of other tests than rollouts are passed over.

    Raises:
        SpecError: it cannot be read, is no JUnit file, or no case of it has this plugin's properties.
    """
    try:
        root = ElementTree.parse(path).getroot()
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}") from error
    except ElementTree.ParseError as error:
        raise SpecError(
            f"{path} is no whole XML: {error}", hint="was it cut off? A run's folder is never"
        ) from error
    cases = list(root.iter("testcase"))
    records = {}
    incomplete = 0
    for case in cases:
        values = _properties(case)
        if any(name.startswith("rlenv.") for name in values):
            record = _record(case, values)
            if record is None:
                incomplete += 1
            else:
                records[record["node"]] = record  # a test that a plugin ran again is there twice
    if not records:
        what = f"none of its {len(cases)} test cases has" if cases else "it has no test case with"
        raise SpecError(
            f"{path}: {what} the properties that say which task and reward it stands for (rlenv.task ...)",
            hint="give the file that pytest --junitxml wrote with this plugin, or the run's folder",
        )
    problems = (f"{path}: {incomplete} test cases do not say which rollout they are, left out",)
    return StoredRun(None, {}, list(records.values()), problems if incomplete else ())


def _properties(case: ElementTree.Element) -> dict[str, str]:
    return {each.get("name", ""): each.get("value", "") for each in case.iter("property")}


def _record(case: ElementTree.Element, values: dict[str, str]) -> dict[str, Any] | None:
    record: dict[str, Any] = {name: values.get(key) for name, key in _FIELDS.items()}
    if not all(record[name] for name in _NEEDED):
        return None
    attempt = values.get("rlenv.attempt", "1")
    return record | {
        "node": f"{case.get('classname', PREFIX)}::{case.get('name', '')}",
        "attempt": int(attempt) if attempt.isdecimal() else 1,
        "reward": _number(values.get("rlenv.reward")),
        "seconds": _number(values.get("rlenv.seconds")) or 0.0,
    }


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None
