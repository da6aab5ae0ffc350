"""Runs tasksets with the fake Verifiers, in the interpreter of the tests."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.project import Project
from support.scripted_model import Failure, Reply, Seen

from pytest_rlenv.frameworks.verifiers.process import TasksetProcess

SUPPORT = Path(__file__).parent
FAKE = SUPPORT / "fake_verifiers"
TASKSETS = SUPPORT / "tasksets"
EXAMPLE = SUPPORT.parents[1] / "example_envs" / "verifiers"

TRUST = "--rlenv-trust-code"

ORACLE: dict[str, tuple[str, str | None]] = {
    "good": ("passed", None),
    "gold-false": ("failed", None),
    "gold-none": ("skipped", None),
    "gold-text": ("error", "RewardInvalid"),
    "gold-raises": ("error", "RewardMissing"),
    "validate-slow": ("error", "VerifierTimeout"),
    "setup-raises": ("error", "EnvironmentFailed"),
    "setup-slow": ("error", "StageTimeout"),
    "exits": ("error", "EnvironmentFailed"),
    "dies": ("error", "SandboxFailed"),
}

NOP: dict[str, tuple[str, str | None]] = {
    "good": ("passed", None),
    "reward-raises": ("error", "RewardMissing"),
    "reward-nan": ("error", "RewardInvalid"),
    "scoring-slow": ("error", "VerifierTimeout"),
    "setup-slow": ("error", "StageTimeout"),
}

MODEL: dict[str, tuple[str, str | None]] = {
    "good": ("failed", None),
    "reward-raises": ("error", "RewardMissing"),
    "reward-nan": ("error", "RewardInvalid"),
    "scoring-slow": ("error", "VerifierTimeout"),
    "setup-slow": ("error", "StageTimeout"),
    "setup-raises": ("error", "EnvironmentFailed"),
    "no-prompt": ("error", "EnvironmentFailed"),
    "status-400": ("error", "ModelRequestInvalid"),
    "status-401": ("error", "ModelAccessDenied"),
    "status-500": ("error", "ModelUnavailable"),
}


def answers_by_kind(seen: Seen) -> Reply | Failure:
    """Say 42, or fail as the kind of the task in the request says."""
    text = str(seen.body["messages"])
    status = text.partition("status-")[2][:3]
    return Failure(int(status)) if status else Reply("42")


LIMITS = {"setup": 20.0, "finalize": 20.0, "scoring": 20.0}


def environ(**more: str) -> dict[str, str]:
    """Return variables with which the fake and our tasksets can be imported."""
    paths = (FAKE, TASKSETS, SUPPORT.parent, SUPPORT.parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), **more}


def use_fake(monkeypatch: pytest.MonkeyPatch, project: Project) -> None:
    """Have a project's runs find the fake and our tasksets."""
    for name, value in environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RLENV_CACHE", str(project.path / "cache"))
    monkeypatch.setenv("RLENV_VERIFIERS_PYTHON", sys.executable)


def run(project: Project, *args: str, process: bool = False) -> pytest.RunResult:
    return project.run(*args, sandbox=None, process=process)


def kinds(*names: str, **more: Any) -> list[str]:
    """Return the options for a taskset with a task of each kind."""
    options = {"kinds": list(names), **more}
    pairs = (f"--rlenv-taskset-option={key}={json.dumps(value)}" for key, value in options.items())
    return ["--rlenv-taskset=toy-kinds", *pairs]


@contextmanager
def interpreter(**more: str) -> Iterator[TasksetProcess]:
    process = TasksetProcess(sys.executable, environ(**more))
    try:
        yield process
    finally:
        process.close()


def request(kind: str, folder: Path, **more: Any) -> dict[str, Any]:
    """Return what is asked about a task of our toy taskset."""
    found: Mapping[str, Any] = {
        "taskset": "toy-kinds",
        "options": {"kinds": [kind]},
        "index": 0,
        "row": {"idx": 0, "id": kind, "kind": kind, "prompt": f"What is the answer, {kind}?"},
        "whole": True,
        "trusted": True,
        "agent": "test",
        "folder": str(folder),
        "limits": LIMITS,
    }
    return {**found, **more}


def by_task(project: Project) -> dict[str, dict[str, Any]]:
    """Return a run's records by their tasks, of which one agent has each one."""
    return {record["task"]: record for record in project.records()}


def told(project: Project, agent: str | None = None) -> dict[str, tuple[str, str | None]]:
    """Return each task's verdict, and its error if it is one."""
    return {
        record["task"]: (record["verdict"], (record["error"] or {}).get("type"))
        for record in project.records()
        if agent in (None, record["agent"])
    }
