"""The moves of a stored trajectory once more: what is the same, and where it goes otherwise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.episodes import left, surroundings
from support.scripted_episodes import Acting, NumberEpisode, Talking, Tooled
from support.scripted_model import Reply, ScriptedModel, ToolCall, use

from pytest_rlenv.agents.ending import AgentOutcome, AgentTimedOut
from pytest_rlenv.agents.function_player import player_around
from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.agents.model_player.agent import ModelPlayer
from pytest_rlenv.agents.replay.agent import ReplayAgent
from pytest_rlenv.errors import AgentFailed


def recorded(episode: NumberEpisode, tmp: Path, *replies: Any) -> Path:
    """Have a scripted model play, and return its trajectory."""
    (tmp / "then").mkdir()
    with ScriptedModel(replies) as model:
        endpoint = ModelEndpoint(model.url, model.root, "k", "m")
        ModelPlayer().play(episode, surroundings(tmp / "then", model_endpoint=endpoint))
    return tmp / "then" / "logs" / "trajectory.json"


def replayed(source: Path, episode: NumberEpisode, tmp: Path) -> AgentOutcome:
    agent = ReplayAgent()
    agent.variant = str(source)
    agent.check()
    return agent.play(episode, surroundings(tmp))


def report(tmp: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((tmp / "logs" / "replay.json").read_text())
    return found


@pytest.mark.parametrize(
    ("kind", "replies"),
    [
        (Tooled, [use("look"), use("fly"), use("guess", guess=7)]),
        (Acting, ["thinking aloud", use("act", guess=1), use("act", guess=7)]),
        (Talking, ["1", Reply("cut sho", stop="length"), "7"]),
        (NumberEpisode, ["it is 7"]),
    ],
)
def test_the_same_moves_are_made_and_nothing_is_told_if_all_is_the_same(
    kind: type[NumberEpisode], replies: list[Any], tmp_path: Path
) -> None:
    then, now = kind(), kind()
    source = recorded(then, tmp_path, *replies)
    outcome = replayed(source, now, tmp_path)
    assert now.made == then.made
    assert outcome.notes == {}
    assert outcome.usage == {"moves": len(now.made), "outputs_differing": 0}
    assert {row["output"] for row in report(tmp_path)} == {"same"}
    own = left(tmp_path)
    assert (own.agent.name, own.agent.extra) == ("replay", {"replayed": str(source)})
    again = kind()  # what a replay has left can be replayed, too
    (tmp_path / "again").mkdir()
    replayed(tmp_path / "logs" / "trajectory.json", again, tmp_path / "again")
    assert again.made == then.made


def test_what_a_function_did_can_be_replayed(tmp_path: Path) -> None:
    (tmp_path / "then").mkdir()

    def policy(observation: Any, action_schema: Any, tools: Any) -> Any:
        return {"guess": 7}

    player_around(policy, option="x")().play(Acting(), surroundings(tmp_path / "then"))
    now = Acting()
    replayed(tmp_path / "then" / "logs" / "trajectory.json", now, tmp_path)
    assert now.made == [{"guess": 7}]


def test_an_environment_that_answers_otherwise_is_a_note(tmp_path: Path) -> None:
    source = recorded(Tooled(), tmp_path, use("look"), use("guess", guess=8), use("guess", guess=7))
    outcome = replayed(source, Tooled(target=8), tmp_path)
    assert outcome.notes == {
        "replay-diverged": "the episode was over after 2 of 3 moves",
        "replay-output": "something else came of 2 of 3 moves; the first is step 2, `look({})`",
    }
    rows = [(row["move"], row["output"], row["recorded_done"], row["done"]) for row in report(tmp_path)]
    assert rows == [("look({})", "differs", False, False), ('guess({"guess": 8})', "differs", False, True)]


def test_an_episode_that_is_not_over_where_it_was_has_diverged(tmp_path: Path) -> None:
    source = recorded(Acting(), tmp_path, use("act", guess=7))
    outcome = replayed(source, Acting(target=9), tmp_path)
    assert outcome.notes["replay-diverged"] == "the episode was not over after all 1 moves, as it was then"


def test_an_answer_that_was_cut_to_be_shown_is_compared_as_far_as_it_goes(tmp_path: Path) -> None:
    class Long(Tooled):
        def call(self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "") -> str:
            return super().call(tool, arguments) + "." * 70_000 + "end"

    source = recorded(Long(), tmp_path, use("guess", guess=7))
    assert "characters left out" in source.read_text()
    assert replayed(source, Long(), tmp_path).notes == {}


def test_calls_of_one_reply_stay_together(tmp_path: Path) -> None:
    calls = (ToolCall("guess", {"guess": 7}), ToolCall("look"))
    source = recorded(Tooled(), tmp_path, Reply("Both.", tools=calls))
    now = Tooled()
    outcome = replayed(source, now, tmp_path)
    assert (now.heard, outcome.usage["moves"], outcome.notes) == (["Both."], 2, {})
    assert now.announced == [["guess", "look"]]


def test_arguments_that_were_no_json_are_the_same_again(tmp_path: Path) -> None:
    source = recorded(Tooled(), tmp_path, use("guess", guess=1), use("guess", guess=7))
    document = json.loads(source.read_text())
    document["steps"][1]["tool_calls"][0]["extra"] = {"unreadable_arguments": '{"gu'}
    source.write_text(json.dumps(document))
    now = Tooled()
    replayed(source, now, tmp_path)
    assert now.made == [("guess", '{"gu'), ("guess", {"guess": 7})]


def test_what_is_no_action_is_left_out_and_counted(tmp_path: Path) -> None:
    source = recorded(Acting(), tmp_path, use("bash"), use("act", guess=7))
    now = Acting()
    notes = replayed(source, now, tmp_path).notes
    assert (now.made, notes) == (
        [{"guess": 7}],
        {"replay-partial": "not replayed, since they are no actions: bash (1)"},
    )


def test_a_trajectory_of_something_else_is_an_error(tmp_path: Path) -> None:
    source = recorded(Tooled(), tmp_path, use("guess", guess=7))
    with pytest.raises(AgentFailed, match="has no move of this episode: it calls guess, and there is act"):
        replayed(source, Acting(), tmp_path)


def test_what_was_replayed_until_the_time_was_up_is_told(tmp_path: Path) -> None:
    class Short(Acting):
        def act(self, action: Mapping[str, Any]) -> Mapping[str, Any]:
            if self.made:
                raise AgentTimedOut
            return super().act(action)

    source = recorded(Acting(), tmp_path, use("act", guess=1), use("act", guess=7))
    with pytest.raises(AgentTimedOut):
        replayed(source, Short(), tmp_path)
    assert [row["move"] for row in report(tmp_path)] == ['act({"guess": 1})']


@pytest.mark.parametrize("text", ["", "{}", '{"schema_version": "ATIF-v1.7"}'])
def test_what_is_no_trajectory_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "trajectory.json").write_text(text)
    with pytest.raises(AgentFailed, match="is no ATIF document"):
        replayed(tmp_path / "trajectory.json", Acting(), tmp_path)
