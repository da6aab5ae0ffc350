"""The frames of a rollout as a trajectory: of agents that leave none, whatever the server says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from support.openenv import ToolEnvironment, served, write_environment
from support.openenv_rollouts import Done, earn, run

from pytest_rlenv.agents.canary import CanaryAgent
from pytest_rlenv.agents.ending import AgentOutcome
from pytest_rlenv.agents.episode import Episode, EpisodeContext, Player
from pytest_rlenv.agents.function_player import player_around
from pytest_rlenv.agents.nop import NopAgent
from pytest_rlenv.agents.replay.agent import ReplayAgent
from pytest_rlenv.agents.replay.finding import find_trajectory
from pytest_rlenv.frameworks.openenv import retelling
from pytest_rlenv.frameworks.openenv.retelling import FILE, leave_trajectory
from pytest_rlenv.reports.html.folder import StoredFile
from pytest_rlenv.reports.html.trajectory import read_trajectory as shown_trajectory
from pytest_rlenv.trajectory.model import AgentInfo, Step
from pytest_rlenv.trajectory.reading import read_trajectory
from pytest_rlenv.trajectory.retold import is_retold

WHO = AgentInfo(name="oracle", version="1")
BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served() as address:
        yield address


def steps_of(done: Done) -> list[Step]:
    return read_trajectory(done.folder / FILE).steps


def told(step: Step) -> Any:
    """What a step of the agent's did, and what came of it."""
    assert step.tool_calls is not None
    (call,) = step.tool_calls
    if step.observation is None:
        return call.function_name, call.arguments, None, None
    (result,) = step.observation.results
    return call.function_name, call.arguments, result.content, result.extra


def test_the_oracle_leaves_what_it_did(tmp_path: Path, url: str) -> None:
    folder = write_environment(tmp_path / "env", t=[earn(0.25), {"do": "win"}])
    done = run(folder, url, tmp_path, data={"instruction": "Win.", "reset": {"task": "x"}})
    begin, first, last = steps_of(done)
    assert (begin.source, begin.message) == ("user", 'Win.\n\nThe environment shows:\n{"shown": "seed 0"}')
    assert begin.extra == {"reset": {"seed": 0, "episode_id": "t", "task": "x"}}
    assert told(first) == ("act", earn(0.25), '{"shown": "earned"}', {"reward": 0.25})
    assert told(last) == ("act", {"do": "win"}, '{"shown": "won"}', {"reward": 1.0, "done": True})
    document = read_trajectory(done.folder / FILE)
    assert (document.agent.name, document.extra) == ("oracle", {"retold_from": "frames.jsonl"})
    times = [step.timestamp or "" for step in document.steps]
    assert times == sorted(times)


def test_the_report_shows_what_each_step_earned(tmp_path: Path, url: str) -> None:
    done = run(write_environment(tmp_path / "env", t=[earn(0.25), {"do": "win"}]), url, tmp_path)
    path = done.folder / FILE
    page = shown_trajectory(StoredFile(path, FILE.parts, path.stat().st_size), 10_000)
    facts = [[fact for fact in step.facts if fact[0] == "reward"] for step in page.steps]
    assert facts == [[], [("reward", "0.25")], [("reward", "1.0")]]
    assert page.steps[2].calls[0][0] == "act"


def test_doing_nothing_and_canaries_are_told_too(tmp_path: Path, url: str) -> None:
    folder = write_environment(tmp_path / "env")
    (begin,) = steps_of(run(folder, url, tmp_path, NopAgent(), data={"reset": {"reward": 0.25}}))
    assert begin.extra is not None
    assert begin.extra["reward"] == 0.25
    (folder / "canaries").mkdir()
    for name in ("a", "b"):
        (folder / "canaries" / f"{name}.json").write_text(json.dumps({"actions": [earn(0.0, True)]}))
    done = run(folder, url, tmp_path, CanaryAgent())
    assert [step.source for step in steps_of(done)] == ["user", "agent", "user", "agent"]


def test_calls_of_tools_are_told_as_such(tmp_path: Path) -> None:
    call = {"type": "call_tool", "tool_name": "add", "arguments": {"a": 2, "b": 3}}
    with served(ToolEnvironment) as url:
        done = run(write_environment(tmp_path / "env", t=[call]), url, tmp_path)
    _, step = steps_of(done)
    assert told(step)[:2] == ("add", {"a": 2, "b": 3})


@pytest.mark.parametrize(
    ("action", "error", "content"),
    [
        ({"do": "explode"}, "EnvironmentFailed", "environment exploded"),
        ({"do": "raw", "text": "oops"}, "EnvironmentFailed", "oops"),
        ({"do": "cut"}, "SandboxFailed", None),
    ],
)
def test_a_rollout_that_broke_is_told_as_far_as_it_went(
    tmp_path: Path, url: str, action: dict[str, Any], error: str, content: str | None
) -> None:
    done = run(write_environment(tmp_path / "env", t=[action]), url, tmp_path)
    assert done.told == error
    said = told(steps_of(done)[-1])
    assert (content or "") in (said[2] or "")
    assert (said[2] is None) == (content is None)


class Winner(Player):
    """Leaves nothing, or what it is told to."""

    name = "winner"
    leaves = ""

    def play(self, episode: Episode, context: EpisodeContext) -> AgentOutcome | None:
        episode.act({"do": "win"})
        if self.leaves:
            (context.logs / "trajectory.json").write_text(self.leaves)
        return None


def test_an_agent_that_leaves_its_own_keeps_it(tmp_path: Path, url: str) -> None:
    folder = write_environment(tmp_path / "env")
    done = run(folder, url, tmp_path, Winner())
    assert (len(steps_of(done)), is_retold(done.folder / FILE)) == (2, True)
    own = Winner()
    own.leaves = "mine"
    done = run(folder, url, tmp_path, own)
    assert (done.folder / FILE).read_text() == "mine"


def test_what_was_retold_can_be_replayed_by_itself(tmp_path: Path, url: str) -> None:
    folder = write_environment(tmp_path / "env", t=[earn(0.25), earn(0.5, True)])
    again = ReplayAgent()
    again.variant = str(run(folder, url, tmp_path).folder / FILE)
    done = run(folder, url, tmp_path, again)
    assert (done.told, done.rollout.usage["outputs_differing"]) == ("0.5", 0)


def test_of_a_run_the_agent_with_a_trajectory_of_its_own_is_replayed(tmp_path: Path, url: str) -> None:
    folder = write_environment(tmp_path / "env", t=[earn(0.5, True)])
    player = player_around(lambda observation, action_schema, tools: {"do": "win"}, option="x")()
    runs = [run(folder, url, tmp_path), run(folder, url, tmp_path, player)]
    records = [
        {
            "task": "t",
            "agent": done.rollout.agent,
            "logs": done.folder.name,
            "trajectories": [f"{done.folder.name}/{FILE}"],
        }
        for done in runs
    ]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert find_trajectory(tmp_path, "t", "") == runs[1].folder / FILE
    again = ReplayAgent()
    again.variant = str(tmp_path)
    assert run(folder, url, tmp_path, again).told == "1.0"


def test_a_long_observation_is_shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retelling, "SHOWN_CHARS", 100)
    answer = {
        "type": "observation",
        "data": {"observation": {"x": "y" * 1000}, "reward": None, "done": False},
    }
    write(tmp_path, {"at": 0.1, "sent": {"type": "step", "data": {}}}, {"at": 0.2, "received": answer})
    leave_trajectory(tmp_path, WHO, "", BEGAN)
    (step,) = read_trajectory(tmp_path / FILE).steps
    assert "characters left out" in told(step)[2]
    assert (step.timestamp, told(step)[3]) == ("2026-01-01T00:00:00.100+00:00", None)


def write(folder: Path, *events: Any) -> None:
    (folder / "frames.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


odd = some.recursive(
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats()
    | some.text(some.characters(), max_size=5),
    lambda inner: (
        some.lists(inner, max_size=2)
        | some.dictionaries(
            some.sampled_from(
                ["type", "data", "observation", "reward", "done", "arguments", "tool_name", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
frames = some.fixed_dictionaries(
    {"type": some.sampled_from(["reset", "step", "state", "observation", "error"]), "data": odd}
)
events = some.one_of(
    some.fixed_dictionaries({"at": some.floats(0, 10), "sent": frames | odd}),
    some.fixed_dictionaries({"at": some.floats(0, 10), "received": frames | odd}),
    odd,
)


@settings(max_examples=40)
@given(some.lists(events, max_size=6))
def test_whatever_the_frames_are_nothing_is_raised(
    tmp_path_factory: pytest.TempPathFactory, found: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("frames")
    write(folder, *found)
    leave_trajectory(folder, WHO, "Do it.", BEGAN)
    if (folder / FILE).exists():
        read_trajectory(folder / FILE)
        json.loads((folder / FILE).read_text(encoding="utf-8"), parse_constant=pytest.fail)


def test_what_no_reader_takes_is_replaced(tmp_path: Path) -> None:
    answer = {"type": "observation", "data": {"observation": {"x": "\ud800"}, "reward": float("nan")}}
    write(tmp_path, {"at": 0.1, "sent": {"type": "step", "data": {"x": "\ud800"}}}, {"received": answer})
    leave_trajectory(tmp_path, WHO, "", BEGAN)
    (step,) = read_trajectory(tmp_path / FILE).steps
    assert told(step) == ("act", {"x": "?"}, '{"x": "?"}', {"reward": "NaN"})
