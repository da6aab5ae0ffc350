"""A model that plays episodes: a scripted model, real conversations, and the trajectory that is left."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.episodes import left, results, surroundings
from support.scripted_episodes import Acting, NumberEpisode, Talking, Tooled
from support.scripted_model import Failure, Reply, ScriptedModel, ToolCall, context_exceeded, use

from pytest_rlenv.agents.conversing.conversation import LEFT_OUT
from pytest_rlenv.agents.conversing.session import CUT_OFF, NOTHING_SAID
from pytest_rlenv.agents.ending import AgentOutcome, AgentStopped, AgentTimedOut, Stop
from pytest_rlenv.agents.episode import Episode
from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.agents.model_player.agent import ModelPlayer
from pytest_rlenv.agents.model_player.limits import Limits, Patience
from pytest_rlenv.agents.model_player.parameters import chat_parameters
from pytest_rlenv.agents.model_player.playing import NO_WORDS, shortened
from pytest_rlenv.errors import AgentFailed, ModelUnavailable


class Quick(ModelPlayer):
    name = "model"
    patience = Patience(tries=2, first=0.0)


def play(
    script: Sequence[Any], episode: Episode, tmp: Path, agent: ModelPlayer | None = None, **more: Any
) -> tuple[ScriptedModel, AgentOutcome]:
    with ScriptedModel(script) as model:
        endpoint = ModelEndpoint(model.url, model.root, "k", "m", "openai")
        outcome = (agent or Quick()).play(episode, surroundings(tmp, model_endpoint=endpoint, **more))
    return model, outcome


def stopped(script: Sequence[Any], episode: Episode, tmp: Path, **more: Any) -> AgentStopped:
    with pytest.raises(AgentStopped) as caught:
        play(script, episode, tmp, **more)
    return caught.value


def messages(model: ScriptedModel, number: int = -1) -> list[tuple[str, str]]:
    return [(each["role"], each.get("content")) for each in model.requests[number].body["messages"]]


def test_tools_are_called_until_the_episode_is_over(tmp_path: Path) -> None:
    episode = Tooled()
    model, outcome = play([use("look"), use("guess", guess=7)], episode, tmp_path)
    assert episode.made == [("look", {}), ("guess", {"guess": 7})]
    assert outcome.usage == {"turns": 2, "input_tokens": 200, "output_tokens": 40, "cached_tokens": 0}
    assert messages(model, 0) == [("user", "Find the number.")]
    offered = model.requests[0].body["tools"]
    assert [tool["function"]["name"] for tool in offered] == ["look", "guess"]
    assert offered[0]["function"]["parameters"] == {"type": "object", "properties": {}}
    trajectory = left(tmp_path)
    assert [step.source for step in trajectory.steps] == ["user", "agent", "agent"]
    assert results(trajectory) == ["it is 7", "right"]
    assert trajectory.agent.tool_definitions == offered
    assert trajectory.steps[-1].observation is not None
    assert trajectory.steps[-1].observation.results[0].extra == {"done": True}


def test_calls_of_one_reply_are_carried_out_in_order_until_it_is_over(tmp_path: Path) -> None:
    episode = Tooled()
    calls = (
        ToolCall("guess", {"guess": 1}),
        ToolCall("guess", {"guess": 7}),
        ToolCall("guess", {"guess": 9}),
    )
    play([Reply(tools=calls)], episode, tmp_path)
    assert [arguments for _, arguments in episode.made] == [{"guess": 1}, {"guess": 7}]
    assert results(left(tmp_path)) == ["higher", "right", "it is over"]
    assert episode.announced == [["guess", "guess", "guess"]]


def test_the_environment_hears_what_is_said_beside_calls(tmp_path: Path) -> None:
    episode = Tooled()
    script = [use("look"), Reply("Seven it is.", tools=(ToolCall("guess", {"guess": 7}),))]
    play(script, episode, tmp_path)
    assert episode.heard == ["Seven it is."]


def test_an_environment_with_actions_and_tools_is_stepped(tmp_path: Path) -> None:
    class Both(Acting):
        tools = Tooled().tools

    episode = Both()
    model, _ = play([use("act", guess=7)], episode, tmp_path)
    assert episode.made == [{"guess": 7}]
    assert [tool["function"]["name"] for tool in model.requests[0].body["tools"]] == ["act"]


def test_what_is_wrong_with_a_call_goes_back_to_the_model(tmp_path: Path) -> None:
    episode = Tooled()
    script = [use("fly"), use("guess", guess="x"), use("guess", guess=7)]
    model, _ = play(script, episode, tmp_path)
    assert messages(model)[2] == ("tool", "error: no tool fly")
    assert messages(model)[4] == ("tool", "no number")
    assert episode.left == 3


def test_arguments_that_are_no_json_reach_the_environment_as_they_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pytest_rlenv.agents.conversing.client as client_module

    parse = client_module.parse_reply

    def broken(answer: Any, number: int) -> Any:
        for call in answer["choices"][0]["message"].get("tool_calls") or ():
            if number == 1:
                call["function"]["arguments"] = '{"guess": 7'
        return parse(answer, number)

    monkeypatch.setattr(client_module, "parse_reply", broken)
    episode = Tooled()
    play([use("guess", guess=7), use("guess", guess=7)], episode, tmp_path)
    assert episode.made == [("guess", '{"guess": 7'), ("guess", {"guess": 7})]
    call = (left(tmp_path).steps[1].tool_calls or [])[0]
    assert call.extra == {"unreadable_arguments": '{"guess": 7'}


def test_an_environment_that_is_stepped_has_one_tool(tmp_path: Path) -> None:
    episode = Acting()
    script = ["I think...", use("guess", guess=1), use("act", guess=1), use("act", guess=7)]
    model, outcome = play(script, episode, tmp_path)
    assert episode.made == [{"guess": 1}, {"guess": 7}]
    (tool,) = model.requests[0].body["tools"]
    assert (tool["function"]["name"], tool["function"]["parameters"]["required"]) == ("act", ["guess"])
    told = messages(model)
    assert told[0][0] == "system"
    assert told[1] == ("user", 'Find the number.\n\nThe environment shows:\n{"hint": "guess"}')
    assert told[3] == ("user", NO_WORDS)
    assert [text for role, text in told if role == "tool"] == [
        "There is no tool 'guess'; the only one is 'act'. No action was taken.",
        '{"hint": "higher"}',
    ]
    assert outcome.usage["turns"] == 4


def test_actions_of_several_kinds_are_one_argument(tmp_path: Path) -> None:
    class Union(Acting):
        @property
        def action_schema(self) -> Mapping[str, Any]:
            return {"anyOf": [{"$ref": "#/$defs/Guess"}], "$defs": {"Guess": {"type": "object"}}}

    episode = Union()
    model, _ = play([use("act", guess=7), use("act", action={"guess": 7})], episode, tmp_path)
    assert episode.made == [{"guess": 7}]
    parameters = model.requests[0].body["tools"][0]["function"]["parameters"]
    assert parameters == {
        "type": "object",
        "properties": {"action": {"anyOf": [{"$ref": "#/$defs/Guess"}]}},
        "required": ["action"],
        "$defs": {"Guess": {"type": "object"}},
    }
    assert results(left(tmp_path))[0] == "The argument 'action' must be a JSON object. No action was taken."


def test_a_talk_goes_on_until_nobody_answers(tmp_path: Path) -> None:
    episode = Talking()
    model, _ = play(["1", "7"], episode, tmp_path)
    assert episode.made == ["1", "7"]
    assert messages(model) == [("user", "Find the number."), ("assistant", "1"), ("user", "higher")]
    assert "tools" not in model.requests[0].body
    assert [step.source for step in left(tmp_path).steps] == ["user", "agent", "user", "agent"]


def test_a_single_answer_ends_an_episode_without_tools(tmp_path: Path) -> None:
    episode = NumberEpisode()
    play(["it is 7"], episode, tmp_path)
    assert episode.made == ["it is 7"]


def test_the_conversation_begins_with_the_episodes_own_messages(tmp_path: Path) -> None:
    begins = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "Look:"}, {"type": "image_url"}]},
        {"role": "assistant", "content": "I looked."},
        {"role": "user", "content": "Now."},
    ]

    class Begun(NumberEpisode):
        @property
        def messages(self) -> Sequence[Mapping[str, Any]]:
            return begins

    model, _ = play(["7"], Begun(), tmp_path)
    assert model.requests[0].body["messages"] == begins
    trajectory = left(tmp_path)
    told = [(step.source, step.message) for step in trajectory.steps]
    assert told[:4] == [
        ("system", "Be kind."),
        ("user", "Look:\n[image_url]"),
        ("agent", "I looked."),
        ("user", "Now."),
    ]
    assert trajectory.steps[2].is_copied_context is True


def test_where_nothing_is_said_there_is_a_first_word_all_the_same(tmp_path: Path) -> None:
    class Silent(Tooled):
        messages = ()

    model, _ = play([use("guess", guess=7)], Silent(), tmp_path, instruction="")
    ((role, text),) = messages(model, 0)
    assert (role, bool(text)) == ("user", True)


@pytest.mark.parametrize(
    ("script", "episode", "kind", "words"),
    [
        ([Reply("no", stop="refusal")], Tooled(), Stop.REFUSAL, "refused"),
        ([Failure(400, "filtered", "content_filter")], Tooled(), Stop.REFUSAL, "the provider refused"),
        ([context_exceeded()], Tooled(), Stop.CONTEXT_EXCEEDED, "no longer fits"),
        (["", "", ""], Tooled(), Stop.GAVE_UP, "said nothing, 3 times"),
        (["a", "b", "c"], Acting(), Stop.GAVE_UP, "did nothing, 3 times"),
        ([use("look")] * 9, Tooled(), Stop.TURN_LIMIT, "turn limit of 3"),
        ([use("look")] * 9, Tooled(), Stop.TOKEN_BUDGET, "tokens used of 200"),
    ],
)
def test_limits_and_refusals_stop_it_and_it_is_judged(
    script: list[Any], episode: Episode, kind: Stop, words: str, tmp_path: Path
) -> None:
    class Held(Quick):
        limits = Limits(turns=3, tokens=200 if kind is Stop.TOKEN_BUDGET else None)

    stop = stopped(script, episode, tmp_path, agent=Held())
    assert (stop.kind, words in stop.reason) == (kind, True), stop.reason
    assert stop.outcome is not None
    assert "turns" in stop.outcome.usage


def test_an_episode_that_is_over_at_once_is_not_the_models_fault(tmp_path: Path) -> None:
    assert "before anything could be done" in stopped([], Tooled(steps=0), tmp_path).reason


def test_reminders_for_replies_that_are_cut_or_empty(tmp_path: Path) -> None:
    episode = Tooled()
    model, _ = play([Reply("Let me", stop="length"), "", use("guess", guess=7)], episode, tmp_path)
    assert [text for role, text in messages(model) if role == "user"] == [
        "Find the number.",
        CUT_OFF,
        NOTHING_SAID,
    ]
    assert episode.made == [("guess", {"guess": 7})]
    assert left(tmp_path).steps[1].extra == {"cut_off": True}


def test_a_server_that_is_busy_is_asked_again_and_one_that_stays_away_is_an_error(tmp_path: Path) -> None:
    play([Failure(503, "busy"), use("guess", guess=7)], Tooled(), tmp_path)
    with pytest.raises(ModelUnavailable):
        play([Failure(503, "busy")] * 3, Tooled(), tmp_path)


def test_the_oldest_outputs_make_room(tmp_path: Path) -> None:
    class Long(Tooled):
        def call(self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "") -> str:
            return super().call(tool, arguments) + " x" * (4000 if tool == "look" else 0)

    class Small(Quick):
        limits = Limits(context_tokens=2500, result_chars=6000)

    model, _ = play(
        [Reply(tools=(ToolCall("look"),), input_tokens=0)] * 2 + [use("guess", guess=7)],
        Long(),
        tmp_path,
        agent=Small(),
    )
    outputs = [text for role, text in messages(model) if role == "tool"]
    assert outputs[0] == LEFT_OUT
    assert "characters left out" in outputs[1]
    assert left(tmp_path).steps[3].extra == {"outputs_left_out": 1}


def test_its_time_ends_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and answers none
        root = f"http://127.0.0.1:{silent.getsockname()[1]}"
        endpoint = ModelEndpoint(f"{root}/v1", root, "k", "m")
        context = surroundings(tmp_path, model_endpoint=endpoint, deadline=time.monotonic() + 0.05)
        with pytest.raises(AgentTimedOut):
            Quick().play(Tooled(), context)


def test_without_a_model_there_is_nobody_to_play(tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match="there is no model"):
        Quick().play(Tooled(), surroundings(tmp_path))


def test_parameters_of_the_task_go_with_each_request(tmp_path: Path) -> None:
    asked = {"temperature": 0.5, "max_output_tokens": 10, "truncation": "auto", "top_p": None}
    model, outcome = play([use("guess", guess=7)], Tooled(), tmp_path, parameters=asked)
    body = model.requests[0].body
    assert (body["temperature"], body["max_completion_tokens"]) == (0.5, 10)
    assert "top_p" not in body
    assert outcome.notes == {
        "parameters-ignored": "chat completions have no place for what the task asks for: truncation"
    }


@pytest.mark.parametrize(
    ("asked", "provider", "tools", "sent", "ignored"),
    [
        ({"max_output_tokens": 5}, "vllm", True, {"max_tokens": 5}, ()),
        ({"parallel_tool_calls": False}, "openai", True, {"parallel_tool_calls": False}, ()),
        ({"parallel_tool_calls": False, "tool_choice": "auto"}, "openai", False, {}, ()),
        ({"tool_choice": "required"}, "x", True, {"tool_choice": "required"}, ()),
        (
            {"tool_choice": {"type": "function", "name": "f"}},
            "x",
            True,
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            (),
        ),
        ({"tool_choice": {"type": "mcp"}}, "x", True, {}, ("tool_choice",)),
        ({"reasoning": {"effort": "low"}}, "x", True, {"reasoning_effort": "low"}, ()),
        ({"reasoning": {"summary": "auto"}, "store": True}, "x", True, {}, ("reasoning", "store")),
    ],
)
def test_parameters_have_other_names_in_chat_completions(
    asked: dict[str, Any], provider: str, tools: bool, sent: dict[str, Any], ignored: tuple[str, ...]
) -> None:
    assert chat_parameters(asked, provider=provider, has_tools=tools) == (sent, ignored)


@pytest.mark.parametrize("text", ["short", "x" * 101, "half a character \ud800 of two"])
def test_what_is_too_long_keeps_both_ends(text: str) -> None:
    came = shortened(text, 100)
    json.dumps(came, ensure_ascii=False).encode()
    assert came[:5] == text[:5]
    assert ("left out" in came) == (len(text) > 100)
