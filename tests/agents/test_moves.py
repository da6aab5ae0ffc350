"""What an agent can do in an episode, as tools that models take."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scripted_episodes import Acting, NumberEpisode, Tooled

from pytest_rlenv.agents.episode import Tool
from pytest_rlenv.agents.moves import Moves, as_functions, function_names, shown


@given(st.lists(st.text(max_size=80), max_size=8, unique=True))
def test_models_know_each_tool_by_a_name_that_they_take(names: list[str]) -> None:
    found = function_names([Tool(name) for name in names])
    assert len(set(found)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in found)
    plain = [name for name in names if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)]
    assert [name for name in found if name in names] == plain  # what can stay stays


@pytest.mark.parametrize("name", ["fs.read", "fs_read_2"])
def test_a_tool_is_called_by_either_name(name: str) -> None:
    class Odd(NumberEpisode):
        @property
        def tools(self) -> Sequence[Tool]:
            return (Tool("fs_read"), Tool("fs.read"))

        def call(self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "") -> str:
            return tool

    moves = Moves(Odd())
    assert [each["function"]["name"] for each in as_functions(moves.tools)] == ["fs_read", "fs_read_2"]
    assert (moves.make(name, {}), moves.has(name), moves.make("fs_read", {})) == ("fs.read", True, "fs_read")
    assert (moves.make("other", {}), moves.has("other")) == ("other", False)


def test_a_schema_without_a_type_is_an_objects() -> None:
    (offered,) = as_functions([Tool("f", parameters={"properties": {"x": {}}})])
    assert offered["function"]["parameters"] == {"type": "object", "properties": {"x": {}}}


@pytest.mark.parametrize(
    ("tool", "arguments", "came"),
    [
        ("act", {"guess": 7}, '{"hint": "right"}'),
        ("act", '{"guess"', "The arguments are not a JSON object. No action was taken."),
        ("fly", {}, "There is no tool 'fly'; the only one is 'act'. No action was taken."),
    ],
)
def test_an_action_is_taken_or_it_is_said_why_not(
    tool: str, arguments: Mapping[str, Any] | str, came: str
) -> None:
    episode = Acting()
    assert Moves(episode).make(tool, arguments) == came
    assert len(episode.made) == ("hint" in came)


def test_tools_of_an_episode_with_actions_do_not_count() -> None:
    class Both(Acting):
        tools = Tooled().tools

    assert [tool.name for tool in Moves(Both()).tools] == ["act"]


@pytest.mark.parametrize(("observation", "text"), [("as it is", "as it is"), ({"ä": [1]}, '{"ä": [1]}')])
def test_observations_are_shown_as_json(observation: object, text: str) -> None:
    assert shown(observation) == text
