"""One row's session over HTTP, in both protocols, with what servers get wrong on the way."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.nemo_gym import FakeGym, row

from pytest_rlenv.agents.ending import AgentTimedOut
from pytest_rlenv.agents.episode import Call
from pytest_rlenv.errors import (
    JudgementFailed,
    RewardInvalid,
    RewardMissing,
    SandboxFailed,
    Stage,
    StageTimeout,
    TaskInvalid,
    VerifierTimeout,
)
from pytest_rlenv.frameworks.nemo_gym import session as session_module
from pytest_rlenv.frameworks.nemo_gym import wire as wire_module
from pytest_rlenv.frameworks.nemo_gym.episodes import RowEpisode, StepEpisode, ToolEpisode
from pytest_rlenv.frameworks.nemo_gym.responses import function_call, message
from pytest_rlenv.frameworks.nemo_gym.server import RunningServer
from pytest_rlenv.frameworks.nemo_gym.session import Session

ROW = row("How many?", id="a", expected_answer="4")


def begun(gym: FakeGym, of: dict[str, Any] = ROW) -> Session:
    session = Session(RunningServer(gym.url, 5.0), of, "tester")
    session.begin()
    return session


@pytest.fixture
def steps() -> Iterator[FakeGym]:
    with FakeGym(gymnasium=True) as fake:
        yield fake


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what makes the limits short: a session that is to begin has time for that."""

    def shorten() -> None:
        for name in ("SEED_LIMIT", "TOOL_LIMIT", "VERIFY_LIMIT"):
            monkeypatch.setattr(session_module, name, 0.2)

    return shorten


def test_the_whole_row_is_sent_and_judged_with_the_response(gym: FakeGym) -> None:
    gym.answers("/add", {"sum": 4})
    session = begun(gym)
    session.output += [function_call("add", {"a": 2}), message("4")]
    assert json.loads(session.call("add", '{"a": 2}')) == {"sum": 4}
    assert session.judge().rewards == {"reward": 1.0}
    seed, tool, verify = gym.asked
    assert [seed[0], tool[0], verify[0]] == ["/seed_session", "/add", "/verify"]
    assert len({session_id for _, session_id, _ in gym.asked}) == 1
    assert (seed[2], tool[2]) == (ROW, {"a": 2})
    answer = verify[2].pop("response")
    assert verify[2] == ROW
    assert (answer["model"], answer["object"], answer["tool_choice"]) == ("tester", "response", "auto")
    assert [item["type"] for item in answer["output"]] == ["function_call", "message"]


@pytest.mark.parametrize(
    ("status", "answer"),
    [(200, {"ok": 1}), (404, {"detail": "Not Found"}), (422, {"detail": []}), (500, "KeyError('x')")],
)
def test_a_tools_answer_is_the_agents_whatever_its_status(gym: FakeGym, status: int, answer: Any) -> None:
    gym.answers("/look", answer, status)
    session = begun(gym)
    assert json.loads(session.call("look", {})) == answer
    assert session.broken_calls == (status == 500)


@pytest.mark.parametrize("arguments", ["{", "", "[" * 100_000])
def test_arguments_that_are_no_json_are_answered_here(gym: FakeGym, arguments: str) -> None:
    gym.answers("/look", {})
    assert "Invalid tool call arguments" in begun(gym).call("look", arguments)
    assert [path for path, _, _ in gym.asked] == ["/seed_session"]


@pytest.mark.parametrize(
    "name", ["verify", "seed_session", "step", "close_session", "../x", "", "a/b", "a?b"]
)
def test_the_protocols_own_routes_are_no_tools(gym: FakeGym, name: str) -> None:
    assert "there is no tool" in begun(gym).call(name, {})
    assert [path for path, _, _ in gym.asked] == ["/seed_session"]


def test_a_mistake_with_a_session_of_the_tools_own_is_the_agents(gym: FakeGym) -> None:
    said = {"detail": "Session configured for 'waves', but received run_experiment call for 'light'."}
    gym.answers("/look", said, 400)
    assert json.loads(begun(gym).call("look", {})) == said


def test_a_server_that_loses_its_session_is_broken(gym: FakeGym) -> None:
    gym.cookies = False
    gym.answers("/look", {"detail": "Session not initialized. Please call seed_session first."}, 400)
    with pytest.raises(SandboxFailed, match="does not know the session that it began") as raised:
        begun(gym).call("look", {})
    assert raised.value.stage is Stage.AGENT


@pytest.mark.parametrize(
    ("status", "content", "said"),
    [
        (
            422,
            {"detail": [{"loc": ["body", "initial_count"], "msg": "Field required"}]},
            "body.initial_count",
        ),
        (500, "KeyError('x')", "status 500: KeyError"),
        (200, b"<html>", "not JSON"),
    ],
)
def test_a_session_that_does_not_begin_is_the_rows_error(
    gym: FakeGym, status: int, content: Any, said: str
) -> None:
    gym.answers("/seed_session", content, status)
    with pytest.raises(TaskInvalid) as raised:
        begun(gym)
    assert said in raised.value.message
    assert raised.value.stage is Stage.AGENT_SETUP


@pytest.mark.parametrize(
    "sent", [b"HTTP/1.1 200 OK\r\nx: ", b"HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\n"]
)
def test_an_answer_that_trickles_in_is_late_like_any_other(
    gym: FakeGym, sent: bytes, impatient: Callable[[], None]
) -> None:
    session = begun(gym)
    impatient()
    gym.trickles("/verify", sent)
    with pytest.raises(VerifierTimeout, match="POST /verify was not answered"):
        session.judge()
    assert not gym.all_sent


def test_a_server_that_hangs_ends_the_call(gym: FakeGym, impatient: Callable[[], None]) -> None:
    session = begun(gym)
    impatient()
    gym.routes |= {"/look": gym.hang, "/verify": gym.hang}
    with pytest.raises(StageTimeout, match=r"POST /look was not answered within 0\.2 s") as raised:
        session.call("look", {})
    assert raised.value.stage is Stage.AGENT
    with pytest.raises(VerifierTimeout, match="POST /verify was not answered"):
        session.judge()
    gym.routes["/seed_session"] = gym.hang
    with pytest.raises(StageTimeout):
        begun(gym)


def test_a_server_that_hangs_up_is_gone(gym: FakeGym) -> None:
    session = begun(gym)
    gym.answers("/verify", None, 0)
    with pytest.raises(SandboxFailed, match="broke the connection"):
        session.judge()


def test_a_redirect_is_not_followed(gym: FakeGym) -> None:
    gym.answers("/verify", {}, 307)
    with pytest.raises(RewardMissing, match="status 307") as raised:
        begun(gym).judge()
    assert "redirects are not followed" in raised.value.hint


def test_too_much_of_an_answer_is_none(gym: FakeGym, monkeypatch: pytest.MonkeyPatch) -> None:
    session = begun(gym)
    monkeypatch.setattr(wire_module, "LARGEST_ANSWER", 1000)
    gym.answers("/verify", {"reward": 1.0, "log": "x" * 200_000})
    with pytest.raises(SandboxFailed, match="more than 1000 bytes"):
        session.judge()


def test_a_session_is_closed_where_the_server_wants_to_know(gym: FakeGym) -> None:
    begun(gym).close()
    gym.answers("/close_session", "KeyError('x')", 500)
    begun(gym).close()
    assert [path for path, _, _ in gym.asked] == ["/seed_session", "/seed_session", "/close_session"]


def test_a_server_that_does_not_say_what_it_has_is_of_the_usual_kind(gym: FakeGym) -> None:
    gym.openapi = False
    session = begun(gym)
    assert not session.gymnasium
    assert session.has_tool("anything")


# ---- the gymnasium protocol


def stepping(*answers: dict[str, Any]) -> Any:
    left = list(answers)
    return lambda session, body: (200, left.pop(0))


def test_a_gymnasium_server_is_stepped_and_its_rewards_add_up(steps: FakeGym) -> None:
    steps.answers("/reset", {"observation": "You have 12.", "info": {}})
    steps.routes["/step"] = stepping(
        {"observation": "You have 17.", "reward": 0.25, "terminated": False, "truncated": False},
        {"observation": "You win.", "reward": 0.5, "terminated": True, "truncated": False, "info": {}},
    )
    session = begun(steps)
    episode = StepEpisode(session, ROW, None, 10)
    assert [m["content"] for m in episode.messages] == ["How many?", "You have 12."]
    assert episode.say("hit") == "You have 17."
    assert not episode.done
    assert episode.say("stand", reasoning="17 is enough") is None
    assert episode.done
    assert episode.say("more") is None
    assert session.judge().rewards == {"reward": 0.75}
    first, second = (body["response"]["output"] for _, _, body in steps.asked[1:])
    assert [item["type"] for item in first] == ["message"]
    assert [item["type"] for item in second] == ["reasoning", "message"]


def test_a_tool_of_a_gymnasium_server_is_a_step_too(steps: FakeGym) -> None:
    info = {"tool_outputs": [{"call_id": "c", "output": "north"}]}
    answer = {"observation": "moved", "reward": 1, "terminated": False, "truncated": False}
    steps.routes["/step"] = stepping({**answer, "info": info}, answer)
    episode = StepEpisode(begun(steps), ROW, None, 2)
    assert episode.call("move", '{"to": "n"}', call_id="c") == "north\n\nmoved"
    assert not episode.done
    assert episode.call("move", {}) == "moved"
    assert episode.done  # that was the last step
    assert episode.call("move", {}) == "the episode has ended"


def test_all_calls_of_a_reply_are_one_step(steps: FakeGym) -> None:
    outputs = [{"call_id": "b", "output": "B"}, {"call_id": "a", "output": "A"}]
    answer = {"observation": "moved", "reward": 1, "terminated": False}
    steps.routes["/step"] = stepping({**answer, "info": {"tool_outputs": outputs}}, answer)
    session = begun(steps)
    episode = StepEpisode(session, ROW, None, 2)
    episode.remark("Both ways.")
    episode.announce([Call("move", {"to": "n"}, "a"), Call("look", "{", "b")])
    assert episode.call("move", {"to": "n"}, call_id="a") == "A"
    assert (episode.call("look", "{", call_id="b"), episode.done) == ("B\n\nmoved", False)
    assert episode.say("done") is None  # that was the last step
    sent = [[item["type"] for item in body["response"]["output"]] for _, _, body in steps.asked[1:]]
    assert sent == [["message", "function_call", "function_call"], ["message"]]
    assert session.judge().rewards == {"reward": 2.0}


def test_a_call_that_was_not_announced_is_a_reply_of_its_own(steps: FakeGym) -> None:
    steps.answers("/step", {"observation": "seen", "reward": 0.5, "terminated": False})
    episode = StepEpisode(begun(steps), ROW, None, 9)
    episode.announce([Call("move", {}), Call("look", {})])
    assert [episode.call("move", {}), episode.call("wait", {})] == ["", "seen"]
    assert len(steps.asked) == 3


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"observation": "x"}, RewardMissing),
        ({"reward": None}, RewardInvalid),
        ({"reward": True}, RewardInvalid),
        ({"reward": 0.0, "mask_sample": True}, JudgementFailed),
        (b"<html>", RewardMissing),
    ],
)
def test_a_step_without_a_reward_is_an_error(steps: FakeGym, answer: Any, error: type[Exception]) -> None:
    steps.answers("/step", answer)
    with pytest.raises(error):
        begun(steps).step([message("hit")])


def test_an_agent_that_does_nothing_has_said_nothing(steps: FakeGym) -> None:
    steps.answers("/step", {"reward": -1.0, "terminated": True})
    session = begun(steps)
    assert session.judge().rewards == {"reward": -1.0}
    assert len(steps.asked) == 2


# ---- episodes of tools


def test_an_episode_of_tools_ends_with_the_first_words(gym: FakeGym) -> None:
    gym.answers("/add", {"sum": 4})
    tool = {"type": "function", "name": "add", "description": "adds", "parameters": {"type": "object"}}
    of = row("How many?", request={"tools": [tool]})
    session = begun(gym, of)
    episode = ToolEpisode(session, of, None)
    assert [(t.name, t.description, t.parameters) for t in episode.tools] == [
        ("add", "adds", {"type": "object"})
    ]
    assert json.loads(episode.call("add", '{"a": 2}')) == {"sum": 4}
    assert episode.say("It is 4.") is None
    assert episode.done
    assert [item["type"] for item in session.output] == ["function_call", "function_call_output", "message"]
    assert session.output[0]["call_id"] == session.output[1]["call_id"]


@pytest.mark.parametrize("once", [False, True])
def test_what_is_said_beside_a_call_is_part_of_the_response(gym: FakeGym, once: bool) -> None:
    gym.answers("/look", {})
    session = begun(gym)
    episode = ToolEpisode(session, ROW, None, once=once)
    episode.remark("Let me look.", reasoning="hm")
    episode.call("look", {})
    episode.say("4")
    kinds = [item["type"] for item in session.output if item["type"] != "function_call_output"]
    assert kinds == ["reasoning", "message", "function_call", "message"]


def test_what_is_said_beside_a_step_goes_with_it(steps: FakeGym) -> None:
    episode = StepEpisode(begun(steps), ROW, None, 10)
    episode.remark("Going north.")
    episode.call("move", {})
    (_, _, body) = steps.asked[-1]
    assert [item["type"] for item in body["response"]["output"]] == ["message", "function_call"]


def test_replies_are_counted_whatever_they_call(gym: FakeGym) -> None:
    episode = ToolEpisode(begun(gym), ROW, None, replies=2)
    episode.announce([Call("look", {}), Call("see", {})])
    episode.call("look", {})
    episode.call("see", {})
    assert not episode.done
    episode.announce([Call("look", {}), Call("see", {})])
    assert "Not Found" in episode.call("look", {})
    assert not episode.done
    assert "Not Found" in episode.call("see", {})  # of the last reply all calls are made
    assert episode.done
    assert episode.call("look", {}) == "the episode has ended"


def test_where_the_next_action_is_asked_for_it_is_not_done(gym: FakeGym) -> None:
    gym.answers("/look", {})
    session = begun(gym)
    episode = ToolEpisode(session, ROW, None, once=True)
    assert (episode.call("look", {}), episode.done) == ("", True)
    episode.call("look", {"further": True})  # of the same answer
    assert len(session.output) == 2
    assert [path for path, _, _ in gym.asked] == ["/seed_session"]


@pytest.mark.parametrize("make", [ToolEpisode, lambda *args: StepEpisode(*args, 10)])
def test_an_agent_whose_time_is_up_is_told_so_and_a_server_that_hangs_is_not_it(
    make: Any, gym: FakeGym, steps: FakeGym, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = gym if make is ToolEpisode else steps
    session = begun(fake)
    fake.routes |= {"/look": fake.hang, "/step": fake.hang}
    episode: RowEpisode = make(session, ROW, time.monotonic() + 0.1)
    with pytest.raises(AgentTimedOut):
        episode.call("look", {})
    for name in ("TOOL_LIMIT", "VERIFY_LIMIT"):
        monkeypatch.setattr(session_module, name, 0.1)
    patient: RowEpisode = make(session, ROW, time.monotonic() + 60)
    with pytest.raises(StageTimeout):
        patient.call("look", {})
