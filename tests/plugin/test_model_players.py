"""A run whose agent is a model that plays episodes: verdicts, usage, recordings, replays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests  # noqa: F401 - loaded for good: pytester forgets what a run in this process imports
import support.scripted_framework as scripted_framework
from support.project import Project, outcomes
from support.scripted_episodes import rows
from support.scripted_model import Failure, Reply, ScriptedModel, Seen, use

from pytest_rlenv.agents.conversing.limits import Patience
from pytest_rlenv.agents.model_player.agent import ModelPlayer

KEY = "real-key-of-the-provider"
WINS = {"act": use("act", guess=7), "tools": use("guess", guess=7), "talk": "7"}


@pytest.fixture
def playing(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    scripted_framework.install(monkeypatch.setattr)
    monkeypatch.setattr(ModelPlayer, "patience", Patience(tries=2, first=0.0))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    project.pytester.makeconftest(scripted_framework.CONFTEST)
    return project


def tasks(project: Project, **rows_: Any) -> None:
    project.environment.mkdir(parents=True, exist_ok=True)
    (project.environment / "guess.jsonl").write_text(rows(**rows_))


@pytest.fixture
def winner() -> Iterator[ScriptedModel]:
    """A model that looks at what it is asked, and answers right."""

    def win(request: Seen) -> Reply | str:
        names = {tool["function"]["name"] for tool in request.body.get("tools", ())}
        return use("act", guess=7) if "act" in names else use("guess", guess=7) if names else "7"

    with ScriptedModel(win, key=KEY) as model:
        yield model


def run(project: Project, model: ScriptedModel | None, *args: str, agent: str = "model") -> pytest.RunResult:
    url = [f"--rlenv-model-url={model.url}"] if model is not None else []
    return project.run(
        "--rlenv", "envs/demo", f"--agent={agent}", "--model=openai/m", *url, *args, sandbox=None
    )


def record_of(project: Project) -> dict[str, Any]:
    (record,) = project.records()
    return record


def test_it_plays_whatever_the_environment_is(playing: Project) -> None:
    for kind, reply in WINS.items():
        tasks(playing, t0={"kind": kind})
        with ScriptedModel([reply], key=KEY) as model:
            result = run(playing, model, f"--rlenv-output={kind}")
        assert outcomes(result) == {"passed": 1}
    records = [json.loads((playing.path / kind / "results.jsonl").read_text()) for kind in WINS]
    for record in records:
        assert (record["agent"], record["model"], record["sandbox"]) == ("model", "openai/m", "none")
        assert record["usage"]["model_calls"] == record["usage"]["turns"] == 1
        assert record["usage"]["input_tokens"] == 100
        assert [Path(each).name for each in record["trajectories"]] == ["trajectory.json"]


@pytest.mark.parametrize(
    ("replies", "args", "verdict", "code"),
    [
        ([use("guess", guess=1), "I give up"], [], "failed", None),
        ([use("look")] * 3, ["--rlenv-max-turns=2"], "failed", "turn-limit"),
        ([use("look")] * 3, ["--rlenv-max-tokens=150"], "failed", "token-budget"),
        ([Reply("no", stop="refusal")], [], "failed", "refusal"),
        ([Failure(400, "too long", "context_length_exceeded")], [], "failed", "context-exceeded"),
    ],
)
def test_an_agent_that_did_not_get_there_is_judged(
    playing: Project, replies: list[Any], args: list[str], verdict: str, code: str | None
) -> None:
    tasks(playing, t0={"kind": "tools"})
    with ScriptedModel(replies, key=KEY) as model:
        run(playing, model, *args)
    record = record_of(playing)
    assert (record["verdict"], [note["code"] for note in record["notes"]]) == (
        verdict,
        [code] if code else [],
    )


@pytest.mark.parametrize(
    ("replies", "task", "error"),
    [
        ([Failure(401, "wrong key")], {}, "ModelAccessDenied"),
        ([Failure(503, "down")] * 2, {}, "ModelUnavailable"),
        ([use("guess", guess=7)], {"breaks": True}, "SandboxFailed"),
        ([use("guess", guess=7)], {"reward": None}, "RewardMissing"),
    ],
)
def test_without_a_chance_or_a_reward_it_is_an_error(
    playing: Project, replies: list[Any], task: dict[str, Any], error: str
) -> None:
    tasks(playing, t0={"kind": "tools", **task})
    with ScriptedModel(replies, key=KEY) as model:
        assert outcomes(run(playing, model)) == {"errors": 1}
    record = record_of(playing)
    assert (record["error"]["type"], record["reward"]) == (error, None)
    assert record["usage"]["model_calls"] == len(replies)


def test_an_episode_that_was_over_at_once_is_judged(playing: Project) -> None:
    tasks(playing, t0={"kind": "tools", "steps": 0})
    with ScriptedModel([], key=KEY) as model:
        run(playing, model)
    assert [note["code"] for note in record_of(playing)["notes"]] == ["agent-stopped"]


def test_its_time_is_the_tasks(playing: Project) -> None:
    tasks(playing, t0={"kind": "tools", "seconds": 0.3, "steps": 10**9})
    with ScriptedModel([use("look")] * 10_000, key=KEY) as model:
        run(playing, model)
    record = record_of(playing)
    assert (record["verdict"], [note["code"] for note in record["notes"]]) == ("failed", ["agent-timeout"])


@pytest.mark.parametrize("args", [["-n2"], ["--rlenv-jobs=2"]])
def test_many_are_played_at_once(playing: Project, winner: ScriptedModel, args: list[str]) -> None:
    tasks(playing, **{f"t{n}": {"kind": kind} for n, kind in enumerate([*WINS, *WINS])})
    assert outcomes(run(playing, winner, *args)) == {"passed": 6}
    assert [each["usage"]["model_calls"] for each in playing.records()] == [1] * 6


def test_what_was_recorded_is_replayed_without_the_model(playing: Project) -> None:
    tasks(playing, t0={"kind": "act"}, t1={"kind": "tools"})
    with ScriptedModel([use("act", guess=1), use("act", guess=7), use("guess", guess=7)], key=KEY) as model:
        assert outcomes(run(playing, model, "--rlenv-record=tapes")) == {"passed": 2}
    played = {each["task"]: each["usage"] for each in playing.records()}
    result = run(playing, None, "--rlenv-replay=tapes", "--rlenv-output=again")
    assert outcomes(result) == {"passed": 2}
    again = [json.loads(line) for line in (playing.path / "again/results.jsonl").read_text().splitlines()]
    assert {each["task"]: each["usage"]["model_calls"] for each in again} == {
        task: usage["model_calls"] for task, usage in played.items()
    }
    tasks(playing, t0={"kind": "act", "target": 0, "steps": 1}, t1={"kind": "talk"})
    result = run(playing, None, "--rlenv-replay=tapes", "--rlenv-output=third")
    third = [json.loads(line) for line in (playing.path / "third/results.jsonl").read_text().splitlines()]
    assert [note["code"] for note in third[0]["notes"]] == ["replay-left"]
    assert third[1]["error"]["type"] == "ReplayDiverged"


def test_its_moves_are_replayed_from_the_runs_folder(playing: Project) -> None:
    tasks(playing, t0={"kind": "act"}, t1={"kind": "tools"})
    with ScriptedModel([use("act", guess=1), use("act", guess=7), use("guess", guess=7)], key=KEY) as model:
        run(playing, model, "--rlenv-output=before")
    assert outcomes(run(playing, None, "--rlenv-output=again", agent="replay:before")) == {"passed": 2}
    tasks(playing, t0={"kind": "act", "target": 8}, t1={"kind": "tools"})
    assert outcomes(run(playing, None, agent="replay:before")) == {"passed": 1, "failed": 1}
    first, second = playing.records()
    assert [note["code"] for note in first["notes"]] == ["replay-diverged", "replay-output"]
    assert first["usage"] == {"moves": 2, "outputs_differing": 1}
    assert second["notes"] == []


def test_without_a_model_or_key_nothing_starts(playing: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks(playing, t0={"kind": "act"})
    result = playing.run("--rlenv", "envs/demo", "--agent=model", sandbox=None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    monkeypatch.delenv("OPENAI_API_KEY")
    result = run(playing, None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "OPENAI_API_KEY is not set" in result.stderr.str()


def test_in_a_box_it_is_a_skip(playing: Project) -> None:
    playing.tasks(t0="# scripted: reward=1")
    result = playing.demo("--agent=model", "--model=openai/m")
    assert outcomes(result) == {"skipped": 1}
    assert not (playing.path / "scripted" / "up").exists()


BAD = "def two(observation, tools):\n    return None\n"


def test_a_function_whose_signature_does_not_fit_ends_the_run_before_it_begins(playing: Project) -> None:
    tasks(playing, t0={"kind": "act"})
    playing.pytester.makepyfile(bad=BAD)
    result = run(playing, None, agent="bad:two")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stderr.str()
    assert "two(observation, tools) cannot be called with (observation, action_schema, tools)" in text
    assert "Traceback" not in text
