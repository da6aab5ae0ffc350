"""How an agent that plays an episode ends, and what of that is judged."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from support.scripted_episodes import Acting, Late, NumberEpisode, Tooled

import pytest_rlenv.frameworks.agent_endings as agent_endings
import pytest_rlenv.frameworks.watched_episode as watched_episode
from pytest_rlenv.agents.bash.agent import BashAgent
from pytest_rlenv.agents.ending import AgentOutcome, AgentStopped, Stop
from pytest_rlenv.agents.episode import Episode, EpisodeContext, Player
from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.errors import AgentFailed, RlenvError, SandboxFailed, Stage, StageTimeout, Unsupported
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.playing import play, player_of
from pytest_rlenv.rollout import Rollout, StageClock

Body = Callable[[Episode, EpisodeContext], object]


def player(body: Body) -> Player:
    class Playing(Player):
        name = "playing"
        version = "3"

        def play(self, episode: Episode, context: EpisodeContext) -> AgentOutcome | None:
            return cast("AgentOutcome | None", body(episode, context))

    return Playing()


def context_of(agent: Agent, tmp: Path, **more: Any) -> RolloutContext:
    rollout = Rollout(environment="e", revision=None, framework="openenv", task="t", agent=agent.name)
    return RolloutContext(
        agent=agent,
        sandbox=cast("Any", None),
        rollout=rollout,
        clock=StageClock(rollout),
        folder=tmp,
        environ={},
        **more,
    )


def played(body: Body, episode: Episode, tmp: Path, seconds: float | None = None, **more: Any) -> Rollout:
    agent = player(body)
    context = context_of(agent, tmp, **more)
    deadline = None if seconds is None else time.monotonic() + seconds
    play(agent, episode, context, instruction="Find it.", deadline=deadline, parameters={"temperature": 0})
    return context.rollout


def codes(rollout: Rollout) -> list[str]:
    return [note.code for note in rollout.notes]


def test_what_an_agent_did_and_reports_is_kept(tmp_path: Path) -> None:
    episode, seen = Acting(), []

    def body(given: Episode, context: EpisodeContext) -> AgentOutcome:
        seen.append((context.instruction, context.task, context.parameters, given.action_schema is not None))
        assert given.act({"guess": 7}) == {"hint": "right"}
        (context.logs / "own.txt").write_text("x")
        return AgentOutcome(usage={"turns": 1}, notes={"odd": "thing"})

    rollout = played(body, episode, tmp_path)
    assert seen == [("Find it.", "t", {"temperature": 0}, True)]
    assert episode.made == [{"guess": 7}]
    assert (rollout.usage, codes(rollout), rollout.agent_version) == ({"turns": 1}, ["odd"], "3")
    assert Stage.AGENT in rollout.stages
    assert (tmp_path / "agent" / "own.txt").exists()
    assert (tmp_path / "instruction.md").read_text() == "Find it."


def stop(episode: Episode, context: EpisodeContext) -> None:
    raise AgentStopped("no idea", Stop.REFUSAL, outcome=AgentOutcome(usage={"turns": 2}))


def test_an_agent_that_gave_up_is_judged(tmp_path: Path) -> None:
    rollout = played(stop, Acting(), tmp_path)
    assert (codes(rollout), rollout.usage) == (["refusal"], {"turns": 2})


def loop(episode: Episode, context: EpisodeContext) -> None:
    while True:
        episode.act({"guess": 1})


@pytest.mark.parametrize("body", [loop, lambda episode, context: episode.act({})])
def test_an_agent_whose_time_is_up_is_judged(body: Body, tmp_path: Path) -> None:
    episode = Late() if body is not loop else Acting(steps=10**9)
    rollout = played(body, episode, tmp_path, seconds=0.05)
    assert codes(rollout) == ["agent-timeout"]
    assert rollout.agent_command is not None
    assert rollout.agent_command.timed_out


def test_an_agent_that_does_not_return_is_left_behind_and_can_do_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_endings, "GRACE", 0.05)
    episode, go, came = Acting(), threading.Event(), []

    def body(given: Episode, context: EpisodeContext) -> None:
        go.wait(10)
        try:
            given.act({"guess": 7})
        except BaseException as error:
            came.append(type(error).__name__)
        finally:
            go.clear()

    rollout = played(body, episode, tmp_path, seconds=0.05)
    assert codes(rollout) == ["agent-timeout"]
    go.set()
    while go.is_set():
        time.sleep(0.005)
    assert (came, episode.made) == (["AgentTimedOut"], [])


def test_an_environment_that_does_not_come_back_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_endings, "GRACE", 0.02)
    monkeypatch.setattr(watched_episode, "REST", 0.02)
    with pytest.raises(StageTimeout, match="has not answered a call"):
        played(loop, Acting(hangs=3.0), tmp_path, seconds=1.0)  # time enough to be in a call on any machine


def swallow(episode: Episode, context: EpisodeContext) -> AgentOutcome:
    with contextlib.suppress(Exception):
        episode.act({"guess": 1})
    return AgentOutcome(usage={"turns": 1})


def hide(episode: Episode, context: EpisodeContext) -> None:
    try:
        episode.act({"guess": 1})
    except Exception as error:
        raise ValueError("something of my own") from error


@pytest.mark.parametrize("body", [loop, swallow, hide])
def test_a_broken_environment_is_an_error_whatever_the_agent_makes_of_it(body: Body, tmp_path: Path) -> None:
    with pytest.raises(SandboxFailed, match="the environment broke"):
        played(body, Acting(breaks=True), tmp_path)


def leave(episode: Episode, context: EpisodeContext) -> None:
    raise SystemExit(3)


def crash(episode: Episode, context: EpisodeContext) -> None:
    raise ZeroDivisionError("by zero")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (crash, "agent playing raised ZeroDivisionError: by zero"),
        (leave, "agent playing raised SystemExit: 3"),
        (lambda episode, context: 3, "agent playing: play returned 'int'"),
    ],
)
def test_an_agent_that_broke_is_an_error(body: Body, words: str, tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match=words):
        played(body, Acting(), tmp_path)


def test_actions_in_an_episode_with_tools_are_a_skip(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="tools or words, not with actions"):
        played(lambda episode, context: episode.act({}), Tooled(), tmp_path)


def test_calls_come_one_at_a_time(tmp_path: Path) -> None:
    class Counting(Acting):
        inside, most = 0, 0

        def act(self, action: Mapping[str, Any]) -> Mapping[str, Any]:
            self.inside += 1
            self.most = max(self.most, self.inside)
            time.sleep(0.002)
            self.inside -= 1
            return self.observation

    def body(given: Episode, context: EpisodeContext) -> None:
        threads = [threading.Thread(target=given.act, args=({},)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    episode = Counting()
    played(body, episode, tmp_path)
    assert episode.most == 1


@pytest.mark.parametrize(
    ("begins", "expected"),
    [
        ([], "<Find it.\n\nBe brief.>"),
        ([("system", "s"), ("user", "u"), ("assistant", "a")], "<u\n\nBe brief.>"),
        ([("system", "s")], "<Be brief.>"),
    ],
)
def test_the_users_own_words_are_told(
    begins: Sequence[tuple[str, str]], expected: str, tmp_path: Path
) -> None:
    told: list[str] = []

    class Begun(NumberEpisode):
        @property
        def messages(self) -> Sequence[Mapping[str, Any]]:
            return [{"role": role, "content": content} for role, content in begins]

    def body(given: Episode, context: EpisodeContext) -> None:
        of_user = [message["content"] for message in given.messages if message["role"] == "user"]
        told.extend(of_user or [context.instruction])

    played(
        body,
        Begun(),
        tmp_path,
        extra_instructions=("Be brief.",),
        prompt_template="<{{ instruction }}>",
    )
    assert told == [expected]


def test_an_agent_that_needs_a_box_is_a_skip() -> None:
    with pytest.raises(Unsupported, match="agent bash works in a box; OpenEnv tasks have none: use oracle"):
        player_of(BashAgent(), "OpenEnv")


def test_a_player_refuses_a_box(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="plays episodes"):
        player(crash).run(cast("Any", None))


def test_all_that_the_environment_raises_keeps_its_kind(tmp_path: Path) -> None:
    class Odd(Acting):
        def act(self, action: Mapping[str, Any]) -> Mapping[str, Any]:
            raise KeyError("ours")

    with pytest.raises(KeyError) as caught:
        played(swallow, Odd(), tmp_path)
    assert not isinstance(caught.value, RlenvError)  # a fault of ours, not of the agent's
