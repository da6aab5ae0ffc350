"""A function as an agent: what it is shown, what it may return, and what is said of one that does not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.episodes import left, results, surroundings
from support.scripted_episodes import Acting, NumberEpisode, Talking, Tooled

from pytest_rlenv.agents.ending import AgentOutcome, AgentStopped, Stop
from pytest_rlenv.agents.episode import Episode, Player
from pytest_rlenv.agents.function_player import FunctionPlayer, player_around
from pytest_rlenv.agents.loading import agent_names, load_agent
from pytest_rlenv.errors import AgentFailed, SpecError

Function = Callable[..., Any]


def played(function: Function, episode: Episode, tmp: Path) -> AgentOutcome:
    return player_around(function, option="--rlenv-agent m:f")().play(episode, surroundings(tmp))


def halve(observation: Any, action_schema: Any, tools: Any) -> Any:
    """Guesses higher and higher."""
    seen.append((observation, action_schema, tools))
    return {"guess": len(seen) + 5}


seen: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


def test_it_is_shown_the_last_observation_and_returns_the_next_action(tmp_path: Path) -> None:
    episode = Acting()
    outcome = played(halve, episode, tmp_path)
    assert [observation for observation, _, _ in seen] == [{"hint": "guess"}, {"hint": "higher"}]
    assert {str(schema) for _, schema, _ in seen} == {str(dict(episode.action_schema))}
    assert {str(tools) for _, _, tools in seen} == {"[]"}
    assert (episode.made, outcome.usage) == ([{"guess": 6}, {"guess": 7}], {"moves": 2})
    trajectory = left(tmp_path)
    assert results(trajectory) == ['{"hint": "higher"}', '{"hint": "right"}']
    assert [(step.tool_calls or [])[0].arguments for step in trajectory.steps[1:]] == episode.made


def test_where_there_are_tools_it_calls_them(tmp_path: Path) -> None:
    episode = Tooled()

    def policy(observation: Any, action_schema: Any, tools: Any) -> Any:
        seen.append((observation, action_schema, [tool["name"] for tool in tools]))
        return {"tool": "look"} if len(seen) == 1 else {"tool": "guess", "arguments": {"guess": 7}}

    played(policy, episode, tmp_path)
    assert seen == [
        ({"messages": [{"role": "user", "content": "Find the number."}]}, None, ["look", "guess"]),
        ({"tool": "look", "result": "it is 7"}, None, ["look", "guess"]),
    ]
    assert episode.right


def test_where_somebody_answers_it_talks(tmp_path: Path) -> None:
    episode = Talking()

    def policy(observation: Any, action_schema: Any, tools: Any) -> Any:
        seen.append(observation)
        return str(5 + len(seen))

    played(policy, episode, tmp_path)
    assert (episode.made, seen[1:]) == (["6", "7"], [{"text": "higher"}])
    assert [step.source for step in left(tmp_path).steps] == ["user", "agent", "user", "agent"]


@pytest.mark.parametrize("episode", [Acting(), Tooled(), NumberEpisode()])
def test_none_ends_it(episode: NumberEpisode, tmp_path: Path) -> None:
    assert played(lambda observation, schema, tools: None, episode, tmp_path).usage == {"moves": 0}
    assert episode.made == []


def test_an_environment_without_an_end_is_left_after_many_moves(tmp_path: Path) -> None:
    class Few(FunctionPlayer):
        function = staticmethod(halve)
        moves = 3

    with pytest.raises(AgentStopped, match="limit of 3 moves") as caught:
        Few().play(Acting(target=100, steps=10**9), surroundings(tmp_path))
    assert caught.value.kind is Stop.TURN_LIMIT


async def late(observation: Any, action_schema: Any, tools: Any) -> Any:
    return None


@pytest.mark.parametrize(
    ("returned", "episode", "words"),
    [
        (3, Acting(), r"it returned 3 \(int\), expected an action, a dict, or None to end"),
        ("left", Acting(), r"it returned 'left' \(str\), expected an action"),
        ({"guess": {1}}, Acting(), "which JSON cannot hold: Object of type set"),
        ({"guess": float("nan")}, Acting(), "which JSON cannot hold"),
        ({"guess": 7}, Tooled(), 'expected a text, or {"tool": NAME'),
        ({"tool": "guess", "arguments": [7]}, Tooled(), "expected a text"),
        ({"tool": 3}, Tooled(), "expected a text"),
        ([1] * 100, Tooled(), r"\.\.\. \(list\)"),
    ],
)
def test_what_is_no_move_is_an_error_that_shows_it(
    returned: Any, episode: Episode, words: str, tmp_path: Path
) -> None:
    def policy(observation: Any, action_schema: Any, tools: Any) -> Any:
        return returned

    with pytest.raises(AgentFailed, match=words) as caught:
        played(policy, episode, tmp_path)
    assert caught.value.message.startswith("agent policy: ")


def test_a_coroutine_that_it_returns_is_an_error_without_a_warning(tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match="coroutine"):
        played(lambda observation, schema, tools: late(0, 0, 0), Acting(), tmp_path)


def only_one(observation: Any) -> Any:
    return None


def keyword(*, observation: Any, action_schema: Any, tools: Any) -> Any:
    return None


def yields(observation: Any, action_schema: Any, tools: Any) -> Any:
    yield None


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (only_one, "only_one(observation: 'Any') -> 'Any' cannot be called with (observation, action_schema"),
        (keyword, "cannot be called with"),
        (yields, "yields has a `yield`"),
        (late, "late is async"),
    ],
)
def test_a_signature_that_does_not_fit_is_said_before_anything_runs(function: Function, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        player_around(function, option="--rlenv-agent m:f")
    assert words in caught.value.message
    assert caught.value.message.startswith("--rlenv-agent m:f: ")
    assert "(observation, action_schema, tools)" in caught.value.hint


class Policy:
    """Not an agent, but what makes them."""

    def __call__(self, observation: Any, action_schema: Any, tools: Any) -> Any:
        return None


instance = Policy()


def optional(observation: Any, action_schema: Any = None, tools: Any = (), extra: int = 0) -> Any:
    return None


@pytest.mark.parametrize(
    ("name", "called"), [("halve", "halve"), ("instance", "Policy"), ("optional", "optional")]
)
def test_a_function_is_found_by_its_path(name: str, called: str) -> None:
    path = f"{__name__}:{name}"
    cls = load_agent(path)
    assert issubclass(cls, Player)
    assert (cls.name, cls(model="openai/x").model) == (called, "openai/x")
    assert agent_names([path]) == {path: name}


@pytest.mark.parametrize("name", ["Policy", "seen"])
def test_what_is_neither_says_what_would_be(name: str) -> None:
    with pytest.raises(SpecError, match="is not an agent") as caught:
        load_agent(f"{__name__}:{name}")
    assert "a function that plays episodes" in caught.value.hint
