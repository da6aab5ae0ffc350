"""Read reports as their consumers do: Jenkins, GitLab, junitparser, and whoever takes CTRF."""

from __future__ import annotations

import copy
import functools
import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent


@functools.cache
def jenkins_schema() -> Any:
    import xmlschema

    return xmlschema.XMLSchema(HERE / "jenkins_junit.xsd")


def check_for_jenkins(path: Path) -> None:
    """Check a file against the schema, but for properties in test cases, which are Surefire's."""
    root = copy.deepcopy(ET.parse(path).getroot())
    for case in root.iter("testcase"):
        given = case.findall("properties")
        assert len(given) <= 1
        for properties in given:
            assert next(iter(case)) is properties, "Surefire has them first"
            assert all(set(each.attrib) == {"name", "value"} for each in properties)
            case.remove(properties)
    jenkins_schema().validate(root)


class Read(NamedTuple):
    """What GitLab keeps of a test case."""

    classname: str
    name: str
    status: str
    time: float
    output: str


def read_for_gitlab(path: Path) -> list[Read]:
    """Read the test cases as GitLab does: failure before error before skipped, by class name and name."""
    root = ET.parse(path).getroot()
    assert root.tag in ("testsuites", "testsuite")
    found = []
    for case in root.iter("testcase"):
        status, output = "success", ""
        for tag, word in (("failure", "failed"), ("error", "error"), ("skipped", "skipped")):
            if (element := case.find(tag)) is not None:
                status, output = word, element.text or element.get("message") or ""
                break
        seconds = float(case.attrib["time"])
        assert math.isfinite(seconds)
        found.append(Read(case.attrib["classname"], case.attrib["name"], status, seconds, output))
    names = [(case.classname, case.name) for case in found]
    assert len(set(names)) == len(names), "of two with the same name GitLab keeps one"
    return found


def check_junit(path: Path) -> dict[str, str]:
    """Check a JUnit file for all of its readers, and return the statuses by the tests' names."""
    from junitparser import JUnitXml

    check_for_jenkins(path)
    cases = read_for_gitlab(path)
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in JUnitXml.fromfile(str(path)):
        for key in counts:
            counts[key] += int(getattr(suite, key))
        assert len(list(suite)) == suite.tests
    statuses = [case.status for case in cases]
    assert counts == {
        "tests": len(cases),
        "failures": statuses.count("failed"),
        "errors": statuses.count("error"),
        "skipped": statuses.count("skipped"),
    }
    return {case.name: case.status for case in cases}


def check_ctrf(path: Path) -> dict[str, Any]:
    """Check a document against the schema of CTRF, and that its counts are right; return it."""
    import jsonschema

    schema = json.loads((HERE / "ctrf" / "ctrf-schema-0.0.json").read_text(encoding="utf-8"))
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(schema).validate(document)
    statuses = [test["status"] for test in document["results"]["tests"]]
    summary = document["results"]["summary"]
    assert summary["tests"] == len(statuses)
    for status in ("passed", "failed", "skipped", "pending", "other"):
        assert summary[status] == statuses.count(status)
    return document
