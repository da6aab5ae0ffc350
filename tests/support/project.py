"""A project whose environment runs in the scripted sandbox."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from support.tasks import write_task, write_tasks


class Project:
    """A folder with an environment ``envs/demo`` and pytest at hand."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self.environment = self.path / "envs" / "demo"

    def tasks(self, **bodies: str) -> None:
        """Write tasks whose verifier's body is given by name."""
        write_tasks(self.environment / "tasks", **bodies)

    def task(self, name: str, **parts: Any) -> Path:
        return write_task(self.environment / "tasks" / name, **parts)

    def run(
        self,
        *args: str | Path,
        sandbox: str | None = "support.scripted:ScriptedSandbox",
        process: bool = False,
    ) -> pytest.RunResult:
        """Run pytest: in this process if nothing speaks against it, which is several times as fast."""
        options = [f"--rlenv-sandbox={sandbox}"] if sandbox else []
        if process or any(str(arg).startswith("-n") for arg in args):
            return self.pytester.runpytest_subprocess(*options, *args)
        return self.pytester.runpytest_inprocess(*options, *args)

    def demo(self, *args: str | Path, process: bool = False) -> pytest.RunResult:
        return self.run("--rlenv", "envs/demo", *args, process=process)

    def junit(self, *args: str | Path) -> dict[str, ET.Element]:
        """Run the environment and return its JUnit test cases by name."""
        self.demo("--junitxml=junit.xml", *args)
        return read_junit(self.path / "junit.xml")

    @property
    def run_dir(self) -> Path:
        (found,) = (path for path in (self.path / ".rlenv").iterdir() if path.is_dir())
        return found

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.run_dir / "results.jsonl").read_text().splitlines()]


def read_junit(path: Path) -> dict[str, ET.Element]:
    return {case.get("name", ""): case for case in ET.parse(path).getroot().iter("testcase")}


def properties(case: ET.Element) -> dict[str, str]:
    return {p.get("name", ""): p.get("value", "") for p in case.iter("property")}


def ids(result: pytest.RunResult) -> list[str]:
    """Return the node ids that ``--co -q`` listed."""
    return [line for line in result.outlines if "::" in line]


def outcomes(result: pytest.RunResult) -> dict[str, int]:
    """Return how many tests ended in which way."""
    words = ("passed", "failed", "errors", "skipped", "xfailed", "xpassed")
    return {word: count for word, count in result.parseoutcomes().items() if word in words}


def verdict_of(case: ET.Element) -> tuple[str, str]:
    """Return the verdict that a JUnit consumer reads, and its text."""
    for name, verdict in (("error", "error"), ("failure", "failed"), ("skipped", "skipped")):
        found = case.find(name)
        if found is not None:
            return verdict, (found.get("message") or "") + (found.text or "")
    return "passed", ""
