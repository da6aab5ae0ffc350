"""Servers are started in the user's interpreter, without Ray, and end with us; what goes wrong says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.nemo_gym import EXAMPLE, FakePackage, row, write_server

from pytest_rlenv.errors import SandboxFailed, Stage, StageTimeout
from pytest_rlenv.frameworks.kept import Kept
from pytest_rlenv.frameworks.nemo_gym.resolving import ServerSpec
from pytest_rlenv.frameworks.nemo_gym.server import RunningServer
from pytest_rlenv.frameworks.nemo_gym.session import Session
from pytest_rlenv.frameworks.nemo_gym.sharing import Sharing
from pytest_rlenv.frameworks.nemo_gym.started_server import Start, StartedServer
from pytest_rlenv.rollout import Rollout, StageClock

COUNTER = EXAMPLE / "resources_servers" / "counter"
PATIENCE = 90.0


def program(folder: Path, entry: str = "app.py") -> Start:
    return Start(sys.executable, ServerSpec(folder.name, folder.name, folder, entry=entry), root=None)


def installed(package: FakePackage, name: str, **more: Any) -> Start:
    folder = package.site / "resources_servers" / name
    config = folder / "configs" / f"{name}.yaml"
    spec = ServerSpec(name, name, folder, config, judges=("judge_model",))
    return Start(package.python, spec, root=package.site, **more)


def write_program(folder: Path, text: str) -> Start:
    folder.mkdir(exist_ok=True)
    (folder / "app.py").write_text(text)
    return program(folder)


def environ(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **more}


@pytest.fixture(scope="module")
def counter() -> Iterator[StartedServer]:
    server = StartedServer(program(COUNTER), environ())
    yield server
    server.close()


def test_a_program_is_given_its_socket(counter: StartedServer) -> None:
    assert counter.alive
    assert counter.routes.has("/increment_counter")
    assert not counter.routes.has("/other")
    assert not counter.routes.gymnasium


def test_sessions_are_told_apart_by_their_cookies(counter: StartedServer) -> None:
    one, other = (Session(counter, row(initial_count=n, expected_count=n + 1), "m") for n in (1, 10))
    for session in (one, other):
        session.begin()
    one.call("increment_counter", '{"count": 1}')
    assert json.loads(one.call("get_counter_value", {})) == {"count": 2}
    assert json.loads(other.call("get_counter_value", {})) == {"count": 10}
    assert (one.judge().rewards, other.judge().rewards) == ({"reward": 1.0}, {"reward": 0.0})
    for session in (one, other):
        session.close()


def test_a_server_of_the_package_runs_with_its_config_and_without_ray(package: FakePackage) -> None:
    start = installed(package, "essays", judge_url="http://127.0.0.9:81/")
    server = StartedServer(start, environ(MY_SECRET="x", HF_HOME="/models"))
    session = Session(server, row(), "m")
    try:
        about = json.loads(session.call("about", {}))
    finally:
        session.close()
        server.close()
    assert about["cwd"] == str(package.site / "resources_servers" / "essays")
    assert about["own"]["host"] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{about['own']['port']}"
    assert about["config"]["judge_model"]["responses_api_models"]["judge"] == {
        "host": "127.0.0.9",
        "port": 81,
    }
    assert about["config"]["dry_run"] is False
    assert about["cache"] == "/models"
    assert about["secrets"] == []
    assert not server.alive


def test_ray_is_started_where_it_is_asked_for(package: FakePackage) -> None:
    with pytest.raises(SandboxFailed) as raised:
        StartedServer(installed(package, "letters", ray=True), environ())
    assert "Ray was started" in raised.value.detail


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("import sys; sys.exit('no licence')", r"ended before it answered \(exit code 1\)", "last words"),
        ("import no_such_module", "ended before it answered", "pip install what brings 'no_such_module'"),
        ("import os, signal; os.kill(os.getpid(), 9)", r"\(exit code 137\)", "last words"),
        (
            "import socket; socket.create_server(('127.0.0.1', int(open('port').read())))",
            r"ended before it answered \(exit code 1\)",
            "last words",
        ),
    ],
    ids=["exits", "module", "killed", "port-taken"],
)
def test_a_server_that_dies_at_its_start_says_how(tmp_path: Path, text: str, said: str, hint: str) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        (tmp_path / "server").mkdir()
        (tmp_path / "server" / "port").write_text(str(taken.getsockname()[1]))
        with pytest.raises(SandboxFailed, match=said) as raised:
            StartedServer(write_program(tmp_path / "server", text), environ())
    assert (raised.value.stage, hint in raised.value.hint) == (Stage.START, True)
    if "licence" in text:
        assert "no licence" in raised.value.detail


def test_a_server_that_never_answers_is_ended(tmp_path: Path) -> None:
    text = "print('thinking', flush=True)\nimport time; time.sleep(60)"
    start = write_program(tmp_path / "server", text)
    with pytest.raises(StageTimeout, match=r"did not answer within 0\.5 s") as raised:
        StartedServer(Start(start.python, start.spec, None, limit=0.5), environ())
    assert "thinking" in raised.value.detail


def test_a_server_that_dies_under_a_rollout_says_how(tmp_path: Path) -> None:
    text = (COUNTER / "app.py").read_text() + "\n"
    dying = "def verify(session, body):\n    print('out of luck', flush=True)\n    os._exit(3)\n"
    text = text.replace("def verify(session, body):\n", dying + "\n\ndef unused(session, body):\n", 1)
    server = StartedServer(write_program(tmp_path / "server", text), environ())
    session = Session(server, row(initial_count=0), "m")
    try:
        session.begin()
        with pytest.raises(SandboxFailed, match=r"gone at POST /verify: it died \(exit code 3\)") as raised:
            session.judge()
    finally:
        session.close()
        server.close()
    assert "out of luck" in raised.value.detail
    assert (server.alive, server.died) == (False, True)  # though somebody has closed it since


def test_what_the_server_prints_is_kept_for_each_rollout(counter: StartedServer) -> None:
    begin = counter.log_size
    session = Session(counter, row(initial_count=0, expected_count=0, fault="raises"), "m")
    session.begin()
    with pytest.raises(Exception, match="the counter is stuck"):
        session.judge()
    session.close()
    assert b"the counter is stuck" in counter.log_from(begin)
    assert counter.log_from(counter.log_size) == b""


def test_an_address_where_nobody_is_says_so() -> None:
    with pytest.raises(SandboxFailed, match=r"http://127\.0\.0\.1:9 cannot be reached"):
        RunningServer("http://127.0.0.1:9", 5.0)


OWNER = f"""
import os, sys, time
from pathlib import Path
from pytest_rlenv.frameworks.kept import Kept
from pytest_rlenv.frameworks.nemo_gym.resolving import ServerSpec
from pytest_rlenv.frameworks.nemo_gym.sharing import Sharing
from pytest_rlenv.frameworks.nemo_gym.started_server import Start, StartedServer
folder = Path({str(COUNTER)!r})
start = Start(sys.executable, ServerSpec("counter", "counter", folder), None)
server = StartedServer(start, dict(os.environ))
print(server.url, flush=True)
time.sleep(300)
"""


def test_nothing_of_a_server_lies_in_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    text = "import os, time\nos.system('touch started')\ntime.sleep(300)"
    start = write_program(tmp_path / "server", text)
    seen: list[list[str]] = []
    end = time.monotonic() + PATIENCE

    def look(self: StartedServer) -> None:
        assert time.monotonic() < end, "the server has not started"
        if (tmp_path / "server" / "started").exists():
            seen.append([file.name for file in (tmp_path / "tmp").iterdir()])
            raise KeyboardInterrupt

    monkeypatch.setattr(StartedServer, "_check_start", lambda self, deadline: look(self))
    monkeypatch.setattr(StartedServer, "_answers", lambda self, deadline: False)
    with pytest.raises(KeyboardInterrupt):
        StartedServer(start, environ())
    assert seen == [[]]


def test_a_server_that_does_not_start_is_not_tried_for_every_row(tmp_path: Path) -> None:
    made = 0

    def make() -> StartedServer:
        nonlocal made
        made += 1
        raise SandboxFailed("no licence", hint="buy one", detail="words", stage=Stage.START)

    kept = Kept()
    rollout = Rollout(environment="demo", framework="nemo-gym", task="a", agent="nop")
    context = cast(Any, SimpleNamespace(kept=kept, clock=StageClock(rollout)))
    sharing = Sharing(context, "key", make, 1.0, counted=True)
    for _ in range(5):
        with pytest.raises(SandboxFailed, match="no licence") as raised:
            sharing.with_others()
    assert made == 3
    assert raised.value.message == "no licence, 3 times in a row: it is not tried again"
    assert (raised.value.hint, raised.value.detail) == ("buy one", "words")
    with pytest.raises(SandboxFailed):
        Sharing(context, "other", make, 1.0, counted=True).with_others()
    assert made == 4
    kept.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a guard of ours, as /proc shows it")
def test_a_killed_run_leaves_no_server() -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        url = owner.stdout.readline().strip()
        assert RunningServer(url, 5.0).alive
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        end = time.monotonic() + PATIENCE
        while _answers(url):
            assert time.monotonic() < end, "the server is still there"
            time.sleep(0.02)
    finally:
        owner.kill()
        owner.communicate()


def _answers(url: str) -> bool:
    try:
        RunningServer(url, 1.0)
    except SandboxFailed:
        return False
    return True


def test_an_own_server_on_the_package_is_found_by_its_name(package: FakePackage, tmp_path: Path) -> None:
    folder = write_server(tmp_path, "own")
    spec = ServerSpec("own", "own", folder, folder / "configs" / "own.yaml", trusted=False)
    server = StartedServer(Start(package.python, spec, root=package.site), environ())
    try:
        assert server.routes.has("/verify")
    finally:
        server.close()
