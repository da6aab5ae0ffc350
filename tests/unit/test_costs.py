"""What rollouts may take: the last run's times, else the tasks' own limits, if that is soon known."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import pytest_rlenv.costs as costs
from pytest_rlenv.environments.model import LOCAL, Environment, TaskRef
from pytest_rlenv.frameworks.estimate import estimated_seconds

STEPS = """
[[steps]]
name = 'a'
[steps.agent]
timeout_sec = 10
[steps.verifier]
timeout_sec = 1
[[steps]]
name = 'b'
[steps.agent]
timeout_sec = 20
[steps.verifier]
timeout_sec = 2
"""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 600.0),
        ("[agent]\ntimeout_sec = 30\n[verifier]\ntimeout_sec = 5.5\n", 35.5),
        ("[verifier]\ntimeout_sec = 5\n", 5.0),
        ("[agent] # who\n  timeout_sec=1_000\n", 1600.0),
        ("# [agent]\n# timeout_sec = 30\n[environment]\nbuild_timeout_sec = 9\ntimeout_sec = 7\n", 600.0),
        (STEPS, 33.0),
        ("[agent]\r\ntimeout_sec = 30\r\n", 630.0),
        ("[agent]\ntimeout_sec = 1.2.3\n", 600.0),
        ("not TOML [", 600.0),
    ],
)
def test_a_tasks_own_limits(tmp_path: Path, text: str, seconds: float) -> None:
    (tmp_path / "task.toml").write_bytes(text.encode())
    assert estimated_seconds("harbor", tmp_path) == seconds


def test_what_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    assert estimated_seconds("harbor", tmp_path) is None
    assert estimated_seconds("another", tmp_path) is None
    (tmp_path / "task.toml").mkdir()
    assert estimated_seconds("harbor", tmp_path) is None
    (tmp_path / "task.toml").rmdir()
    os.mkfifo(tmp_path / "task.toml")
    assert estimated_seconds("harbor", tmp_path) == 600.0  # nobody writes to it, and nobody waits


class FakeConfig:
    def __init__(self, known: dict[str, float] | None) -> None:
        if known is not None:
            self.cache = self
        self.known = known

    def get(self, key: str, default: object) -> object:
        assert key == costs.SECONDS
        return self.known


class FakeRun:
    def __init__(self, environment: Environment, agents: list[str]) -> None:
        self.environments = [environment]
        self.settings = self
        self.agent = agents
        self.attempts = 1


def make(folder: Path, count: int) -> Environment:
    for number in range(count):
        (folder / f"t{number}").mkdir()
        (folder / f"t{number}" / "task.toml").write_text(f"[agent]\ntimeout_sec = {number}\n")
    return Environment("e", LOCAL, folder, tasks=tuple(TaskRef(f"t{n}", f"t{n}") for n in range(count)))


def of(known: dict[str, float] | None, environment: Environment, *agents: str) -> dict[str, float]:
    config: Any = FakeConfig(known)
    run: Any = FakeRun(environment, list(agents))
    return costs.costs_of_run(config, run)


def test_the_last_runs_times_come_first(tmp_path: Path) -> None:
    found = of({"rlenv:e::t1": 5.0, "elsewhere": 1.0}, make(tmp_path, 3), "oracle")
    assert found == {"rlenv:e::t0": 600.0, "rlenv:e::t1": 5.0, "rlenv:e::t2": 602.0, "elsewhere": 1.0}


def test_each_agent_has_its_item(tmp_path: Path) -> None:
    found = of(None, make(tmp_path, 1), "oracle", "mine:Solver")
    assert found == {"rlenv:e::t0::oracle": 600.0, "rlenv:e::t0::Solver": 600.0}


def test_of_too_many_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "MAX_READ", 2)
    environment = make(tmp_path, 3)
    assert of({}, environment, "oracle") == {}
    assert of({"rlenv:e::t0": 1.0}, environment, "oracle").keys() == {f"rlenv:e::t{n}" for n in range(3)}
