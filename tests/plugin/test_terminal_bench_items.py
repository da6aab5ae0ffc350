"""Tasks of Terminal-Bench 1 as test items, beside those of Harbor."""

from __future__ import annotations

import pytest
from support.project import Project, ids, outcomes, properties
from support.terminal_bench import COMPOSE, CONFIG, FAILS, write_terminal_bench_task


@pytest.fixture
def mixed(project: Project) -> Project:
    project.task("harbor")
    tasks = project.environment / "tasks"
    write_terminal_bench_task(tasks / "passes")
    write_terminal_bench_task(tasks / "fails", {"run-tests.sh": FAILS, "task.yaml": "instruction: x\n"})
    write_terminal_bench_task(tasks / "silent", {"run-tests.sh": "# scripted: print=1 passed in 0.1s"})
    write_terminal_bench_task(tasks / "broken", {"task.yaml": f"{CONFIG}max_test_timeout_sec: soon\n"})
    write_terminal_bench_task(tasks / "sidecar", {"docker-compose.yaml": f"{COMPOSE}  db: {{image: x}}\n"})
    return project


def test_every_task_gets_its_verdict(mixed: Project) -> None:
    cases = mixed.junit("--agent=oracle")
    found = {name: properties(case) for name, case in cases.items()}
    assert {name: each["rlenv.framework"] for name, each in found.items()} == {
        "harbor": "harbor",
        **dict.fromkeys(["passes", "fails", "silent", "broken", "sidecar"], "terminal-bench"),
    }
    assert {name: each.get("rlenv.reward") for name, each in found.items() if name != "harbor"} == {
        "passes": "1.0", "fails": "0.0", "silent": None, "broken": None, "sidecar": None
    }  # fmt: skip
    texts = {name: "".join(case.itertext()) for name, case in cases.items()}
    assert "test_it" in texts["fails"]
    assert "RewardMissing [verify]: no reward: the output of run-tests.sh" in texts["silent"]
    assert "TaskInvalid [load]: task.yaml: max_test_timeout_sec" in texts["broken"]
    assert cases["sidecar"].find("skipped") is not None
    assert all(
        each.get("rlenv.task_digest", "").startswith("sha256:")
        for each in found.values()
        if "rlenv.reward" in each
    )


def test_they_are_selected_as_others_are(mixed: Project) -> None:
    assert ids(mixed.demo("--co", "-q", "-m", "slow", "--strict-markers")) == [
        f"rlenv:envs/demo::{name}" for name in ("broken", "passes", "sidecar", "silent")
    ]
    assert outcomes(mixed.demo("--agent=nop", "--rlenv-task=fails", "--rlenv-task=harbor")) == {"passed": 2}
    mixed.demo("--co", "--rlenv-task=passes", "-v").stdout.no_fnmatch_line("*harbor*")
    assert outcomes(mixed.run("rlenv:envs/demo::passes", "--agent=nop")) == {"failed": 1}
