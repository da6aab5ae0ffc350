"""A model, or a player of one's own, at a taskset's tasks, with a package that stands in for Verifiers."""

from __future__ import annotations

import json
import shutil
import time
from typing import Any

import pytest
from support.project import Project
from support.scripted_model import Reply, ScriptedModel, Seen, use
from support.verifiers import MODEL, TRUST, answers_by_kind, by_task, kinds, run, told

import pytest_rlenv.frameworks.verifiers.framework
import pytest_rlenv.frameworks.verifiers.model_run  # noqa: F401 - loaded for good, as in conftest.py


@pytest.fixture
def asked(toys: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-123456")
    return toys


def play(project: Project, model: ScriptedModel, *args: str) -> dict[str, dict[str, Any]]:
    run(project, TRUST, "--agent=model", "--model=openai/toy", f"--rlenv-model-url={model.url}", *args)
    return by_task(project)


def test_a_model_plays_in_the_tasksets_environment(asked: Project) -> None:
    with ScriptedModel(["It is 42, please."]) as model:
        found = play(asked, model, *kinds("good"))["good"]

    assert found["verdict"] == "passed"
    assert found["rewards"] == {"reward": 1.0, "correct": 1.0, "polite": 1.0}
    assert {"code": "metrics", "text": "length 17.0"} in found["notes"]
    assert found["usage"]["input_tokens"] > 0
    assert found["stages"]["agent"] > 0
    (seen,) = model.requests
    assert seen.body["messages"] == [{"role": "user", "content": "What is the answer, good?"}]
    logs = asked.run_dir / found["logs"]
    trajectory = json.loads((logs / "agent" / "trajectory.json").read_text())
    assert [step["source"] for step in trajectory["steps"]] == ["user", "agent"]
    assert json.loads((logs / "episode.json").read_text())["traces"][0]["stop_condition"] == "agent_completed"
    assert (logs / "model-calls.jsonl").exists()


def test_how_an_episode_ends(asked: Project) -> None:
    with ScriptedModel(answers_by_kind) as model:
        found = play(asked, model, *kinds(*MODEL))

    assert told(asked) == MODEL
    assert found["good"]["rewards"] == {"reward": 0.75, "correct": 1.0, "polite": 0.0}


def test_an_agent_out_of_time_is_scored(asked: Project) -> None:
    def late(seen: Seen) -> Reply:
        time.sleep(0.8)
        return Reply("42")

    with ScriptedModel(late) as model:
        found = play(asked, model, *kinds("agent-slow"))["agent-slow"]

    assert found["verdict"] == "failed"
    assert "agent-timeout" in {note["code"] for note in found["notes"]}


def test_an_agent_that_had_all_its_turns_is_scored(asked: Project) -> None:
    with ScriptedModel([use("more"), use("more"), "42"]) as model:
        found = play(asked, model, "--rlenv-max-turns=2", *kinds("good"))["good"]

    assert found["verdict"] == "failed"
    assert "turn-limit" in {note["code"] for note in found["notes"]}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--rlenv-max-tokens=200"], "token-budget"),
        (["--rlenv-max-rollout-cost=0.02", "--rlenv-model-price=100/100"], "cost-budget"),
    ],
)
def test_an_agent_that_used_up_a_budget_is_scored(asked: Project, options: list[str], code: str) -> None:
    with ScriptedModel([use("more"), use("more"), "42"]) as model:
        found = play(asked, model, *options, *kinds("good"))["good"]

    assert found["verdict"] == "failed"
    assert found["rewards"]["reward"] == 0.0
    assert [note["code"] for note in found["notes"]].count(code) == 1
    assert "stop-condition" not in {note["code"] for note in found["notes"]}
    assert found["usage"]["model_calls"] == model.calls


def test_a_budget_whose_end_is_not_scored_is_an_error_by_its_name(asked: Project) -> None:
    options = ("--rlenv-taskset=toy-seats", "--rlenv-taskset-option=own_tasks=true")
    with ScriptedModel(lambda seen: use("more")) as model:
        found = play(asked, model, "--rlenv-max-tokens=1", *options)["one"]

    assert found["error"]["type"] == "BudgetExceeded"
    assert "--rlenv-max-tokens" in found["error"]["message"]
    assert "token-budget" in {note["code"] for note in found["notes"]}


def test_a_budget_over_several_seats_ends_them_all_scored(asked: Project) -> None:
    with ScriptedModel(["42", "looks right"]) as model:
        found = play(asked, model, "--rlenv-taskset=toy-seats", "--rlenv-max-turns=1")["one"]

    assert found["rewards"]["reward"] == 1.0
    assert "turn-limit" in {note["code"] for note in found["notes"]}
    assert model.calls == 1


@pytest.mark.parametrize(("options", "reward"), [((), 1.0), (("--rlenv-verifiers-seat=judge",), 0.0)])
def test_of_several_seats_one_is_judged(asked: Project, options: tuple[str, ...], reward: float) -> None:
    with ScriptedModel(["42", "looks right"]) as model:
        found = play(asked, model, "--rlenv-taskset=toy-seats", *options)["one"]

    assert found["rewards"]["reward"] == reward
    assert "solver 1.0; judge 0.0" in next(n["text"] for n in found["notes"] if n["code"] == "several-traces")


def test_a_seat_that_is_not_there_is_told(asked: Project) -> None:
    with ScriptedModel(["42"]) as model:
        found = play(asked, model, "--rlenv-verifiers-seat=nobody", *kinds("good"))["good"]

    assert "agent" in found["error"]["message"]
    assert found["error"]["type"] == "TaskInvalid"


def test_a_recorded_model_is_replayed_without_a_server(asked: Project) -> None:
    with ScriptedModel(["42 please"]) as model:
        play(asked, model, "--rlenv-record=calls", *kinds("good"))
    shutil.rmtree(asked.path / ".rlenv")
    run(asked, TRUST, "--agent=model", "--model=openai/toy", "--rlenv-replay=calls", *kinds("good"))

    assert by_task(asked)["good"]["rewards"]["reward"] == 1.0


def test_your_own_player_answers(toys: Project) -> None:
    (toys.path / "my_agents.py").write_text(
        "from pytest_rlenv.agents.episode import Player\n"
        "class Knows(Player):\n"
        "    def play(self, episode, context):\n"
        "        assert episode.messages[-1]['content'] == 'What is the answer, good?'\n"
        "        assert 'no tool' in episode.call('search', {})\n"
        "        episode.say('42')\n"
        "class Silent(Player):\n"
        "    def play(self, episode, context):\n"
        "        pass\n"
    )
    (toys.path / "my_functions.py").write_text(
        "def says(observation, action_schema, tools):\n    return '42, please'\n"
    )
    run(toys, TRUST, "--agent=my_agents:Knows,my_agents:Silent,my_functions:says", *kinds("good"))

    found = {record["agent"]: record for record in toys.records()}
    assert found["Knows"]["rewards"]["reward"] == 0.75
    assert found["says"]["rewards"]["reward"] == 1.0
    assert found["Silent"]["error"]["type"] == "AgentFailed"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (kinds("good", image="debian"), "the image debian"),
        (kinds("no-prompt"), "no prompt"),
        (["--rlenv-taskset=toy-tools"], "has tools"),
    ],
)
def test_a_player_that_can_only_answer_is_skipped(toys: Project, options: list[str], why: str) -> None:
    (toys.path / "my_agents.py").write_text(
        "def answer(observation, action_schema, tools):\n    return '42'\n"
    )

    run(toys, TRUST, "--agent=my_agents:answer", *options)

    assert why in toys.records()[0]["skip_reason"]


def test_an_agent_that_wants_a_box_is_skipped(toys: Project) -> None:
    run(toys, TRUST, "--agent=cmd:true", *kinds("good"))

    assert "works in a box" in toys.records()[0]["skip_reason"]
