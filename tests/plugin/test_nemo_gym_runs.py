"""Rows of NeMo Gym as tests: the example environment with its own server, and one that a test says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import requests  # noqa: F401 - loaded for good: pytester forgets what a run in this process imports
from support.fake_hub import FakeHub
from support.model_script import use
from support.nemo_gym import EXAMPLE, FakeGym, rollout_line, row, write_rows
from support.project import Project, ids, outcomes, properties, read_junit, verdict_of
from support.scripted_model import ScriptedModel

import pytest_rlenv.frameworks.nemo_gym.framework  # noqa: F401 - likewise
from pytest_rlenv.frameworks.nemo_gym import session as session_module

DATA = EXAMPLE / "data"
TRUSTED = ("--rlenv-trust-code",)
OK = ["three-to-six", "to-a-hundred", "up-and-down"]


@pytest.fixture
def gym() -> Iterator[FakeGym]:
    with FakeGym() as fake:
        yield fake


def run(project: Project, *args: str, **more: Any) -> pytest.RunResult:
    return project.run(f"--rlenv={EXAMPLE}", *args, sandbox=None, **more)


def rows(project: Project, *lines: Any) -> None:
    write_rows(project.environment / "train.jsonl", *lines)


def ask(project: Project, gym: FakeGym, *args: str) -> pytest.RunResult:
    return project.run("--rlenv", "envs/demo", "--rlenv-nemo-url", gym.url, *args, sandbox=None)


# ---- the example environment


def test_the_examples_are_listed_without_a_server(project: Project) -> None:
    listed = ids(run(project, "--co", "-q"))
    assert [each.rpartition("::")[2] for each in listed if "::example/" in each] == [
        f"example/{n}" for n in OK
    ]
    assert len(listed) == 13


VERDICTS = {
    "failed": ("failed", "passed", "reward 0.0 < 1.0"),
    "nop-scores": ("passed", "failed", "doing nothing scores"),
    "no-oracle": ("skipped", "passed", "no oracle"),
    "judge-fails": ("error", "error", "JudgementFailed"),
    "reward-null": ("error", "error", "RewardInvalid"),
    "reward-missing": ("error", "error", "RewardMissing"),
    "reward-text": ("error", "error", "RewardInvalid"),
    "verifier-raises": ("error", "error", "the counter is stuck"),
    "field-missing": ("error", "error", "body.expected_count: Field required"),
    "row-9": ("error", "error", "line 10 is not JSON"),
}


def test_each_verdict_is_shown_by_a_row(project: Project) -> None:
    run(project, "--agent", "oracle,nop", "--junitxml=junit.xml", *TRUSTED)
    cases = {
        (told["rlenv.task"], told["rlenv.agent"]): verdict_of(case)
        for case in ElementTree.parse(project.path / "junit.xml").iter("testcase")
        if (told := properties(case))
    }
    for name in OK:
        assert {cases[f"example/{name}", agent][0] for agent in ("oracle", "nop")} == {"passed"}
    for name, (oracle, nop, words) in VERDICTS.items():
        verdicts = [cases[f"verdicts/{name}", agent] for agent in ("oracle", "nop")]
        assert [verdict for verdict, _ in verdicts] == [oracle, nop], name
        assert words in "".join(text for _, text in verdicts), name


def test_a_rollout_leaves_what_was_said_and_judged(project: Project) -> None:
    run(project, "--rlenv-task", "example/three*", *TRUSTED)
    (record,) = project.records()
    assert (record["framework"], record["rewards"], record["runner"]) == (
        "nemo-gym",
        {"reward": 1.0},
        f"counter (python {sys.version.split()[0]})",
    )
    assert record["task_digest"].startswith("sha256:")
    folder = project.run_dir / record["logs"]
    said = json.loads((folder / "agent" / "response.json").read_text())["output"]
    assert [item["type"] for item in said] == ["function_call", "function_call_output", "message"]
    assert json.loads((folder / "verifier" / "verify.json").read_text())["count"] == 6


def test_code_of_the_environment_is_not_run_unless_it_is_trusted(project: Project) -> None:
    result = run(project, "--rlenv-task", "example/*")
    assert outcomes(result) == {"errors": 3}
    result.stdout.fnmatch_lines(["*the server counter comes with the environment*", "*--rlenv-trust-code*"])


@pytest.mark.parametrize("many", [("-n2",), ("--rlenv-jobs=2",)])
def test_many_at_once_share_a_server_for_each_process(project: Project, many: tuple[str, ...]) -> None:
    result = run(project, "--rlenv-task", "example/*", "--agent", "oracle,nop", *TRUSTED, *many)
    assert outcomes(result) == {"passed": 6}
    starts = [r for r in project.records() if r["stages"].get("start", 0) > 0.05]
    assert 1 <= len(starts) <= 4


def test_rows_of_the_hub_bring_their_server_along(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeHub() as hub:
        for name, value in hub.environ(project.path / "hf-home").items():
            monkeypatch.setenv(name, value)
        sha = hub.add("org/rows", EXAMPLE)
        result = project.run(
            "--rlenv=org/rows", "--rlenv-task=example/*", *TRUSTED, sandbox=None, process=True
        )
    assert outcomes(result) == {"passed": 3}
    assert {(r["revision"], r["runner"].split()[0]) for r in project.records()} == {(sha, "counter")}


def test_recorded_rollouts_give_their_rewards_again(project: Project) -> None:
    source = DATA / "example_rollouts.jsonl"
    result = run(project, "--rlenv-task", "example/*", f"--agent=replay:{source}", *TRUSTED)
    assert outcomes(result) == {"passed": 3}
    assert sorted(r["reward"] for r in project.records()) == [0.0, 1.0, 1.0]


def test_a_reward_that_is_not_the_recorded_one_fails_with_both(project: Project, gym: FakeGym) -> None:
    kept = row("How many?", id="a")
    rows(project, kept, row("Who?", id="b"))
    source = write_rows(project.path / "out.jsonl", rollout_line(kept, "4", 0.25))
    gym.answers("/verify", {"reward": 0.5})
    result = ask(project, gym, f"--agent=replay:{source}")
    assert outcomes(result) == {"failed": 1, "skipped": 1}
    result.stdout.fnmatch_lines(
        [
            "*reward 0.5 > 0.25*by the recorded reward 0.25, out.jsonl, line 1*",
            "*no recorded rollout of this row*",
        ]
    )


def test_a_run_can_be_judged_again(project: Project) -> None:
    run(project, "--rlenv-task", "example/*", "--rlenv-output=first", *TRUSTED)
    result = run(project, "--rlenv-task", "example/*", "--agent=replay:first", *TRUSTED)
    assert outcomes(result) == {"passed": 3}


# ---- agents that play

PLAYER = """
from pytest_rlenv.agents.episode import Player
from pytest_rlenv.agents.protocol import Agent


class Counting(Player):
    def play(self, episode, context):
        goal = int(episode.messages[-1]["content"].rstrip(".").split()[-1])
        assert [tool.name for tool in episode.tools] == ["increment_counter", "get_counter_value"]
        at = int("".join(c for c in episode.call("get_counter_value", "{}") if c.isdigit()))
        episode.call("increment_counter", {"count": goal - at})
        episode.say(f"It is at {goal}.")


class Silent(Player):
    def play(self, episode, context):
        pass


class Peeking(Player):
    def play(self, episode, context):
        assert "no tool" in episode.call("verify", {"expected_count": 0})
        episode.say(episode.call("increment_counter", "{"))


class Shell(Agent):
    def run(self, context):
        context.box.run("ls")
"""


def test_agents_of_ones_own_play_with_the_tools(project: Project) -> None:
    project.pytester.makepyfile(players=PLAYER)
    agents = "--agent=players:Counting,players:Silent,players:Peeking,players:Shell"
    result = run(project, "--rlenv-task", "example/three*", agents, "-rs", *TRUSTED)
    assert outcomes(result) == {"passed": 1, "failed": 2, "skipped": 1}
    result.stdout.fnmatch_lines(["*Shell works in a box; NeMo Gym tasks have none*"])


def test_a_server_that_breaks_ends_the_rollout_whatever_the_agent_makes_of_it(
    project: Project, gym: FakeGym
) -> None:
    project.pytester.makepyfile(
        players="""
from pytest_rlenv.agents.episode import Player

class Stubborn(Player):
    def play(self, episode, context):
        try:
            episode.call("look", {})
        except Exception:
            pass
        episode.say("done")
"""
    )
    rows(project, row(id="a"))
    gym.answers("/look", None, 0)
    result = ask(project, gym, "--agent=players:Stubborn")
    assert outcomes(result) == {"errors": 1}
    result.stdout.fnmatch_lines(["*SandboxFailed*cannot be reached, or broke the connection (POST /look)*"])


def test_a_model_plays_with_the_tools(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-of-ours-1234")
    replies = [use("increment_counter", count=3), use("get_counter_value"), "The counter is at 6."]
    with ScriptedModel(replies) as model:
        options = ("--agent=model", "--model=openai/toy", f"--rlenv-model-url={model.url}")
        result = run(project, "--rlenv-task", "example/three*", *options, *TRUSTED)
    assert outcomes(result) == {"passed": 1}
    asked = model.requests[0].body
    assert [tool["function"]["name"] for tool in asked["tools"]] == ["increment_counter", "get_counter_value"]
    assert [message["role"] for message in asked["messages"]] == ["system", "user"]
    (record,) = project.records()
    said = json.loads((project.run_dir / record["logs"] / "agent" / "response.json").read_text())["output"]
    assert [item["type"] for item in said if item["type"] != "function_call_output"] == [
        "function_call",
        "function_call",
        "message",
    ]
    again = run(project, "--rlenv-task", "example/three*", f"--agent=replay:{project.run_dir}", *TRUSTED)
    assert outcomes(again) == {"passed": 1}


# ---- one's own words


def test_an_oracle_of_ones_own_is_asked(project: Project, gym: FakeGym) -> None:
    project.pytester.makepyfile(
        my_oracle="""
from pytest_rlenv.frameworks.nemo_gym.responses import message

def answer(row):
    return [message(row["solution"])]
"""
    )
    rows(project, row(id="a", solution="42", agent_ref={"name": "riddles_simple_agent"}))
    gym.routes["/verify"] = lambda session, body: (
        200,
        {"reward": float(body["response"]["output"][0]["content"][0]["text"] == "42")},
    )
    assert outcomes(ask(project, gym)) == {"skipped": 1}
    assert outcomes(ask(project, gym, "--rlenv-nemo-oracle=riddles=my_oracle:answer")) == {"passed": 1}


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--rlenv-nemo-url=localhost", "is not an address"),
        ("--rlenv-nemo-judge-url=https://judge", "is not http://HOST:PORT alone"),
        ("--rlenv-nemo-judge-url=http://judge/v1", "is not http://HOST:PORT alone"),
        ("--rlenv-nemo-oracle=mcqa", "is not KEY=VALUE"),
        ("--rlenv-nemo-oracle=mcqa=answer", "is not SERVER=module:function"),
        ("--rlenv-nemo-oracle=mcqa=no_such:answer", "cannot import 'no_such'"),
        ("--rlenv-nemo-python=/no/such/python", "there is no such program"),
    ],
)
def test_a_bad_value_is_a_usage_error(project: Project, option: str, said: str) -> None:
    result = run(project, option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{option.partition('=')[0]}*{said}*"])
    assert "Traceback" not in result.stderr.str()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([{"question": "?"}], "*none of the first lines of its .jsonl files (train.jsonl)*"),
        ([], "*there is no .jsonl file of rows*"),
    ],
)
def test_an_environment_without_rows_says_what_was_seen(
    project: Project, lines: list[Any], said: str
) -> None:
    (project.environment).mkdir(parents=True)
    (project.environment / "notes.txt").write_text("")
    if lines:
        rows(project, *lines)
    result = project.run("--rlenv", "envs/demo", "--rlenv-framework", "nemo-gym", sandbox=None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*JSONL rows with responses_create_params*", said])


def test_without_the_package_the_way_to_have_it_is_named(project: Project) -> None:
    rows(project, row(id="a", agent_ref={"name": "mcqa_simple_agent"}))
    result = project.run("--rlenv", "envs/demo", "--rlenv-nemo-python", sys.executable, sandbox=None)
    assert outcomes(result) == {"errors": 1}
    result.stdout.fnmatch_lines(["*TaskInvalid*has no NeMo Gym: pip install nemo-gym==0.4.0*"])


def test_a_running_server_needs_no_package(project: Project, gym: FakeGym) -> None:
    rows(project, row(id="a", agent_ref={"name": "gone_agent"}))
    gym.answers("/verify", {"reward": 0.0, "why": "silence"})
    assert outcomes(ask(project, gym, "--agent=nop", "--rlenv-nemo-python", sys.executable)) == {"passed": 1}
    (record,) = project.records()
    assert record["runner"] == "gone (url)"
    assert record["notes"] == [{"code": "verifier", "text": "why = silence"}]


def test_rows_and_folders_are_one_environment(project: Project, gym: FakeGym) -> None:
    rows(project, row(id="a"))
    project.tasks(fix="# scripted: reward=1")
    result = project.run("--rlenv", "envs/demo", "--rlenv-nemo-url", gym.url, "--agent=oracle,nop")
    assert outcomes(result) == {"passed": 1, "failed": 2, "skipped": 1}
    assert {(r["task"], r["framework"]) for r in project.records()} == {
        ("fix", "harbor"),
        ("train/a", "nemo-gym"),
    }


def test_properties_tell_who_judged(project: Project) -> None:
    run(project, "--rlenv-task", "example/three*", "--junitxml=junit.xml", *TRUSTED)
    (case,) = read_junit(project.path / "junit.xml").values()
    assert properties(case)["rlenv.framework"] == "nemo-gym"


# ---- what hangs or is killed


DYING = """
def seed_session(session, body):
    return begin(session, body)


def verify(session, body):
    waits = pathlib.Path(body["folder"]) / "b-waits"
    if body["id"] == "b" and not waits.exists():
        waits.touch()
        time.sleep(300)
    while body["id"] == "a":
        if waits.exists():
            os._exit(3)
        time.sleep(0.01)
    return judge(session, body)
"""
HANGING = """
def seed_session(session, body):
    here = pathlib.Path(body["folder"])
    while body["id"] == "b" and not (here / "first").exists():
        time.sleep(0.01)
    time.sleep(0.5 if body["id"] == "b" else 0)  # b is to wait when the time of a is up, and not of b
    return begin(session, body)


def verify(session, body):
    first = pathlib.Path(body["folder"]) / "first"
    if body["id"] == "a":
        first.write_text(str(os.getpid()))
    if body["id"] == "a" or (body["id"] == "b" and first.read_text() == str(os.getpid())):
        time.sleep(300)
    return judge(session, body)
"""


def serve(project: Project, changed: str) -> None:
    """Write rows a, b, and c, and a server like the example's, but for some functions of its own."""
    source = (EXAMPLE / "resources_servers" / "counter" / "app.py").read_text()
    source = source.replace("import uuid\n", "import uuid\nimport pathlib, time\n")
    source = source.replace("def verify(", "def judge(").replace("def seed_session(", "def begin(")
    source = source.replace("\nROUTES", f"\n{changed}\n\nROUTES")
    own = project.environment / "resources_servers" / "counter" / "app.py"
    own.parent.mkdir(parents=True)
    own.write_text(source)
    (line, *_) = (DATA / "example.jsonl").read_text().splitlines()
    rows(project, *({**json.loads(line), "id": name, "folder": str(project.path)} for name in "abc"))


def test_a_server_that_hangs_is_ended_and_the_next_row_gets_a_new_one(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(project, HANGING)
    monkeypatch.setattr(session_module, "VERIFY_LIMIT", 1.0)
    result = project.run("--rlenv=envs/demo", "--rlenv-task=*/[ac]", *TRUSTED, sandbox=None)
    assert outcomes(result) == {"passed": 1, "errors": 1}
    result.stdout.fnmatch_lines(["*VerifierTimeout*POST /verify was not answered within 1.0 s*"])


def test_who_waits_for_a_server_that_is_ended_for_another_asks_a_new_one(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(project, HANGING)
    monkeypatch.setattr(session_module, "VERIFY_LIMIT", 1.0)
    result = project.run("--rlenv=envs/demo", "--rlenv-task=*/[ab]", "--rlenv-jobs=2", *TRUSTED, sandbox=None)
    assert outcomes(result) == {"passed": 1, "errors": 1}
    assert {r["task"]: r["verdict"] for r in project.records()} == {"train/a": "error", "train/b": "passed"}


def test_who_was_there_when_a_server_died_is_judged_by_one_of_its_own(project: Project) -> None:
    serve(project, DYING)
    result = project.run("--rlenv=envs/demo", "--rlenv-task=*/[ab]", "--rlenv-jobs=2", *TRUSTED, sandbox=None)
    assert outcomes(result) == {"passed": 1, "errors": 1}
    assert {r["task"]: r["verdict"] for r in project.records()} == {"train/a": "error", "train/b": "passed"}
    result.stdout.fnmatch_lines(["*SandboxFailed*the server counter is gone at POST /verify: it died*"])


def test_a_password_in_an_address_is_not_shown(project: Project) -> None:
    rows(project, row(id="a"))
    url = "http://me:open-sesame@127.0.0.1:9"
    result = project.run("--rlenv=envs/demo", "--agent=nop", "--rlenv-nemo-url", url, sandbox=None)
    assert outcomes(result) == {"errors": 1}
    left = [file.read_text() for file in project.run_dir.rglob("*") if file.is_file()]
    assert not any("open-sesame" in text for text in (result.stdout.str(), *left))
    assert any("127.0.0.1:9" in text for text in left)


def test_a_file_with_a_broken_first_line_is_not_passed_over(project: Project, gym: FakeGym) -> None:
    rows(project, '{"cut', row(id="a"))
    result = ask(project, gym, "--agent=nop", "--rlenv-threshold=2")
    assert outcomes(result) == {"passed": 1, "errors": 1}
    result.stdout.fnmatch_lines(["*train.jsonl, line 1 is not JSON*"])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_no_server(project: Project, how: signal.Signals) -> None:
    project.pytester.makepyfile(
        players="""
import pathlib, time
from pytest_rlenv.agents.episode import Player

class Slow(Player):
    def play(self, episode, context):
        pathlib.Path("playing").touch()
        time.sleep(60)
"""
    )
    command = [sys.executable, "-m", "pytest", f"--rlenv={EXAMPLE}", "--agent=players:Slow", *TRUSTED]
    process = subprocess.Popen(
        command,
        cwd=project.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _wait(lambda: (project.path / "playing").exists())
        servers = _running(project.path)
        assert servers
        process.send_signal(how)
        _wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in servers))
    finally:
        with_group = os.getpgid(process.pid) if process.poll() is None else None
        if with_group is not None:
            os.killpg(with_group, signal.SIGKILL)
        process.wait()


def _running(project: Path) -> list[int]:
    """Return the servers that were started for a run of this project, by a file of theirs."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"_server_child.py" in line and _ancestor(entry.name, project):
                found.append(int(entry.name))
    return found


def _ancestor(pid: str, project: Path) -> bool:
    """Return whether a process descends from one that works in a folder."""
    while pid not in ("0", "1"):
        try:
            if Path(f"/proc/{pid}/cwd").resolve() == project.resolve():
                return True
            pid = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            return False
    return False


def _wait(condition: Any) -> None:
    end = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
