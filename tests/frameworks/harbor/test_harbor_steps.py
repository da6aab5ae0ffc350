"""Tasks of several steps: what each inherits, what its agent finds, what its reward becomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.rollouts import Runner, Scripted, write_steps

from pytest_rlenv.errors import AgentFailed, HealthcheckFailed, RewardMissing, Stage, StepSetupFailed
from pytest_rlenv.frameworks.harbor.step_rewards import missed_minimum
from pytest_rlenv.frameworks.harbor.steps import steps_of
from pytest_rlenv.frameworks.harbor.task import load_task
from pytest_rlenv.verdict import expectation_for, judge

TWO = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
SOLVES = "# scripted: touch=/app/answer"


def judged_by(body: str) -> dict[str, str]:
    return {"tests/test.sh": body, "solution/solve.sh": SOLVES}


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "task"


def reward(value: str) -> dict[str, str]:
    return judged_by(f"# scripted: reward={value}")


def rewards(text: str) -> dict[str, str]:
    return judged_by(f"# scripted: json={text}")


@pytest.mark.parametrize(
    ("config", "one", "two", "expected", "executed"),
    [
        pytest.param("", reward("1"), reward("0.2"), {"reward": 0.6}, 2, id="mean"),
        pytest.param("S", reward("0.2"), reward("1"), {"reward": 1.0}, 2, id="final"),
        pytest.param("", rewards('{"a": 1}'), rewards('{"b": 1}'), {"a": 0.5, "b": 0.5}, 2, id="keys"),
        pytest.param("S", rewards('{"a": 1}'), rewards('{"b": 1}'), {"b": 1.0}, 2, id="final-keys"),
        pytest.param("G0.5", reward("0.3"), reward("1"), {"reward": 0.3}, 1, id="gate"),
        pytest.param("G0.5", reward("0.5"), reward("1"), {"reward": 0.75}, 2, id="gate-reached"),
        pytest.param("SG0.5", reward("0.3"), reward("1"), {"reward": 0.3}, 1, id="final-gate"),
        pytest.param("G{a = 0.5}", reward("1"), reward("1"), {"reward": 1.0}, 1, id="gate-key-missing"),
        pytest.param(
            "G{a = 0.5, b = 0}",
            rewards('{"a": 0.5, "b": -1}'),
            reward("1"),
            {"a": 0.5, "b": -1.0},
            1,
            id="gates",
        ),
        pytest.param("G-1", rewards('{"a": 0}'), reward("1"), {"a": 0.0}, 1, id="no-main-key"),
    ],
)
def test_the_reward_of_all_steps(
    run: Runner,
    root: Path,
    config: str,
    one: dict[str, str],
    two: dict[str, str],
    expected: dict[str, float],
    executed: int,
) -> None:
    strategy = 'multi_step_reward_strategy = "final"\n' if config.startswith("S") else ""
    gate = f"min_reward = {config.partition('G')[2]}\n" if "G" in config else ""
    toml = f'{strategy}[[steps]]\nname = "one"\n{gate}[[steps]]\nname = "two"\n'
    done = run(write_steps(root, toml, {"one": one, "two": two}))
    assert done.error is None
    assert done.rollout.rewards == expected
    assert [step.name for step in done.rollout.steps] == ["one", "two"][:executed]
    gated = executed == 1
    assert bool(done.rollout.steps[0].gate) is gated
    assert ("min-reward" in done.codes()) is gated
    assert ("step-keys-differ" in done.codes()) is (config == "" and len(expected) == 2)


@pytest.mark.parametrize(
    ("given", "minimum", "words"),
    [
        ({"reward": 1.0}, {}, None),
        ({"reward": 1.0}, {"reward": 1.0}, None),
        ({"reward": 0.5}, {"reward": 1.0}, "reward 0.5 < min_reward 1.0"),
        ({"reward": 0.5}, {"acc": 0.1}, "no acc, which has a min_reward of 0.1"),
        ({"reward": 1.0, "acc": 0.1}, {"reward": 0.5, "acc": 0.5}, "acc 0.1 < min_reward 0.5"),
        (None, {"reward": -5.0}, "no reward, which has a min_reward of -5.0"),
    ],
)
def test_a_minimum(given: dict[str, float] | None, minimum: dict[str, float], words: str | None) -> None:
    assert missed_minimum(given, minimum) == words


AT_LEAST_1 = expectation_for(must_not_score=False, threshold=1.0)


@pytest.mark.parametrize(
    ("config", "one", "message"),
    [
        (TWO, "1", "reward 0.6 < 1.0 (steps: one 1.0, two 0.2)"),
        (
            '[[steps]]\nname = "one"\nmin_reward = 0.5\n[[steps]]\nname = "two"\n',
            "0.3",
            "reward 0.3 < 1.0 (steps: one 0.3; reward 0.3 < min_reward 0.5, so two was not run)",
        ),
    ],
)
def test_a_failure_names_the_steps(run: Runner, root: Path, config: str, one: str, message: str) -> None:
    done = run(write_steps(root, config, {"one": reward(one), "two": reward("0.2")}))
    assert judge(done.rollout, AT_LEAST_1).message == message


def test_many_steps_are_cut_in_a_message(run: Runner, root: Path) -> None:
    names = [f"s{n}" for n in range(11)]
    toml = "".join(f'[[steps]]\nname = "{name}"\n' for name in names)
    done = run(write_steps(root, toml, {name: reward("0") for name in names}))
    assert judge(done.rollout, AT_LEAST_1).message.endswith("s7 0.0, +3 more)")


BROKEN: dict[str, Any] = {
    "no reward": (judged_by("# scripted: print=nothing"), RewardMissing, Stage.VERIFY, "step two: no reward"),
    "setup fails": (
        {**reward("1"), "workdir/setup.sh": "# scripted: print=boom\n# scripted: exit=3"},
        StepSetupFailed,
        Stage.START,
        "step two: workdir/setup.sh exited 3",
    ),
    "setup hangs": (
        {**reward("1"), "workdir/setup.sh": "# scripted: hang"},
        StepSetupFailed,
        Stage.START,
        "step two: workdir/setup.sh did not end within 0.1 s",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_step_without_a_reward_is_an_error_that_names_it(run: Runner, root: Path, case: str) -> None:
    files, kind, stage, words = BROKEN[case]
    toml = f"[environment]\nbuild_timeout_sec = 0.1\n{TWO}"
    done = run(write_steps(root, toml, {"one": reward("1"), "two": files}))
    assert isinstance(done.error, kind)
    assert done.error.stage is stage
    assert done.error.message.startswith(words)
    assert done.rollout.rewards is None
    one, two = done.rollout.steps
    assert one.rewards == {"reward": 1.0}
    assert one.error is None
    assert two.error is not None
    assert two.error.message == done.error.message
    assert (done.folder / "steps/one/verifier/reward.txt").read_text() == "1"
    if case == "setup fails":
        assert done.error.detail == "boom"
        assert (done.folder / "steps/two/setup-stdout.txt").read_text() == "boom\n"


def test_a_health_check_of_a_step(run: Runner, root: Path) -> None:
    check = 'healthcheck = {command = "# scripted: exit=1", interval_sec = 0, retries = 2}\n'
    toml = f'[agent]\nuser = "agent"\n{TWO}{check}'
    done = run(write_steps(root, toml, {"one": reward("1"), "two": reward("1")}))
    assert isinstance(done.error, HealthcheckFailed)
    assert done.error.message.startswith("step two: health check")
    users = [ran.user for ran in done.boxes[0].ran if ran.argv[-1] == "# scripted: exit=1"]
    assert users == ["agent", "agent"]


def test_what_each_agent_finds_and_leaves(run: Runner, root: Path) -> None:
    steps = {
        "one": {**reward("1"), "workdir/data/a.txt": "first"},
        "two": {**reward("1"), "workdir/setup.sh": "# scripted: touch=/app/ready", "workdir/b.txt": "second"},
    }
    agent = Scripted(
        "/logs/agent/from-box.txt", "/logs/artifacts/made.txt", "/logs/verifier/evil", "/tests/evil"
    )
    done = run(write_steps(root, TWO, steps, tests__common="shared"), agent)
    assert done.error is None
    assert agent.prepared == 1
    first, second = agent.given
    assert (first.instruction, first.step, second.instruction, second.step) == (
        "do one",
        "one",
        "do two",
        "two",
    )
    assert "/app/data/a.txt" in agent.seen[0]
    assert {"/app/b.txt", "/app/ready", "/app/setup.sh", "/app/data/a.txt"} <= agent.seen[1]
    # nothing of the first step's verifier and logs, but its artifacts
    left = {name for name in agent.seen[1] if name.startswith(("/tests/", "/logs/"))}
    assert left == {"/logs/agent", "/logs/verifier", "/logs/artifacts", "/logs/artifacts/made.txt"}
    for name in ("one", "two"):
        base = done.folder / "steps" / name
        assert (base / "agent/own.log").read_text() == name
        assert (base / "agent/from-box.txt").exists()
        assert (base / "verifier/test-stdout.txt").exists()
        assert not (base / "verifier/evil").exists()
        assert (base / "artifacts/logs/artifacts/made.txt").exists()
        manifest = json.loads((base / "artifacts/manifest.json").read_text())
        assert [(row["source"], row["status"]) for row in manifest] == [("/logs/artifacts", "ok")]
    assert [path.name for path in done.folder.iterdir()] == ["steps"]


def test_the_record_of_the_steps(run: Runner, root: Path) -> None:
    steps = {"one": reward("1"), "two": judged_by("# scripted: reward=0\n# scripted: exit=4")}
    rollout = run(write_steps(root, TWO, steps), Scripted()).rollout
    assert rollout.usage == {"tokens": 20, "model": "m2"}
    assert rollout.verifier_level == "shared"
    assert rollout.agent_command is rollout.verifier_command is None
    one, two = rollout.steps
    assert (one.usage, two.usage) == ({"tokens": 10, "model": "m1"}, {"tokens": 10, "model": "m2"})
    assert one.verifier_command is not None
    assert two.verifier_command is not None
    assert (one.verifier_command.exit_code, two.verifier_command.exit_code) == (0, 4)
    for stage in (Stage.AGENT, Stage.VERIFY, Stage.COLLECT):
        assert rollout.stages[stage] == pytest.approx(one.stages[stage] + two.stages[stage], abs=1e-3)
    assert Stage.AGENT_SETUP not in one.stages
    assert rollout.as_record()["steps"][1]["rewards"] == {"reward": 0.0}


def test_notes_of_a_step_name_it(run: Runner, root: Path) -> None:
    steps = {"one": {**reward("1"), "solution/solve.sh": "# scripted: exit=3"}, "two": reward("1")}
    rollout = run(write_steps(root, TWO, steps)).rollout
    assert ("agent-exit", "step one: the agent exited 3") in [(n.code, n.text) for n in rollout.notes]
    assert [note.text for note in rollout.steps[0].notes] == ["the agent exited 3"]


def test_a_timed_out_agent_of_a_step_is_judged_and_the_next_acts(run: Runner, root: Path) -> None:
    steps = {"one": {**reward("1"), "solution/solve.sh": "# scripted: hang"}, "two": reward("1")}
    toml = f"[agent]\ntimeout_sec = 0.1\n{TWO}agent = {{timeout_sec = 9}}\n"
    done = run(write_steps(root, toml, steps))
    assert done.rollout.rewards == {"reward": 1.0}
    assert [note.code for note in done.rollout.steps[0].notes] == ["agent-timeout"]
    assert [note.code for note in done.rollout.steps[1].notes] == []


def test_an_agent_that_breaks_in_a_step(run: Runner, root: Path) -> None:
    class Breaks(Scripted):
        def run(self, context: Any) -> Any:
            if context.step == "two":
                raise ValueError("oh")
            return super().run(context)

    done = run(write_steps(root, TWO, {"one": reward("1"), "two": reward("1")}), Breaks())
    assert isinstance(done.error, AgentFailed)
    assert done.error.message == "step two: agent Breaks raised ValueError: oh"


def test_inheritance(run: Runner, root: Path) -> None:
    toml = """
[agent]
user = "a"
timeout_sec = 11
[verifier]
user = "v"
timeout_sec = 22
env = {A = "task", B = "task"}
[[steps]]
name = "one"
[[steps]]
name = "two"
agent = {user = "a2", timeout_sec = 33}
verifier = {user = "v2", timeout_sec = 44, env = {B = "${FROM_HOST}"}}
"""
    steps = {"one": reward("1"), "two": {**reward("1"), "tests/helper": "step"}}
    task = write_steps(root, toml, steps, tests__helper="task", tests__other="task")
    run.environ = {"FROM_HOST": "host"}
    agent = Scripted()
    done = run(task, agent)
    assert done.error is None
    tests = [ran for ran in done.boxes[0].ran if ran.argv[-1] == "/tests/test.sh"]
    assert [(ran.user, ran.timeout, ran.env) for ran in tests] == [
        ("v", 600.0, {"A": "task", "B": "task"}),
        ("v2", 44.0, {"A": "task", "B": "host"}),
    ]
    assert [context.box._user for context in agent.given] == ["a", "a2"]
    first, second = (context.box.remaining for context in agent.given)
    assert first is not None
    assert second is not None
    assert first <= 11 < second <= 33
    one, two = steps_of(load_task(task, "t"))
    assert [entry.content for entry in two.tests_entries() if entry.path == "helper"] == [b"task", b"step"]
    assert [entry.content for entry in one.tests_entries() if entry.path == "other"] == [b"task"]


@pytest.mark.parametrize(
    ("steps", "files", "missing"),
    [
        ({"one": reward("1"), "two": reward("1")}, {}, None),
        (
            {"one": {"tests/test.sh": ""}, "two": reward("1")},
            {},
            "no reference solution for step one: solution/solve.sh not found (there is no solution/)",
        ),
        ({"one": {"tests/test.sh": ""}, "two": {"tests/test.sh": ""}}, {"solution__solve.sh": "x"}, None),
        (
            {"one": {"tests/test.sh": "", "solution/x": ""}, "two": reward("1")},
            {"solution__solve.sh": "x"},
            (
                "no reference solution for step one: steps/one/solution/solve.sh not found "
                "(steps/one/solution/ holds x)"
            ),
        ),
    ],
)
def test_the_solution_of_a_step(
    root: Path, steps: dict[str, dict[str, str]], files: dict[str, str], missing: str | None
) -> None:
    found = [
        step.missing_solution for step in steps_of(load_task(write_steps(root, TWO, steps, **files), "t"))
    ]
    assert next((text for text in found if text), None) == missing
