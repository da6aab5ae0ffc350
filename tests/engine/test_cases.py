"""Every case, through the whole plugin on a real engine, gets the verdict that we owe it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from support.project import properties, read_junit, verdict_of

pytestmark = pytest.mark.docker

TESTS = Path(__file__).parents[1]
FOLDERS = {"cases": TESTS / "cases" / "harbor", "verdicts": TESTS.parent / "example_envs" / "verdicts"}

NOT_YET = {
    "steps-mean": "multi-step",
    "steps-final": "multi-step",
    "steps-min-reward": "multi-step",
    "separate-verifier": "separate verifier",
    "compose-sidecar": "docker-compose.yaml",
}
"""Cases of what is not run yet: a skip that says so, never a wrong run."""


def expected_of(folder: Path, agent: str) -> dict[str, list[Any]]:
    rows = json.loads((folder / "expected.json").read_text())
    found = {name: row[agent] for name, row in rows.items() if agent in row}
    return {
        name: ["skipped", None, [NOT_YET[name]]] if name in NOT_YET else row for name, row in found.items()
    }


CASES = [
    pytest.param(set_name, agent, name, id=f"{set_name}-{agent}-{name}")
    for set_name, folder in FOLDERS.items()
    for agent in ("oracle", "nop")
    for name in expected_of(folder, agent)
]


@pytest.fixture(scope="session")
def junit(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run a set of cases once per session, and give its JUnit test cases."""
    runs: dict[tuple[str, str], dict[str, ET.Element]] = {}

    def run(set_name: str, agent: str) -> dict[str, ET.Element]:
        if (set_name, agent) not in runs:
            folder = tmp_path_factory.mktemp(f"{set_name}-{agent}")
            shutil.copytree(FOLDERS[set_name], folder / "env", symlinks=True)
            command = [sys.executable, "-m", "pytest", "--rlenv", "env", "--agent", agent, "-n4", "-q"]
            globs = [f"--rlenv-task={name}" for name in expected_of(FOLDERS[set_name], agent)]
            done = subprocess.run(
                [*command, *globs, "--junitxml=junit.xml"],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            assert (folder / "junit.xml").exists(), done.stdout + done.stderr
            runs[set_name, agent] = read_junit(folder / "junit.xml")
        return runs[set_name, agent]

    return run


@pytest.mark.parametrize(("set_name", "agent", "name"), CASES)
def test_a_case_gets_its_verdict(junit: Any, set_name: str, agent: str, name: str) -> None:
    outcome, reward, words = expected_of(FOLDERS[set_name], agent)[name]
    case = junit(set_name, agent)[name]
    verdict, text = verdict_of(case)
    assert verdict == outcome, text
    found = properties(case).get("rlenv.reward")
    assert (None if found is None else float(found)) == reward
    for word in words:
        assert word.lower() in text.lower()
