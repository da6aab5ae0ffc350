"""One rollout as the rest of the package asks for it: what is refused, skipped, shared and noted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.nemo_gym import FakeGym, FakePackage, row, write_rows
from support.nemo_rollouts import COUNTING, Runner, replaying

from pytest_rlenv.agents.ending import AgentOutcome
from pytest_rlenv.agents.episode import Call, Episode, EpisodeContext, Player
from pytest_rlenv.agents.nop import NopAgent
from pytest_rlenv.agents.oracle import OracleAgent
from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.errors import AgentFailed, RewardMissing, SpecError, Stage, Unsupported
from pytest_rlenv.frameworks.kept import Kept
from pytest_rlenv.frameworks.nemo_gym.framework import NemoGymFramework
from pytest_rlenv.frameworks.protocol import JudgesByAgent, get_framework
from pytest_rlenv.settings import Settings
from pytest_rlenv.trajectory.reading import read_trajectory


class Talker(Player):
    name = "talker"

    def play(self, episode: Episode, context: EpisodeContext) -> AgentOutcome | None:
        episode.say("Hello.")
        return None


@pytest.mark.parametrize(
    ("server", "agent", "said"),
    [
        (
            "essays",
            NopAgent(),
            r"asks a model to judge \(judge_model\): name a model server in --rlenv-nemo-judge",
        ),
        ("verifif", NopAgent(), "asks a model to judge"),
        ("code_gen", NopAgent(), "starts Ray, which takes 2 GB: allow it with --rlenv-nemo-ray"),
        (
            "tower",
            Talker(),
            "for NeMo Gym's aviary_agent, which asks models in a way of its own; oracle and nop",
        ),
        ("letters", OracleAgent(), "it is not known what letters gives the whole reward for"),
        ("mcqa", OracleAgent(), "this row of mcqa does not say what it expects"),
    ],
)
def test_what_is_lacking_is_a_reason_to_skip(
    runner: Runner, package: FakePackage, server: str, agent: Agent, said: str
) -> None:
    settings: dict[str, Any] = {"nemo_python": package.python, "nemo_server": server}
    if server == "mcqa":
        settings = {"nemo_url": "http://127.0.0.1:9", "nemo_server": server}
    with pytest.raises(Unsupported, match=said):
        runner.run(agent, **settings)


def test_a_judge_of_ones_own_lets_its_server_run_with_a_warning(runner: Runner, package: FakePackage) -> None:
    rollout = runner.run(
        NopAgent(),
        nemo_python=package.python,
        nemo_server="essays",
        nemo_judge_url="http://127.0.0.1:9",
    )
    assert rollout.rewards == {"reward": 0.0}
    assert [note.code for note in rollout.notes] == ["judge-unmarked", "verifier"]
    assert rollout.runner.startswith("essays (nemo-gym 0.4.0, python 3.")


@pytest.mark.parametrize("server", ["terminus_judge", "rules"])
def test_a_judge_that_is_asked_last_or_not_at_all_is_not_needed(
    runner: Runner, package: FakePackage, server: str
) -> None:
    rollout = runner.run(NopAgent(), nemo_python=package.python, nemo_server=server)
    assert rollout.rewards == {"reward": 0.0}


def test_an_answer_that_only_the_judge_could_settle_is_skipped(runner: Runner, package: FakePackage) -> None:
    with pytest.raises(Unsupported, match=r"asks a model to judge \(judge_model\)"):
        runner.run(NopAgent(), nemo_python=package.python, nemo_server="ugphysics_judge")
    broken = row(**COUNTING, fault="raises")
    with pytest.raises(RewardMissing, match="the counter is stuck"):
        runner.run(NopAgent(), broken, nemo_python=package.python, nemo_server="terminus_judge")


@pytest.mark.parametrize("agent", [Talker(), replaying(Path("out.jsonl"))])
def test_what_agents_write_is_run_here_only_if_that_is_allowed(
    runner: Runner, package: FakePackage, agent: Agent
) -> None:
    with pytest.raises(SpecError, match="code_gen runs what an agent writes on this machine") as raised:
        runner.run(agent, nemo_python=package.python, nemo_server="code_gen")
    assert "--rlenv-trust-code" in raised.value.hint


def test_rollouts_share_a_server_and_each_has_a_session(
    runner: Runner, package: FakePackage, kept: Kept
) -> None:
    settings = {"nemo_python": package.python, "nemo_server": "letters"}
    of = row(**COUNTING, ground_truth=[{"name": "increment_counter", "arguments": '{"count": 1}'}])
    first = runner.run(OracleAgent(), of, **settings)
    asked, called = read_trajectory(runner.logs / "agent" / "trajectory.json").steps[:2]
    calls = [call.arguments for call in called.tool_calls or ()]
    assert (asked.message, calls) == ("How many?", [{"count": 1}])
    second = runner.run(OracleAgent(), of, **settings)
    assert (first.rewards, second.rewards) == ({"reward": 1.0}, {"reward": 1.0})
    assert first.stages.keys() == {Stage.START, Stage.AGENT_SETUP, Stage.AGENT, Stage.VERIFY}
    assert sum(kind.up for kind in kept._kinds.values()) == 1


def test_tools_behind_an_mcp_server_are_not_ours_unless_they_are_routes_too(
    runner: Runner, gym: FakeGym
) -> None:
    gym.answers("/seed_session", {"mcp": {"server_name": "x", "url_path": "/mcp", "headers": {}}})
    with pytest.raises(Unsupported, match=r"behind an MCP server.*replay:FILE what `gym eval run` recorded"):
        runner.run(Talker(), nemo_url=gym.url)
    assert runner.run(NopAgent(), nemo_url=gym.url).rewards == {"reward": 1.0}
    of = row(request={"tools": [{"type": "function", "name": "look"}]})
    with pytest.raises(Unsupported, match="behind an MCP server"):
        runner.run(Talker(), of, nemo_url=gym.url)
    runner.kept.close_idle()
    gym.answers("/look", {})
    assert runner.run(Talker(), of, nemo_url=gym.url).rewards == {"reward": 1.0}


def test_nop_says_so_until_a_game_is_over(runner: Runner) -> None:
    with FakeGym(gymnasium=True) as gym:
        left = [0.0, 0.0, 0.25]
        gym.routes["/step"] = lambda session, body: (
            200,
            {"reward": left.pop(0), "terminated": not left, "observation": "Go on."},
        )
        assert runner.run(NopAgent(), nemo_url=gym.url).rewards == {"reward": 0.25}


class Pair(Player):
    name = "pair"

    def play(self, episode: Episode, context: EpisodeContext) -> AgentOutcome | None:
        episode.announce([Call("look", {}), Call("move", {})])
        episode.call("look", {})
        episode.call("move", {})
        return None


def test_the_calls_of_one_reply_are_one_step(runner: Runner) -> None:
    with FakeGym(gymnasium=True) as gym:
        gym.answers("/step", {"reward": 0.5, "terminated": True})
        assert runner.run(Pair(), nemo_url=gym.url).rewards == {"reward": 0.5}
        assert [len(body["response"]["output"]) for path, _, body in gym.asked if path == "/step"] == [2]


def test_a_recording_without_an_output_cannot_be_replayed(
    runner: Runner, gym: FakeGym, tmp_path: Path
) -> None:
    of = row("Hi")
    line = {**of, "response": {"output": "text"}, "reward": 1.0}
    with pytest.raises(AgentFailed, match=r"out\.jsonl, line 1 has no response to judge"):
        runner.run(replaying(write_rows(tmp_path / "out.jsonl", line)), of, nemo_url=gym.url)
    assert gym.asked == []


def test_a_rows_digest_goes_by_what_it_says_not_by_how(runner: Runner) -> None:
    one = runner.load(row("Hi", a=1, b=2)).digest
    other = runner.load(json.loads(json.dumps(dict(reversed(row("Hi", a=1, b=2).items()))))).digest
    assert one == other
    assert one != runner.load(row("Hi", a=1, b=3)).digest


def test_the_framework_is_known_by_its_name(runner: Runner) -> None:
    framework = get_framework("nemo-gym")
    assert isinstance(framework, NemoGymFramework)
    assert not framework.uses_boxes(Settings(sources={}))
    assert framework.images(runner.root, "train/row-0") == ()
    task = runner.load(row())
    assert isinstance(task, JudgesByAgent)
    assert task.expected_of(OracleAgent(), 1) is None
