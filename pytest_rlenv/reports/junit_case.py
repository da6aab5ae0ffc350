"""A stored rollout as a test case of a JUnit file, by the name that pytest itself gives it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from pytest_rlenv.reports.junit import properties
from pytest_rlenv.reports.log_tails import LogTail
from pytest_rlenv.text import clean

MESSAGE = 500
"""Characters of a message in an attribute; the element's text has all of it."""

_ELEMENTS = {"failed": "failure", "error": "error", "skipped": "skipped", "xfailed": "skipped"}


def outcome_of(record: Mapping[str, Any]) -> str:
    """Return how the rollout's test ended, in pytest's words; its verdict, where no test reported it."""
    return str(record.get("outcome") or record["verdict"])


def element_name(record: Mapping[str, Any]) -> str | None:
    """Return what stands in the test case: ``failure``, ``error``, ``skipped``, or ``None`` if it passed."""
    return _ELEMENTS.get(outcome_of(record))


def junit_case(record: Mapping[str, Any], *, tails: Sequence[LogTail] = (), datadog: bool = False) -> str:
    """Return the test case as XML.

    Args:
        record: the rollout's.
        tails: ends of its logs, for ``system-out``.
        datadog: give the properties as tags for Datadog, too.
    """
    classname, name = address(str(record["node"]))
    seconds = f"{float(record.get('seconds') or 0):.3f}"
    case = ET.Element("testcase", classname=clean(classname), name=clean(name), time=seconds)
    given = ET.SubElement(case, "properties")
    for key, value in properties(record, datadog=datadog):
        ET.SubElement(given, "property", name=clean(key), value=clean(value))
    if kind := element_name(record):
        message = clean(one_line(record))
        short = message if len(message) <= MESSAGE else message[: MESSAGE - 3] + "..."
        ET.SubElement(case, kind, type=_type(record), message=short).text = clean(full_text(record))
    if tails:
        ET.SubElement(case, "system-out").text = "\n".join(each.titled() for each in tails)
    return ET.tostring(case, encoding="unicode") + "\n"


def address(nodeid: str) -> tuple[str, str]:
    """Return the class name and the name that pytest's own JUnit file has for a test."""
    path, bracket, parameters = nodeid.partition("[")
    first, *rest = path.split("::")
    names = [re.sub(r"\.py$", "", first.replace("/", ".")), *rest]
    names[-1] += bracket + parameters
    return ".".join(names[:-1]), names[-1]


def one_line(record: Mapping[str, Any]) -> str:
    """Return why the rollout did not pass: ``RewardMissing [verify]: no reward ...``."""
    error = record.get("error") or {}
    message = str(record.get("message") or record.get("skip_reason") or "")
    if error:
        return f"{error['type']} [{error['stage']}]: {message or error['message']}"
    return message or f"the test ended as {outcome_of(record)}; the rollout's verdict is {record['verdict']}"


def full_text(record: Mapping[str, Any]) -> str:
    """Return the same with the hint, the evidence and the notes."""
    error = record.get("error") or {}
    lines = [one_line(record)]
    if error.get("hint"):
        lines.append(f"hint: {error['hint']}")
    if error.get("detail"):
        lines += ["output:", *(f"    {line}" for line in str(error["detail"]).splitlines())]
    lines += [f"note: {note['text']}" for note in record.get("notes") or () if note["code"] != "task-warning"]
    if record.get("logs"):
        lines.append(f"logs: {record['logs']}")
    return "\n".join(lines)


def _type(record: Mapping[str, Any]) -> str:
    error = record.get("error") or {}
    return str(
        error.get("type")
        or {"failed": "failed", "xfailed": "pytest.xfail"}.get(outcome_of(record), "pytest.skip")
    )
