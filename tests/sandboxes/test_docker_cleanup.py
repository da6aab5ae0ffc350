"""Nothing is left over, whoever dies, against a real engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.engine import BASE, containers, remove_all

from pytest_rlenv.sandboxes.docker import labels, reaper
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.endpoint import resolve_endpoint
from pytest_rlenv.sandboxes.docker.reaper import Reaper
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.docker.sweep import sweep_stale
from pytest_rlenv.sandboxes.model import NO_NETWORK, BoxSpec, ImageRef, ImageSpec, SandboxContext

pytestmark = pytest.mark.docker

OWNER = """
import sys, time, pathlib
from pytest_rlenv.sandboxes.docker import DockerSandbox
from pytest_rlenv.sandboxes.model import *
session, worker, base, image = sys.argv[1:]
sandbox = DockerSandbox(SandboxContext(session, worker, pathlib.Path(base), pathlib.Path(base)))
for _ in range(2):
    sandbox.start(sandbox.prepare(ImageSpec(name=image)), BoxSpec(network="no-network", lifetime=300))
print("up", flush=True)
time.sleep(60)
"""


@pytest.fixture
def session(engine: Engine) -> Iterator[str]:
    session = f"t{uuid.uuid4().hex[:12]}"
    yield session
    remove_all(engine, f"{labels.SESSION}={session}")


@pytest.fixture
def owner(session: str, tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start another process that owns two boxes of the session."""
    owners: list[subprocess.Popen[str]] = []

    def start(worker: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", OWNER, session, worker, str(tmp_path), BASE]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        owners.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process

    yield start
    for process in owners:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def of(engine: Engine, session: str) -> list[str]:
    return containers(engine, f"{labels.SESSION}={session}")


def gone_within(seconds: float, engine: Engine, session: str, left: int = 0) -> bool:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        if len(of(engine, session)) == left:
            return True
        time.sleep(0.1)
    return False


def sandbox_of(session: str, worker: str, tmp_path: Path) -> DockerSandbox:
    return DockerSandbox(SandboxContext(session, worker, tmp_path, tmp_path))


def start_box(sandbox: DockerSandbox, **spec: object) -> str:
    image: ImageRef = sandbox.prepare(ImageSpec(name=BASE))
    return sandbox.start(image, BoxSpec(network=NO_NETWORK, lifetime=300, **spec)).id


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_reaper_removes_the_boxes_of_a_dead_owner(
    number: signal.Signals, owner: Callable[[str], subprocess.Popen[str]], engine: Engine, session: str
) -> None:
    process = owner("main")
    assert len(of(engine, session)) == 2
    process.send_signal(number)
    assert gone_within(20, engine, session)


def test_a_killed_worker_takes_its_own_boxes_with_it_and_no_others(
    owner: Callable[[str], subprocess.Popen[str]], engine: Engine, session: str
) -> None:
    alive, dead = owner("gw0"), owner("gw1")
    assert len(of(engine, session)) == 4
    dead.kill()
    assert gone_within(20, engine, session, left=2)
    time.sleep(1.0)
    kept = containers(engine, f"{labels.OWNER}={session}/gw0")
    assert of(engine, session) == kept
    assert len(kept) == 2
    alive.kill()
    assert gone_within(20, engine, session)


def test_reaper_survives_what_ends_its_owner(engine: Engine, session: str, tmp_path: Path) -> None:
    guard = Reaper(resolve_endpoint(), f"{labels.SESSION}={session}")
    assert os.getsid(guard.pid) == guard.pid != os.getsid(0)
    open_files = {str(fd.readlink()) for fd in Path(f"/proc/{guard.pid}/fd").iterdir()}
    assert all(name.startswith(("pipe:", "/dev/null")) or name.endswith("_reaper.py") for name in open_files)
    time.sleep(0.5)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(guard.pid, number)
    start_box(sandbox_of(session, "gw0", tmp_path))
    guard.stop()
    guard.stop()
    assert of(engine, session) == []


def test_reaper_can_be_dismissed(engine: Engine, session: str, tmp_path: Path) -> None:
    guard = Reaper(resolve_endpoint(), f"{labels.SESSION}={session}")
    start_box(sandbox_of(session, "gw0", tmp_path))
    guard.stop(sweep=False)
    assert len(of(engine, session)) == 1


def test_reaper_is_started_once(session: str, tmp_path: Path, engine: Engine) -> None:
    context = SandboxContext(session, "main", tmp_path, tmp_path)
    first = reaper.start_reaper(context)
    assert reaper.start_reaper(context) is first
    first.stop()


def test_a_closed_sandbox_has_no_reaper_left(engine: Engine, session: str, tmp_path: Path) -> None:
    context = SandboxContext(session, "main", tmp_path, tmp_path)
    sandbox = DockerSandbox(context)
    start_box(sandbox)
    pid = reaper.start_reaper(context).pid
    assert Path(f"/proc/{pid}").exists()
    sandbox.close()
    assert of(engine, session) == []
    assert not Path(f"/proc/{pid}").exists()


def test_stale_sweep(engine: Engine, session: str, tmp_path: Path) -> None:
    alive = start_box(sandbox_of(session, "gw1", tmp_path))
    (mine,) = (each["Labels"] for each in listed(engine, session))
    gone = subprocess.Popen(["true"])
    gone.wait()
    dead = foreign_container(engine, mine | {labels.PID: str(gone.pid)})
    other_host = foreign_container(engine, mine | {labels.PID: str(gone.pid), labels.HOST: "far away"})
    foreign = foreign_container(engine, {"someone.else": session})
    try:
        assert sweep_stale(engine=engine) >= 1
        assert dead not in of(engine, session)
        assert sorted(of(engine, session)) == sorted([alive, other_host])
        assert containers(engine, f"someone.else={session}") == [foreign]
    finally:
        engine.request("DELETE", f"/containers/{foreign}", params={"force": 1}, doing="clean up")


def listed(engine: Engine, session: str) -> list[dict[str, Any]]:
    filters = json.dumps({"label": [f"{labels.SESSION}={session}"]})
    found: list[dict[str, Any]] = engine.get(
        "/containers/json", params={"all": 1, "filters": filters}, doing="list"
    )
    return found


def test_stale_sweep_of_an_expired_box(engine: Engine, session: str) -> None:
    expired = {
        "rlenv": "1",
        "rlenv.deadline": "1000000000",
        "rlenv.session": session,
        "rlenv.host": "far away",
    }
    foreign_container(engine, expired)
    sweep_stale(engine=engine)
    assert of(engine, session) == []


def foreign_container(engine: Engine, names: dict[str, str]) -> str:
    body = {"Image": BASE, "Cmd": ["true"], "Labels": names}
    return str(engine.request("POST", "/containers/create", body=body, doing="create").json()["Id"])


def test_close_removes_what_is_up(engine: Engine, session: str, tmp_path: Path) -> None:
    sandbox = sandbox_of(session, "gw0", tmp_path)
    for _ in range(3):
        start_box(sandbox)
    sandbox.close()
    assert of(engine, session) == []
    sandbox.close()


def test_volumes_go_with_their_box(
    engine: Engine, build: Callable[..., ImageRef], session: str, tmp_path: Path
) -> None:
    image = build(f"FROM {BASE}\nVOLUME /data")
    sandbox = sandbox_of(session, "gw0", tmp_path)
    box = sandbox.start(image, BoxSpec(network=NO_NETWORK, lifetime=300))
    mounts = engine.get(f"/containers/{box.id}/json", doing="look")["Mounts"]
    assert [mount["Destination"] for mount in mounts] == ["/data"]
    box.destroy()
    sandbox.close()
    assert engine.find(f"/volumes/{mounts[0]['Name']}", doing="look") is None


def test_many_boxes_are_destroyed_in_the_background(engine: Engine, session: str, tmp_path: Path) -> None:
    sandbox = sandbox_of(session, "gw0", tmp_path)
    image = sandbox.prepare(ImageSpec(name=BASE))
    boxes = [sandbox.start(image, BoxSpec(network=NO_NETWORK, lifetime=300)) for _ in range(12)]
    for box in boxes:
        box.destroy()
    sandbox.close()
    assert of(engine, session) == []
