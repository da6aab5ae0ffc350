"""Calls that are recorded, and made again without a model."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from support.model_calls import KEY, NAME, Client, Got, proxied
from support.scripted_model import (
    CHAT,
    GOOGLE,
    MESSAGES,
    RESPONSES,
    Failure,
    Reply,
    ScriptedModel,
    ToolCall,
    use,
)

from pytest_rlenv.errors import RecordingUnusable, ReplayDiverged
from pytest_rlenv.model_proxy.ledger import End
from pytest_rlenv.model_proxy.recording_places import RolloutName, find_recording, recording_file

NOWHERE = "http://127.0.0.1:9/v1"
TWO = Reply("I look.", (ToolCall("bash", {"command": "ls"}), ToolCall("bash", {"command": "pwd é"})))


def record(folder: Path, replies: Any, asks: Any, **settings: Any) -> tuple[list[Got], Path]:
    """Record what a client asks; return its answers, and the recording."""
    with ScriptedModel(replies) as model, proxied(model.url, record=folder, **settings) as (_, client):
        answers = [client.ask(*each) if isinstance(each, tuple) else client.ask(**each) for each in asks]
    return answers, recording_file(folder, NAME)


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("wire", [CHAT, RESPONSES, MESSAGES, GOOGLE])
def test_a_replay_says_what_was_said_and_costs_nothing(tmp_path: Path, wire: str, stream: bool) -> None:
    asks = [{"wire": wire, "say": word, "stream": stream} for word in ("one", "two")]
    provider, below = ("google", "beta/openai") if wire == GOOGLE else ("openai", "")
    settings = {"model": f"{provider}/m", "model_price": "1/1"}
    with ScriptedModel([TWO, "done"]) as model:
        url = f"{model.url}{below}"
        with proxied(url, record=tmp_path, **settings) as (_, client):
            first = [client.ask(**each) for each in asks]
    with proxied(f"{NOWHERE}{below}", replay=tmp_path, **settings) as (proxy, client):
        again = [client.ask(**each) for each in asks]
        usage = proxy.take_turn().usage
        assert proxy.left_unasked() is None
    assert [each.status for each in again] == [200, 200]
    if stream:
        assert [each.data for each in again] == [each.data for each in first]
    else:
        assert [each.body for each in again] == [each.body for each in first]
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (200, 40, 0.0)


def test_a_recording_holds_no_key_and_no_secret(tmp_path: Path) -> None:
    _, file = record(tmp_path, ["fine"], [("chat", f"the key is {KEY}, is it?")])
    text = file.read_text()
    assert KEY not in text
    assert "sk-rlenv-" not in text
    facts, call = lines_of(file)
    assert facts == {
        "format": "pytest-rlenv model calls",
        "version": 1,
        "model": "openai/gpt-test",
        "environment": "org/repo",
        "task": "task",
        "agent": "agent",
        "attempt": 1,
        "task_digest": "",
    }
    assert set(call) == {"path", "request", "status", "headers", "body"}
    with proxied(NOWHERE, replay=tmp_path) as (_, client):
        assert client.ask("chat", f"the key is {KEY}, is it?").status == 200


def test_a_replay_that_diverges_says_where(tmp_path: Path) -> None:
    record(tmp_path, ["a", "b", "c"], [("chat", "one"), ("chat", "list /app/old please"), ("chat", "three")])
    with proxied(NOWHERE, replay=tmp_path) as (proxy, client):
        assert client.ask("chat", "one").status == 200
        got = client.ask("chat", "list /app/new please")
        assert (got.status, got.code) == (409, "rlenv_replay")
        assert got.headers["x-should-retry"] == "false"
        # nothing is answered any more, whatever it is
        assert client.ask("chat", "three").status == 409
        error = proxy.take_turn().failure("solver")
    assert isinstance(error, ReplayDiverged)
    assert error.message == (
        "agent solver: the agent did not ask its model what was recorded: "
        "call 2 is not call 2 of the recording: "
        'messages[0].content: recorded "list /app/old please", now "list /app/new please"'
    )
    assert "--rlenv-record" in error.hint


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"say": "one", "temperature": 1}, "temperature: recorded nothing, now 1"),
        ({"say": "one", "tools": []}, "tools[0]: recorded {"),
        ({"say": "one", "stream": True}, "stream: recorded nothing, now true"),
        (
            {"wire": MESSAGES, "say": "one"},
            "call 1 is to /messages, and the recording has one to /chat/completions",
        ),
    ],
)
def test_where_a_replay_diverges(tmp_path: Path, asked: dict[str, Any], words: str) -> None:
    record(tmp_path, ["a"], [("chat", "one")])
    with proxied(NOWHERE, replay=tmp_path) as (proxy, client):
        assert client.ask(**asked).status == 409
        assert words in str(proxy.take_turn().failure("solver"))


def test_more_than_was_recorded(tmp_path: Path) -> None:
    record(tmp_path, ["a"], [("chat", "one")])
    with proxied(NOWHERE, replay=tmp_path) as (proxy, client):
        assert [client.ask("chat", "one").status for _ in range(2)] == [200, 409]
        assert "call 2 is to /chat/completions, and the recording has no more" in str(
            proxy.take_turn().failure("solver")
        )


def test_less_than_was_recorded_is_told(tmp_path: Path) -> None:
    record(tmp_path, ["a", "b", "c"], [("chat", "one"), ("chat", "two"), ("chat", "three")])
    with proxied(NOWHERE, replay=tmp_path) as (proxy, client):
        assert client.ask("chat", "one").status == 200
        assert proxy.left_unasked() == "2 of 3 recorded calls of the model were not made"


def test_calls_made_at_once_may_come_in_another_order(tmp_path: Path) -> None:
    record(tmp_path, ["to one", "to two"], [("chat", "one"), ("chat", "two")])
    with proxied(NOWHERE, replay=tmp_path) as (_, client):
        said = [client.ask("chat", word).body["choices"][0]["message"]["content"] for word in ("two", "one")]
    assert said == ["to two", "to one"]


def test_the_same_request_is_answered_in_the_order_of_its_answers(tmp_path: Path) -> None:
    record(tmp_path, ["first", "second"], [("chat", "go on")] * 2)
    with proxied(NOWHERE, replay=tmp_path) as (_, client):
        said = [client.ask("chat", "go on").body["choices"][0]["message"]["content"] for _ in range(2)]
    assert said == ["first", "second"]


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        ("it is 2026-11-30T01:23:45Z", "it is 2027-01-02T22:23:01.123Z"),
        ("-rw-r--r-- 1 root root 5 Nov 30 01:39 a", "-rw-r--r-- 1 root root 5 Jan  2 11:00 a"),
        ("Today's date: Mon Nov 30 2026", "Today's date: Tue Dec 1 2026"),
        ("in /tmp/tmpab12cd34/x", "in /tmp/tmpzz99yy88/x"),
        ("id 123e4567-e89b-12d3-a456-426614174000.", "id 00000000-e89b-12d3-a456-426614174999."),
        ("3 passed in 0.12s", "3 passed in 1.07s"),
        ("real 0m0.012s", "real 1m3.912s"),
        ("at http://127.0.0.1:40123/v1", "at http://127.0.0.1:50321/v1"),
        ("root@0a1b2c3d4e5f:/app#", "root@ffeeddccbb12:/app#"),
        ("Process Group PGID: 6656", "Process Group PGID: 7085"),
        ("run_shell_command_1796006280733_0", "run_shell_command_1796006291733_0"),
        ("<session: alpha-17>", "<session: beta-99>"),
    ],
)
def test_what_differs_from_run_to_run_is_no_divergence(tmp_path: Path, recorded: str, now: str) -> None:
    record(tmp_path, ["a"], [{"say": recorded, "user": "x", "prompt_cache_key": "1"}])
    with proxied(NOWHERE, replay=tmp_path, replay_ignore=[r"<session: [\w-]+>"]) as (_, client):
        assert client.ask(say=now, user="y", metadata={"n": "2"}).status == 200


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        ("5 files", "6 files"),
        ("exit code 1", "exit code 0"),
        ("main.py:12: error", "main.py:13: error"),
        ("the answer is 42", "the answer is 43"),
        ("port 8080", "port 8081"),
        ("commit abc", "commit abd"),
    ],
)
def test_what_an_agent_sees_otherwise_is_one(tmp_path: Path, recorded: str, now: str) -> None:
    record(tmp_path, ["a"], [("chat", recorded)])
    with proxied(NOWHERE, replay=tmp_path) as (_, client):
        assert client.ask("chat", now).status == 409


def test_an_error_that_passed_is_not_waited_for_again(tmp_path: Path) -> None:
    replies = [Failure(429, "slow", retry_after="30"), Failure(503, "down"), Failure(200, "down"), "fine"]
    record(tmp_path, replies, [("chat", "one")] * 4)
    with proxied(NOWHERE, replay=tmp_path) as (proxy, client):
        got = client.ask("chat", "one")
        assert (got.status, "choices" in got.body) == (200, True)
        assert proxy.left_unasked() is None


def test_an_error_that_stayed_is_made_again_without_the_wait(tmp_path: Path) -> None:
    record(tmp_path, [Failure(429, "slow", retry_after="30")], [("chat", "one")])
    with proxied(NOWHERE, replay=tmp_path) as (_, client):
        got = client.ask("chat", "one")
    assert (got.status, got.headers["retry-after"]) == (429, "0")
    assert got.body["error"]["message"] == "slow"


def test_a_provider_that_was_not_there_is_not_there_again(tmp_path: Path) -> None:
    with proxied(NOWHERE, record=tmp_path) as (_, client):
        assert client.ask("chat", "one").status == 502
    with proxied(NOWHERE, replay=tmp_path) as (_, client):
        assert client.ask("chat", "one").code == "rlenv_unreachable"


def test_an_agent_that_did_not_wait_for_the_end_is_not_given_it(tmp_path: Path) -> None:
    held = threading.Event()
    with ScriptedModel(["a long answer"], before_event=lambda n: n < 2 or held.wait(20)) as model:
        with proxied(model.url, record=tmp_path) as (proxy, client):
            start_and_leave(client)
            proxy.end()
            assert [call.end for call in proxy.take_turn().all] == [End.CUT]
        held.set()
    with proxied(NOWHERE, replay=tmp_path) as (proxy, client):
        start_and_leave(client)
        proxy.end()
        turn = proxy.take_turn()
        assert [call.end for call in turn.all] == [End.CUT]
        assert turn.failure("solver") is None


def start_and_leave(client: Client) -> None:
    """Ask, read the first line of the answer, and go away."""
    body = json.dumps({"messages": [{"role": "user", "content": "one"}], "stream": True})
    headers = {"Authorization": f"Bearer {client.endpoint.key}"}
    client.connection.request("POST", "/v1/chat/completions", body, headers)
    answer = client.connection.getresponse()
    assert answer.readline().startswith(b"data:")
    client.connection.close()
    answer.close()


def test_a_replay_needs_no_key_and_its_own_model(tmp_path: Path) -> None:
    record(tmp_path, ["a"], [("chat", "one")])
    with proxied(NOWHERE, replay=tmp_path, key="") as (_, client):
        assert client.ask("chat", "one").status == 200
    with (
        pytest.raises(
            RecordingUnusable, match=r"recorded with model openai/gpt-test, and this run has openai/o"
        ),
        proxied(NOWHERE, replay=tmp_path, model="openai/o"),
    ):
        pass


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, r"no recording of this rollout's model: .*agent\.1\.jsonl is not there"),
        ("", "it is empty"),
        ("{}\n", "no recording that this version reads"),
        ('{"format": "pytest-rlenv model calls", "version": 2}\n', "no recording that this version reads"),
        ('{"format": "pytest-rlenv model calls", "version": 1}\n{"path"', "line 2 is no JSON object"),
        ('{"format": "pytest-rlenv model calls", "version": 1}\n{"path": "/x"}\n', "cannot be read"),
    ],
)
def test_recordings_that_cannot_be_used(tmp_path: Path, text: str | None, words: str) -> None:
    file = recording_file(tmp_path, NAME)
    file.parent.mkdir(parents=True)
    if text is not None:
        file.write_text(text)
    with pytest.raises(RecordingUnusable, match=words), proxied(NOWHERE, replay=tmp_path):
        pass


def test_a_recording_is_there_when_it_is_complete_and_takes_the_place_of_an_earlier_one(
    tmp_path: Path,
) -> None:
    _, file = record(tmp_path, ["old"], [("chat", "one")])
    before = file.read_text()
    with ScriptedModel(["new"]) as model, proxied(model.url, record=tmp_path) as (_, client):
        client.ask("chat", "one")
        assert file.read_text() == before
    assert "new" in file.read_text()
    assert [each.name for each in file.parent.iterdir()] == [file.name]


HERE = RolloutName("/home/me/envs/quick start", "a/task", "mod:Cls", 2, "sha256:1")
MOVED = HERE._replace(environment="/builds/quick start")
OLD = Path("quick-start/a-task/mod-Cls.2.jsonl")
"""Where the recording of either was before there were digests in names."""


def leave(file: Path, **facts: object) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(facts) + "\n")
    return file


def test_environments_outside_whose_folders_have_one_name_are_told_apart(tmp_path: Path) -> None:
    here, moved = (recording_file(tmp_path, name).relative_to(tmp_path).as_posix() for name in (HERE, MOVED))
    assert re.fullmatch(r"quick-start-[0-9a-f]{7}/a-task/mod-Cls\.2\.jsonl", here)
    assert here != moved
    inside = RolloutName("org/repo", "t", "a", 1)
    assert (
        recording_file(tmp_path, inside)
        == find_recording(tmp_path, inside)
        == tmp_path / "org-repo/t/a.1.jsonl"
    )


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ({}, True),  # as old ones may be
        ({"environment": HERE.environment, "task_digest": "sha256:1"}, True),  # moved as it is
        ({"environment": HERE.environment}, True),
        ({"environment": MOVED.environment, "task_digest": "sha256:2"}, True),  # its own, changed
        ({"environment": HERE.environment, "task_digest": "sha256:2"}, False),
    ],
)
@pytest.mark.parametrize("old", [True, False], ids=["old", "new"])
def test_a_recording_is_found_wherever_the_environment_lies(
    tmp_path: Path, facts: dict[str, object], found: bool, old: bool
) -> None:
    file = leave(tmp_path / OLD if old else recording_file(tmp_path, HERE), **facts)
    if found:
        assert find_recording(tmp_path, MOVED) == file
        return
    with pytest.raises(RecordingUnusable) as caught:
        find_recording(tmp_path, MOVED)
    assert "/builds/quick start, task a/task" in caught.value.message
    assert caught.value.message.endswith("are of /home/me/envs/quick start")


def test_an_environments_own_recording_comes_first(tmp_path: Path) -> None:
    leave(tmp_path / OLD, environment="/old/quick start")
    moved = leave(recording_file(tmp_path, HERE), environment=HERE.environment, task_digest="sha256:1")
    own = leave(recording_file(tmp_path, MOVED), task_digest="sha256:3")
    assert find_recording(tmp_path, MOVED) == own
    own.unlink()
    assert find_recording(tmp_path, MOVED) == moved
    unknown = MOVED._replace(task_digest="")
    with pytest.raises(RecordingUnusable, match="are of /home/me/envs/quick start and /old/quick start"):
        find_recording(tmp_path, unknown)  # either may be meant


@pytest.mark.parametrize(("key", "other"), [("environment", "org-repo"), ("task", "task.")])
def test_one_file_for_two_names_is_told(tmp_path: Path, key: str, other: str) -> None:
    leave(recording_file(tmp_path, NAME), **{**NAME._asdict(), key: other})
    with pytest.raises(RecordingUnusable, match=f"is of {key} {re.escape(other)}, and this is "):
        find_recording(tmp_path, NAME)


def test_a_rollout_that_never_came_to_it_leaves_an_earlier_recording(tmp_path: Path) -> None:
    _, file = record(tmp_path, ["old"], [("chat", "one")])
    record(tmp_path, [], [])
    assert "old" in file.read_text()
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_tools_are_recorded_with_what_was_asked(tmp_path: Path) -> None:
    _, file = record(tmp_path, [use("bash", command="ls")], [("chat", "one")])
    _, call = lines_of(file)
    assert call["request"]["model"] == "gpt-test"
    assert call["body"]["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "bash"
