"""What each answer of a server's means for a rollout: a reward, an error of its own kind, or a skip."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.openenv import Misbehaving, ToolEnvironment, served, write_environment
from support.openenv_rollouts import checking, earn, raw, run

from pytest_rlenv.agents.canary import CanaryAgent
from pytest_rlenv.agents.ending import AgentOutcome
from pytest_rlenv.agents.episode import Episode, EpisodeContext, Player
from pytest_rlenv.agents.nop import NopAgent
from pytest_rlenv.agents.replay.agent import ReplayAgent
from pytest_rlenv.frameworks.openenv import host as host_module
from pytest_rlenv.frameworks.openenv import launch, session
from pytest_rlenv.frameworks.openenv.framework import OpenEnvFramework


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served() as address:
        yield address


@pytest.mark.parametrize(
    ("actions", "told", "words"),
    [
        ([{"do": "win"}], "1.0", ""),
        ([earn(0.25), earn(0.5, True)], "0.5", ""),
        ([earn(0.25), earn(None, True)], "0.25", ""),  # an environment that grades before the last step
        ([earn(1.0, True), earn(0.0)], "1.0", ""),  # nothing is taken after the end
        ([earn(0)], "0.0", ""),
        ([earn(None)], "RewardMissing", "no reward: all of 1 step have reward null"),
        ([raw("NaN")], "RewardInvalid", "is not a number (NaN)"),
        ([raw("Infinity")], "RewardInvalid", "too large"),
        ([raw('"1.0"')], "RewardInvalid", "the string '1.0'"),
        ([raw("[1]")], "RewardInvalid", "an array"),
        ([raw('{"a": 1}')], "RewardInvalid", "an object"),
        ([raw("1e300")], "RewardInvalid", "1e+100"),
        ([raw("1e400")], "RewardInvalid", "too large"),
        ([raw("1" + "0" * 400)], "RewardInvalid", "too large"),
        ([raw("true")], "1.0", ""),
        ([earn(7, True)], "RewardContractBroken", "7.0 is outside of the usual range 0.0 to 1.0"),
        ([{"do": "explode"}], "EnvironmentFailed", "EXECUTION_ERROR: environment exploded"),
        ([{"do": "dance"}], "ReferenceInvalid", "recorded action 1: do: is not known"),
        ([{"do": "raw", "text": "oops"}], "EnvironmentFailed", "is not JSON"),
        ([{"do": "raw", "text": "[]"}], "EnvironmentFailed", "no frame with type and data"),
        ([{"do": "raw", "text": '{"type": "hello", "data": {}}'}], "EnvironmentFailed", "of type 'hello'"),
        ([{"do": "raw", "text": '{"type": "observation", "data": {}}'}], "EnvironmentFailed", "is null"),
        (
            [{"do": "raw", "text": '{"type": "observation", "data": {"observation": {}, "done": 1}}'}],
            "EnvironmentFailed",
            "`done` after a step is 1",
        ),
        (
            [
                {
                    "do": "raw",
                    "text": '{"type": "error", "data": {"code": "SESSION_ERROR", "message": "lost"}}',
                }
            ],
            "SandboxFailed",
            "SESSION_ERROR: lost",
        ),
        ([{"do": "cut"}], "SandboxFailed", "closed the connection at a step"),
        ([{"do": "shout"}], "EnvironmentFailed", "zzz[... 9000 characters cut]"),
        ([{"do": "grumble"}], "ReferenceInvalid", "the action: ['zzz"),
    ],
)
def test_what_a_step_is_answered_with(
    tmp_path: Path, url: str, actions: list[Any], told: str, words: str
) -> None:
    done = run(write_environment(tmp_path / "env", t=actions), url, tmp_path)
    assert done.told == told
    assert words in (done.error.message if done.error else "")


@pytest.mark.parametrize("after", [[], [{"do": "win"}]])
def test_an_answer_too_many_is_an_error(tmp_path: Path, url: str, after: list[Any]) -> None:
    """Each step after it would be taken to have earned what the one before has."""
    twice = "\n".join([raw("0.25")["text"].replace("true", "false")] * 2)
    folder = write_environment(tmp_path / "env", t=[{"do": "raw", "text": twice}, *after])
    done = run(folder, url, tmp_path)
    assert done.told == "EnvironmentFailed"
    assert "answered more than it was asked" in str(done.error)


def test_what_a_server_says_at_length_is_cut(tmp_path: Path) -> None:
    class Loud(Misbehaving):
        told = dict.fromkeys(("episode_id", "task", "step_count"), "z" * 10_000)

    folder = write_environment(tmp_path / "env", t=[{"do": "win"}])
    with served(Loud) as url:
        ignored = run(folder, url, tmp_path, data={"reset": {"task": "a"}})
        checked = run(folder, url, tmp_path, checking("contract"))
    assert ignored.told == "SelectionIgnored"
    assert len(str(ignored.error)) < 3000
    assert checked.rollout.checks is not None
    assert len(checked.rollout.checks.failing) == 4
    assert max(map(len, checked.rollout.checks.failing)) < 1100
    assert max(len(note.text) for note in checked.rollout.notes) < 1100


def test_a_frame_that_is_too_large_is_an_error_of_the_environment(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LARGEST_FRAME", 2000)
    done = run(write_environment(tmp_path / "env", t=[{"do": "raw", "text": "x" * 3000}]), url, tmp_path)
    assert done.told == "EnvironmentFailed"
    assert "larger than 2000 bytes" in str(done.error)


@pytest.mark.parametrize(
    ("reset", "told", "words"),
    [
        ({"explode": True}, "EnvironmentFailed", "reset with EXECUTION_ERROR: no such world"),
        ({"unfit": 1}, "TaskInvalid", "unfit: is not taken"),
        ({"task": "one", "ignored": True}, "SelectionIgnored", "task = 'one', but state says 'another'"),
        ({"task": "one"}, "1.0", ""),
        ({"index": 3}, "1.0", ""),
    ],
)
def test_what_a_reset_is_answered_with(
    tmp_path: Path, url: str, reset: dict[str, Any], told: str, words: str
) -> None:
    folder = write_environment(tmp_path / "env", t=[{"do": "win"}])
    done = run(folder, url, tmp_path, data={"reset": reset})
    assert done.told == told
    assert words in (done.error.message if done.error else "")


def test_what_is_worth_knowing_is_noted(tmp_path: Path, url: str) -> None:
    folder = write_environment(
        tmp_path / "env", t=[raw("true")], cut_short=[earn(0.5)], nameless=[{"do": "win"}]
    )
    assert run(folder, url, tmp_path).codes == ["boolean-reward"]
    assert run(folder, url, tmp_path, name="cut-short").codes == ["truncated"]
    named = run(folder, url, tmp_path, name="nameless", data={"reset": {"nameless": True}})
    assert "episode-id-ignored" in named.codes
    unsaid = run(folder, url, tmp_path, name="nameless", data={"reset": {"leaks": True}})
    assert unsaid.codes == ["selection-unverified"]


@pytest.mark.parametrize(
    ("rule", "told"), [("last", "0.25"), ("sum", "0.75"), ("max", "0.5"), ("final", "RewardMissing")]
)
def test_the_user_says_which_reward_counts(tmp_path: Path, url: str, rule: str, told: str) -> None:
    folder = write_environment(tmp_path / "env", t=[earn(0.5), earn(0.25), earn(None, True)])
    assert run(folder, url, tmp_path, openenv_reward=rule).told == told


def test_a_declared_range_holds_and_sets_what_is_expected(tmp_path: Path, url: str) -> None:
    manifest = (
        "name: odd\nvalidation: {reward: {range: [-2, 3], oracle_tolerance: 0.05, floor_margin: 0.5}}\n"
    )
    folder = write_environment(tmp_path / "env", manifest, t=[earn(2.97, True)], beyond=[earn(4, True)])
    task = OpenEnvFramework().load(folder, "t", {"manifest": "openenv.yaml"})
    assert task.expectations == {"oracle": ">= 2.95", "nop": "<= 2.5", "canary": "<= 2.5"}
    assert run(folder, url, tmp_path).told == "2.97"
    assert run(folder, url, tmp_path, name="beyond").told == "RewardContractBroken"


# ---- limits


def test_a_step_that_takes_too_long_is_an_error(tmp_path: Path) -> None:
    with served() as url:
        folder = write_environment(tmp_path / "env", t=[{"do": "hang"}])
        done = run(folder, url, tmp_path, openenv_step_timeout=0.3)
    assert done.told == "StageTimeout"
    assert "has not answered a step within 0.3 s" in str(done.error)


def test_an_episode_that_takes_too_long_is_an_error(tmp_path: Path) -> None:
    manifest = "name: odd\nvalidation: {resources: {episode_timeout_s: 0.4}}\n"
    with served() as url:
        done = run(write_environment(tmp_path / "env", manifest, t=[{"do": "hang"}]), url, tmp_path)
    assert done.told == "StageTimeout"
    assert "did not end within 0.4 s" in str(done.error)


def test_a_session_is_waited_for_and_then_it_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "CAPACITY_SEC", 0.4)
    folder = write_environment(tmp_path / "env", t=[{"do": "win"}])
    with served(capacity=0) as url:
        done = run(folder, url, tmp_path)
    assert done.told == "SandboxFailed"
    assert "CAPACITY_REACHED" in str(done.error)


def test_a_session_that_becomes_free_is_taken(tmp_path: Path) -> None:
    import threading
    import urllib.request

    from websockets.sync.client import connect

    folder = write_environment(tmp_path / "env", t=[{"do": "win"}])
    with served(capacity=1) as url:
        assert urllib.request.urlopen(f"{url}/health").status == 200
        with connect(url.replace("http", "ws") + "/ws") as other:
            threading.Timer(0.5, other.close).start()
            assert run(folder, url, tmp_path).told == "1.0"


def test_a_server_that_is_never_healthy_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "UP_SEC", 0.2)
    folder = write_environment(tmp_path / "env", t=[{"do": "win"}])
    with served() as url:
        done = run(folder, f"{url}/sub", tmp_path)
    assert done.told == "SandboxFailed"
    assert "/health was answered with 404" in str(done.error)


def test_a_server_that_is_gone_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "UP_SEC", 0.2)
    with served() as url:
        pass
    done = run(write_environment(tmp_path / "env", t=[{"do": "win"}]), url, tmp_path)
    assert done.told == "SandboxFailed"
    assert "is not ready after 0.2 s" in str(done.error)


# ---- agents


def test_without_a_reference_the_oracle_is_skipped(tmp_path: Path, url: str) -> None:
    done = run(write_environment(tmp_path / "env"), url, tmp_path)
    assert "no oracle" in done.skipped
    assert "frames.jsonl" not in {path.name for path in done.folder.iterdir()}  # no server was asked


@pytest.mark.parametrize(
    ("state", "told"),
    [({"earned": 1.0}, "1.0"), ({"earned": None}, "0.75"), ({"earned": "x"}, "RewardInvalid")],
)
def test_an_injected_state_is_a_reference(tmp_path: Path, url: str, state: dict[str, Any], told: str) -> None:
    manifest = (
        "name: odd\nvalidation: {capabilities: {set_state: true, oracle: {form: injected_state, "
        "location: solved.json}}}\n"
    )
    folder = write_environment(tmp_path / "env", manifest)
    (folder / "solved.json").write_text(json.dumps(state))
    (folder / "rlenv.yaml").write_text("openenv: {evaluate: {do: earn, reward: 0.75, done: true}}\n")
    assert run(folder, url, tmp_path).told == told


@pytest.mark.parametrize(
    ("reset", "evaluate", "told"),
    [
        ({"reward": 0.1}, "", "0.1"),
        ({}, "", "skipped"),
        ({}, "openenv: {evaluate: {do: earn, reward: 0.2}}\n", "0.2"),
    ],
)
def test_doing_nothing_measures_the_floor(
    tmp_path: Path, url: str, reset: dict[str, Any], evaluate: str, told: str
) -> None:
    folder = write_environment(tmp_path / "env")
    if evaluate:
        (folder / "rlenv.yaml").write_text(evaluate)
    assert run(folder, url, tmp_path, NopAgent(), data={"reset": reset}).told == told


def test_canaries_are_judged_by_the_one_that_scores_highest(tmp_path: Path, url: str) -> None:
    folder = write_environment(tmp_path / "env")
    assert "no canaries" in run(folder, url, tmp_path, CanaryAgent()).skipped
    (folder / "canaries").mkdir()
    for name, reward in (("low", 0.0), ("high", 0.75)):
        plan = {"actions": [earn(reward, True)]}
        (folder / "canaries" / f"{name}.json").write_text(json.dumps(plan))
    rewards = run(folder, url, tmp_path, CanaryAgent()).rollout.rewards
    assert rewards == {"reward": 0.75, "canary:low": 0.0, "canary:high": 0.75}


def test_what_was_played_can_be_replayed(tmp_path: Path, url: str) -> None:
    folder = write_environment(tmp_path / "env", t=[earn(0.25), earn(0.5, True)])
    first = run(folder, url, tmp_path)
    for source in (first.folder, first.folder / "frames.jsonl", folder / "oracle" / "t.json"):
        again = ReplayAgent()
        again.variant = str(source)
        assert run(folder, url, tmp_path, again).told == "0.5"


class Policy(Player):
    """Takes the actions that it is made with."""

    def __init__(self, *actions: dict[str, Any]) -> None:
        super().__init__()
        self.actions = actions
        self.seen: list[Any] = []

    def play(self, episode: Episode, context: EpisodeContext) -> AgentOutcome | None:
        assert episode.action_schema is not None
        self.seen.append(episode.observation)
        for action in self.actions:
            if episode.done:
                break
            self.seen.append(episode.act(action))
        return None


def test_a_policy_sees_observations_and_no_rewards(tmp_path: Path, url: str) -> None:
    policy = Policy({"do": "dance"}, earn(0.5), {"do": "win"}, earn(0.0))
    done = run(write_environment(tmp_path / "env"), url, tmp_path, policy)
    assert done.told == "1.0"
    wrong = {"error": "this action is not taken: do: is not known"}
    assert policy.seen == [{"shown": "seed 0"}, wrong, {"shown": "earned"}, {"shown": "won"}]
    assert done.rollout.usage["steps"] == 3


def test_steps_are_counted_and_the_last_one_is_judged(tmp_path: Path, url: str) -> None:
    policy = Policy(*[earn(0.25)] * 5)
    done = run(write_environment(tmp_path / "env"), url, tmp_path, policy, openenv_max_steps=2)
    assert (done.told, len(policy.seen)) == ("0.25", 3)
    assert {"step-limit", "truncated"} <= set(done.codes)
    done = run(write_environment(tmp_path / "env"), url, tmp_path, Policy({"do": "dance"}))
    assert done.told == "RewardMissing"


def test_an_error_of_the_environment_is_no_failure_of_the_agents(tmp_path: Path, url: str) -> None:
    folder = write_environment(tmp_path / "env")
    policy = Policy({"do": "explode"}, {"do": "win"})
    assert run(folder, url, tmp_path, policy).told == "EnvironmentFailed"
    policy = Policy({"do": "explode"}, {"do": "win"})
    assert run(folder, url, tmp_path, policy, openenv_env_error="agent").told == "1.0"
    assert policy.seen[1] == {"error": "the environment failed: environment exploded"}


def test_an_agent_that_runs_out_of_time_is_judged_by_what_it_did(tmp_path: Path) -> None:
    manifest = "name: odd\nvalidation: {resources: {episode_timeout_s: 0.6}}\n"
    with served() as url:
        policy = Policy(earn(0.5), {"do": "hang"})
        done = run(write_environment(tmp_path / "env", manifest), url, tmp_path, policy)
    assert done.told == "0.5"
    assert "agent-timeout" in done.codes


class Caller(Player):
    """Calls tools."""

    def play(self, episode: Episode, context: EpisodeContext) -> AgentOutcome | None:
        (tool,) = episode.tools
        assert episode.action_schema is None
        self.said = [
            episode.call("subtract", {}),
            episode.call(tool.name, "{broken"),
            episode.call(tool.name, '{"a": 2, "b": 2}'),
            episode.call(tool.name, {"a": 2, "b": 3}),
        ]
        return None


def test_tools_are_called_over_the_same_wire(tmp_path: Path) -> None:
    caller = Caller()
    with served(ToolEnvironment) as url:
        done = run(write_environment(tmp_path / "env"), url, tmp_path, caller)
    assert done.told == "1.0"
    assert json.loads(caller.said[0])["error"]["error_type"] == "tool_not_found"
    assert "not JSON" in caller.said[1]
    assert caller.said[2:] == ["4", "5"]


def test_an_agent_for_boxes_is_skipped(tmp_path: Path, url: str) -> None:
    from pytest_rlenv.agents.bash.agent import BashAgent

    done = run(write_environment(tmp_path / "env"), url, tmp_path, BashAgent())
    assert "works in a box" in done.skipped


def test_all_frames_are_kept(tmp_path: Path, url: str) -> None:
    done = run(write_environment(tmp_path / "env", t=[{"do": "win"}]), url, tmp_path)
    lines = [json.loads(line) for line in (done.folder / "frames.jsonl").read_text().splitlines()]
    assert [line["sent"]["type"] for line in lines if "sent" in line] == ["reset", "state", "step", "state"]
    assert lines[-3]["received"]["data"]["reward"] == 1.0
    assert done.rollout.runner == "OpenEnv server (url)"
