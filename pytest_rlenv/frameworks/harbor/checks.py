"""Single checks of a verifier, from the reports that it may leave beside its reward.

``ctrf.json`` is a Common Test Report, as pytest-json-ctrf and others write; ``reward-details.json`` is what
Harbor's reward kit writes. They explain a reward and never change one: whatever is wrong with them is a note.
"""

from __future__ import annotations

import itertools
import json
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_rlenv.rollout import Checks, StepRecord
from pytest_rlenv.text import text_of
from pytest_rlenv.verdict import number

CTRF, DETAILS = "ctrf.json", "reward-details.json"
PASSED, FAILED, OTHER = "passed", "failed", "other"
_NEITHER = ("skipped", "pending", OTHER)
"""The other words that a CTRF report has for a test."""

MAX_REPORT_BYTES = 4 * 1024 * 1024
"""A larger report is not read."""
MAX_CHECKS = 100_000
"""Checks that are counted."""
MAX_FAILING = 20
"""Names of failing checks that a record keeps."""
MAX_NAME = 120

_MAX_DEPTH = 20


class _Unreadable(Exception):
    """A report that says nothing; the message says why."""


def note_checks(folder: Path, record: StepRecord) -> None:
    """Write what the verifier says of its checks into the record. Raises nothing for what it wrote.

    Args:
        folder: the verifier's logs on this machine.
        record: the record.
    """
    for name, read in ((CTRF, _read_ctrf), (DETAILS, _read_details)):
        try:
            content = _load(folder / name)
            checks = None if content is None else read(content)
        except _Unreadable as why:
            record.note("checks-unreadable", f"/logs/verifier/{name}: {why}")
            continue
        if checks is not None:
            record.checks = checks
            if not (checks.passed or checks.failed):
                counts = ", ".join(f"{count} {status}" for status, count in checks.statuses.items())
                record.note(
                    "no-checks", f"the verifier ran no check, says its {name}{f': {counts}' * bool(counts)}"
                )
            return


def _load(path: Path) -> Any:
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise _Unreadable("not a regular file")
        if status.st_size > MAX_REPORT_BYTES:
            raise _Unreadable(f"{status.st_size} bytes; at most {MAX_REPORT_BYTES} are read")
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _Unreadable(f"cannot be read: {error.strerror}") from None
    except RecursionError:
        raise _Unreadable("nested too deeply") from None
    except ValueError as error:  # not JSON, not UTF-8, a number of too many digits
        raise _Unreadable(f"not JSON: {text_of(error)}") from None


def _read_ctrf(report: Any) -> Checks:
    results = report.get("results") if isinstance(report, Mapping) else None
    if not isinstance(results, Mapping):
        raise _Unreadable("it has no object `results`, so it is no CTRF report")
    tests = results.get("tests")
    if isinstance(tests, list):
        return _count(CTRF, _ctrf_tests(tests))
    summary = results.get("summary")
    if not isinstance(summary, Mapping):
        raise _Unreadable("its `results` has neither `tests` nor `summary`")
    counts = {key: _whole(summary.get(key)) for key in (PASSED, FAILED, *_NEITHER)}
    statuses = {status: counts[status] for status in _NEITHER if counts[status]}
    rest = _whole(summary.get("tests")) - sum(counts.values())
    if rest > 0:
        statuses[OTHER] = statuses.get(OTHER, 0) + rest
    found = Checks(source=CTRF, passed=counts[PASSED], failed=counts[FAILED], statuses=statuses)
    found.other = sum(statuses.values())
    return found


def _ctrf_tests(tests: list[Any]) -> Iterator[tuple[str, str]]:
    for test in tests:
        if isinstance(test, Mapping):
            status = test.get("status")
            yield _name(test), status if status in (PASSED, FAILED, *_NEITHER) else OTHER


def _read_details(details: Any) -> Checks:
    if not isinstance(details, Mapping):
        raise _Unreadable("not an object")
    return _count(DETAILS, _criteria(details))


def _criteria(details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the criteria of each reward, with the reward's name where there are several."""
    for reward, detail in details.items():
        for name, status in _of_detail(detail, 0):
            yield f"{_short(reward)}: {name}" if len(details) > 1 else name, status


def _of_detail(detail: Any, level: int) -> Iterator[tuple[str, str]]:
    """Yield the criteria of one reward, of a list of them, or of a group of components."""
    if level > _MAX_DEPTH:
        return
    if isinstance(detail, Mapping):
        criteria, components = detail.get("criteria"), detail.get("components")
        if isinstance(criteria, list):
            yield from (_criterion(each) for each in criteria if isinstance(each, Mapping))
        if isinstance(components, list):
            for each in components:
                yield from _of_detail(each.get("detail") if isinstance(each, Mapping) else None, level + 1)
    elif isinstance(detail, list):
        for each in detail:
            yield from _of_detail(each, level + 1)


def _criterion(criterion: Mapping[str, Any]) -> tuple[str, str]:
    value, name = criterion.get("value"), _name(criterion)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return name, OTHER
    if value >= 1:
        return name, PASSED
    return (name if value <= 0 else f"{name} ({number(float(value))})"), FAILED


def _count(source: str, checks: Iterator[tuple[str, str]]) -> Checks:
    found = Checks(source=source)
    for name, status in itertools.islice(checks, MAX_CHECKS):
        if status == PASSED:
            found.passed += 1
        elif status == FAILED:
            found.failed += 1
            if len(found.failing) < MAX_FAILING:
                found.failing.append(name)
        else:
            found.other += 1
            found.statuses[status] = found.statuses.get(status, 0) + 1
    return found


def _name(check: Mapping[str, Any]) -> str:
    name = check.get("name")
    return _short(name) if isinstance(name, str) else "?"


def _short(name: str) -> str:
    text = " ".join(text_of(name).split())
    return text if len(text) <= MAX_NAME else text[:MAX_NAME] + "..."


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value <= MAX_CHECKS else 0
