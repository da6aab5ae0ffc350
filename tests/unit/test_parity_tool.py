"""The tool that compares with Harbor: what it reads, when two outcomes are equal, and its table."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_rlenv.frameworks.harbor.task import load_task

FOLDER = Path(__file__).parent.parent / "parity"
sys.path.insert(0, str(FOLDER))  # it is run as a folder, not imported as a package
try:
    from differences import RULES, UNEXPLAINED, Row, compare
    from made import MADE, write_made
    from runs import Outcome, harbor_outcome, our_outcome, run_one
finally:
    sys.path.remove(str(FOLDER))

REWARD_1 = {"reward": 1.0}


def wrote(folder: Path, result: dict[str, Any]) -> Path:
    """Write a trial as Harbor does, and return the folder of its job's folders."""
    trial = folder / "2026-01-01__00-00-00" / "task__abc1234"
    trial.mkdir(parents=True)
    (trial / "result.json").write_text(json.dumps(result))
    return folder


# ---- what Harbor left


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({"verifier_result": {"rewards": REWARD_1}, "exception_info": None}, Outcome(REWARD_1)),
        ({"verifier_result": {"rewards": {}}}, Outcome({})),
        (
            {
                "verifier_result": None,
                "exception_info": {"exception_type": "VerifierTimeoutError", "exception_message": "a\nb\n"},
            },
            Outcome(error="VerifierTimeoutError", message="a"),
        ),
        (
            {
                "verifier_result": {"rewards": REWARD_1},
                "exception_info": {"exception_type": "AgentTimeoutError", "exception_message": ""},
            },
            Outcome(REWARD_1, error="AgentTimeoutError"),
        ),
        (
            {
                "verifier_result": {"rewards": REWARD_1},
                "step_results": [
                    {"step_name": "one", "verifier_result": {"rewards": REWARD_1}},
                    {"step_name": "two", "verifier_result": None},
                ],
            },
            Outcome(REWARD_1, steps={"one": REWARD_1, "two": None}),
        ),
    ],
    ids=["reward", "no-key", "exception", "exception-and-reward", "steps"],
)
def test_a_trial_of_harbors(tmp_path: Path, result: dict[str, Any], outcome: Outcome) -> None:
    assert harbor_outcome(wrote(tmp_path, result), "") == outcome


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            "╭─ Traceback ─╮\n│ File x      │\n│ ValueError: network_mode │\n╰─╯\nValueError: it\nmore\n",
            "ValueError: it",
        ),
        ("Either datasets or tasks must be provided.\n", "Either datasets or tasks must be provided."),
        ("\n", "it printed nothing"),
    ],
)
def test_a_job_that_ended_without_a_trial(tmp_path: Path, output: str, message: str) -> None:
    assert harbor_outcome(tmp_path, output) == Outcome(error="NoTrial", message=message)


@pytest.fixture
def harbor(tmp_path: Path) -> Path:
    """A Harbor whose every trial scores, and that counts how often it was asked."""
    program = tmp_path / "harbor/bin/harbor"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"""#!/bin/sh
echo x >>{tmp_path}/asked
while [ $# -gt 0 ]; do case $1 in --jobs-dir) jobs=$2 ;; --path) path=$2 ;; esac; shift; done
[ -d "$path" ] || exit 1
mkdir -p "$jobs/job/trial"
echo '{{"verifier_result": {{"rewards": {{"reward": 1.0}}}}}}' >"$jobs/job/trial/result.json"
"""
    )
    program.chmod(0o755)
    return tmp_path / "harbor"


def test_a_kept_trial_is_not_run_again(tmp_path: Path, harbor: Path) -> None:
    jobs = tmp_path / "kept/task"
    for _ in range(2):
        assert run_one(harbor, tmp_path, "nop", jobs) == Outcome(REWARD_1)
    assert (tmp_path / "asked").read_text() == "x\n"


def test_a_trial_that_was_cut_off_is_run_again(tmp_path: Path, harbor: Path) -> None:
    jobs = wrote(tmp_path / "kept/task", {"verifier_result": {"rewards": {"reward": 0.0}}})
    assert run_one(harbor, tmp_path, "nop", jobs) == Outcome(REWARD_1)


# ---- tasks of its own


@pytest.mark.parametrize("name", MADE)
def test_a_made_task_is_one(tmp_path: Path, name: str) -> None:
    assert load_task(write_made(tmp_path) / name, name).name == name


# ---- what we left


RECORD: dict[str, Any] = {
    "rewards": None,
    "verdict": "error",
    "error": None,
    "skip_reason": None,
    "notes": [],
    "steps": [],
}


@pytest.mark.parametrize(
    ("record", "outcome"),
    [
        ({"rewards": REWARD_1, "verdict": "passed"}, Outcome(REWARD_1)),
        (
            {"error": {"type": "RewardMissing", "message": "no reward"}},
            Outcome(error="RewardMissing", message="no reward"),
        ),
        (
            {"error": {"type": "KeyError", "message": "'x'"}},
            Outcome(error="KeyError", message="'x'", fault=True),
        ),
        (
            {"verdict": "skipped", "skip_reason": "no reference solution"},
            Outcome(message="no reference solution", skipped=True),
        ),
        (
            {
                "rewards": REWARD_1,
                "notes": [{"code": "agent-timeout", "text": "t"}],
                "steps": [{"name": "one", "rewards": REWARD_1}, {"name": "two", "rewards": None}],
            },
            Outcome(REWARD_1, steps={"one": REWARD_1, "two": None}, notes={"agent-timeout": "t"}),
        ),
    ],
    ids=["reward", "error", "fault", "skip", "steps"],
)
def test_a_record_of_ours(record: dict[str, Any], outcome: Outcome) -> None:
    assert our_outcome(RECORD | record) == outcome


# ---- side by side


MISSING = Outcome(error="RewardMissing", message="no reward")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (Outcome(REWARD_1), Outcome(REWARD_1)),
        (Outcome(REWARD_1), Outcome(REWARD_1, notes={"agent-exit": "t"})),
        (Outcome(error="RewardFileNotFoundError"), MISSING),
        (Outcome(REWARD_1, steps={"a": REWARD_1}), Outcome(REWARD_1, steps={"a": REWARD_1})),
    ],
)
def test_equal(theirs: Outcome, ours: Outcome) -> None:
    row = compare("task", "oracle", theirs, ours)
    assert row.equal
    assert not row.unexplained
    assert row.reason == ""


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (Outcome(REWARD_1), Outcome({"reward": 0.0})),
        (Outcome(REWARD_1), Outcome({"score": 1.0})),
        (Outcome(REWARD_1), MISSING),
        (Outcome(error="RewardFileNotFoundError"), Outcome(REWARD_1)),
        (Outcome(), MISSING),
        (Outcome(REWARD_1, error="NonZeroAgentExitCodeError"), Outcome(REWARD_1)),
        (Outcome(REWARD_1, steps={"a": REWARD_1}), Outcome(REWARD_1, steps={"a": {"reward": 0.5}})),
        (Outcome(error="RuntimeError"), Outcome(error="KeyError", message="GPU link", fault=True)),
        (Outcome(REWARD_1), Outcome(skipped=True, message="something else is missing")),
    ],
    ids=["reward", "key", "only-theirs", "only-ours", "nothing", "exception", "steps", "fault", "skip"],
)
def test_not_explained(theirs: Outcome, ours: Outcome) -> None:
    row = compare("task", "oracle", theirs, ours)
    assert row.unexplained
    assert row.reason == UNEXPLAINED


def skipped(reason: str) -> Outcome:
    return Outcome(skipped=True, message=reason)


LATE = Outcome(REWARD_1, error="AgentTimeoutError")
TWO = {"one": REWARD_1, "two": None}
EXPLAINED: dict[str, tuple[Outcome, Outcome]] = {
    "without a reference solution": (
        Outcome(REWARD_1, error="FileNotFoundError"),
        skipped("no reference solution: solution/solve.sh not found"),
    ),
    "more than this machine has": (Outcome(REWARD_1), skipped("cpus = 64: this machine has 2")),
    "a device that is not here": (
        Outcome(error="RuntimeError"),
        skipped("gpus = 1: this sandbox has no GPU"),
    ),
    "only Linux containers": (Outcome(error="RuntimeError"), skipped('os = "windows": only Linux')),
    "a time-out of the agent is a note": (LATE, Outcome(REWARD_1, notes={"agent-timeout": "t"})),
    "a timed-out agent is killed": (LATE, Outcome({"reward": 0.0}, notes={"agent-timeout": "t"})),
    "an empty set of rewards": (Outcome({}), Outcome(error="RewardInvalid")),
    "a network policy holds": (
        Outcome(
            error="NoTrial", message="'no-network' is not supported by EnvironmentType.DOCKER environment"
        ),
        Outcome(REWARD_1),
    ),
    "which of them counts is not said": (
        Outcome({"a": 1.0, "b": 0.0}),
        Outcome({"a": 1.0, "b": 0.0}, error="RewardInvalid", message="choose one with --rlenv-reward_key"),
    ),
    "a step's setup.sh": (
        Outcome(REWARD_1, steps=TWO),
        Outcome(steps=TWO, error="StepSetupFailed", message="step two: workdir/setup.sh exited 3"),
    ),
    "a step without a reward": (
        Outcome(REWARD_1, steps=TWO),
        Outcome(steps=TWO, error="RewardMissing", message="step two: no reward"),
    ),
    "none is called reward": (
        Outcome({"a": 1.0, "b": 0.0}),
        Outcome({"a": 1.0, "b": 0.0}, error="RewardInvalid", message="several rewards, a and b"),
    ),
    "outside the range": (
        Outcome({"reward": 100.0}),
        Outcome({"reward": 100.0}, error="RewardContractBroken", message="reward 100 is not in [0, 1]"),
    ),
    "no float can hold": (
        Outcome({"reward": 10**400}),
        Outcome(error="RewardInvalid", message="reward.json: 'reward' is too large for a number (inf)"),
    ),
    "given twice": (
        Outcome(REWARD_1),
        Outcome(error="RewardInvalid", message="reward.json has the key 'reward' twice"),
    ),
    "two artifacts at one place": (
        Outcome({"reward": 0.0}),
        Outcome(REWARD_1, notes={"task-warning": "'/b' would go to x, where '/a' is: it is left out"}),
    ),
    "an artifact that is a link": (
        Outcome({"reward": 0.0}),
        Outcome(REWARD_1, notes={"artifact-link": "artifact /app/l: a link"}),
    ),
    "the first process of a box": (
        Outcome(REWARD_1),
        Outcome(error="SandboxFailed", message="the box died: PID 1 ended with exit code 0"),
    ),
    "a link is not followed": (
        Outcome(REWARD_1),
        Outcome(error="RewardInvalid", message="/logs/verifier/reward.txt is a symlink"),
    ),
}


@pytest.mark.parametrize("words", EXPLAINED)
def test_a_difference_that_is_meant_has_its_reason(words: str) -> None:
    row = compare("task", "oracle", *EXPLAINED[words])
    assert not row.equal
    assert words in row.reason


def test_each_reason_has_an_example() -> None:
    given = {compare("task", "oracle", *outcomes).reason for outcomes in EXPLAINED.values()}
    assert given == {reason for reason, _ in RULES}


# ---- the table


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    """What the program itself defines."""
    sys.path.insert(0, str(FOLDER))
    try:
        return runpy.run_path(str(FOLDER / "__main__.py"))
    finally:
        sys.path.remove(str(FOLDER))


@pytest.fixture(scope="module")
def report(tool: dict[str, Any]) -> Callable[..., int]:
    found: Callable[..., int] = tool["report"]
    return found


def test_copies_without_networks(tool: dict[str, Any], tmp_path: Path) -> None:
    config = tmp_path / "tasks/one/task.toml"
    config.parent.mkdir(parents=True)
    (tmp_path / "tasks/README.md").touch()
    networks = 'network_mode = "allowlist"\nallowed_hosts = ["a"]\n'
    text = f'[environment]\n{networks}cpus = 1\n[agent]\n  network_mode="public"'
    config.write_text(text)
    copy = tool["without_networks"](tmp_path / "tasks", tmp_path / "copy")
    assert (copy / "one/task.toml").read_text() == "[environment]\ncpus = 1\n[agent]\n"
    assert config.read_text() == text


def rows() -> list[Row]:
    return [
        compare("same", "nop", Outcome(REWARD_1), Outcome(REWARD_1)),
        compare("known", "nop", *EXPLAINED["an empty set of rewards"]),
        compare("odd", "nop", Outcome(REWARD_1), skipped("a|b")),
    ]


def test_the_table(report: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert report(rows(), everything=False) == 1
    head, line, known, odd, _, count = capsys.readouterr().out.splitlines()
    assert head == "| task | agent | Harbor | ours | difference |"
    assert line == "|---|---|---|---|---|"
    assert known.startswith("| known | nop | {} | RewardInvalid | an empty set of rewards")
    assert odd == f"| odd | nop | reward 1 | skipped; a/b | {UNEXPLAINED} |"
    assert count == "3 rows: 1 equal, 1 explained, 1 not"


def test_a_table_with_equal_rows(report: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert report(rows()[:2], everything=True) == 0
    assert "| same | nop | reward 1 | reward 1 | equal |" in capsys.readouterr().out
