"""A run as it was stored, read back: ``results.jsonl`` and ``run.json``, also of a run that was killed."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_rlenv.errors import SpecError
from pytest_rlenv.rollout import SCHEMA_VERSION
from pytest_rlenv.verdict import Outcome

RESULTS = "results.jsonl"
FACTS = "run.json"

_NEEDED = ("node", "environment", "task", "agent", "verdict")
"""What a line must have to be the record of a rollout."""


@dataclass(frozen=True)
class StoredRun:
    """A run that has ended, or was ended.

    Attributes:
        folder: the run's folder; ``None`` for a file that stands alone.
        facts: what ``run.json`` says; empty without one.
        records: one for each test of a rollout, as in ``results.jsonl``, in the order in which they were
            first written. Of a test that was run again the last record counts.
        problems: what could not be read, for people.
    """

    folder: Path | None
    facts: dict[str, Any]
    records: list[dict[str, Any]]
    problems: tuple[str, ...] = ()


def read_run(path: Path) -> StoredRun:
    """Read a run's folder, or a ``results.jsonl``.

    A line that is no record is left out and told of in ``problems``: the last one is torn where a run was
    killed as it wrote.

    Raises:
        SpecError: there is nothing there, it cannot be read, it is no run's, or it is a newer version's.
    """
    results = path / RESULTS if path.is_dir() else path
    lines = _lines(results, given=path)
    problems: list[str] = []
    found: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(lines, start=1):
        record = _record(line)
        if record is None:
            where = "the last line is torn" if number == len(lines) else f"line {number} is no record"
            problems.append(f"{results}: {where}, and left out")
            continue
        _check_version(record, f"{results}, line {number}")
        if not _is_record(record):
            problems.append(f"{results}: line {number} is no record, and left out")
            continue
        found[str(record["node"])] = record
    for node in _replaced(found):
        del found[node]
    if lines and not found:
        raise SpecError(f"{results}: no line of it is the record of a rollout", hint=_HINT)
    facts = _facts(results.parent / FACTS, problems)
    folder = results.parent if facts or path.is_dir() else None
    return StoredRun(folder, facts, list(found.values()), tuple(problems))


_HINT = "name the folder of a run (it holds results.jsonl and run.json), or a results.jsonl"


def _lines(results: Path, *, given: Path) -> list[str]:
    try:
        text = results.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        what = f"it holds no {RESULTS}" if given.is_dir() else "there is no such file or folder"
        raise SpecError(f"{given}: {what}", hint=_HINT) from None
    except OSError as error:
        raise SpecError(f"{given} cannot be read: {error.strerror}", hint=_HINT) from error
    return [line for line in text.split("\n") if line.strip()]


def _record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and all(key in record for key in _NEEDED) else None


def _is_record(record: dict[str, Any]) -> bool:
    """Return whether a line says which rollout it is of, and has a reward that is one, or none."""
    attempt, reward = record.get("attempt", 1), record.get("reward")
    return (
        all(isinstance(record[key], str) for key in _NEEDED)
        and record["verdict"] in {verdict.value for verdict in Outcome}
        and type(attempt) is int
        and (reward is None or (type(reward) in (int, float) and math.isfinite(reward)))
    )


def _replaced(found: dict[str, dict[str, Any]]) -> set[str]:
    """Return the tests whose rollouts a later one of another name stands for, in a run that was resumed."""
    origins = [record.get("resumed_from") or record.get("run_again") or {} for record in found.values()]
    return {
        origin["node"]
        for origin, node in zip(origins, found, strict=True)
        if origin.get("node") in found
        and origin["node"] != node
        and found[origin["node"]].get("run") == origin["run"]
    }


def _check_version(record: dict[str, Any], where: str) -> None:
    version = record.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise SpecError(
            f"{where}: a record of version {version}, and this pytest-rlenv knows up to {SCHEMA_VERSION}",
            hint="read it with the version of pytest-rlenv that wrote it, or a newer one",
        )


def _facts(file: Path, problems: list[str]) -> dict[str, Any]:
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        problems.append(f"{file} cannot be read: {error}")
        return {}
    if not isinstance(facts, dict):
        problems.append(f"{file} is not what a run writes")
        return {}
    return facts
