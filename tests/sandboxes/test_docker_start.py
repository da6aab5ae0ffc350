"""How containers are made; what they must do as any box does is in ``conformance/``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from support.boxes import HANG_GUARD, eventually
from support.engine import containers

from pytest_rlenv.errors import ImageUnavailable, SandboxFailed
from pytest_rlenv.sandboxes.confinement import CAPABILITIES
from pytest_rlenv.sandboxes.docker.box import DockerBox
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.model import PUBLIC, Entry, ImageRef

pytestmark = pytest.mark.docker

Start = Callable[..., DockerBox]
Build = Callable[..., ImageRef]


def test_describe_and_capabilities(sandbox: DockerSandbox, engine: Engine) -> None:
    assert sandbox.describe() == f"docker {engine.version()}"
    assert "+" not in sandbox.describe()
    can = sandbox.capabilities
    assert (can.builds_images, can.users) == (True, True)
    assert can.cpus == engine.info()["NCPU"]


def inspect(engine: Engine, box: DockerBox) -> dict[str, Any]:
    found: dict[str, Any] = engine.get(f"/containers/{box.id}/json", doing="look")
    return found


def test_hardening(start: Start, engine: Engine) -> None:
    box = start(memory_mb=64, cpus=0.5, labels={"task": "hello", "session": "mine?"})
    found = inspect(engine, box)
    host = found["HostConfig"]
    assert {name.removeprefix("CAP_") for name in host["CapAdd"]} == set(CAPABILITIES)
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert (host["Memory"], host["MemorySwap"], host["NanoCpus"]) == (64 << 20, 64 << 20, 500_000_000)
    assert (host["PidsLimit"], host["ShmSize"], host["IpcMode"]) == (1024, 64 << 20, "private")
    assert (host["NetworkMode"], host["Privileged"], host["Binds"]) == ("none", False, None)
    assert host["LogConfig"]["Type"] == "none"
    assert found["Mounts"] == []
    labels = found["Config"]["Labels"]
    assert labels["rlenv"] == "1"
    assert labels["rlenv.task"] == "hello"
    assert labels["rlenv.session"].startswith("t")
    assert int(labels["rlenv.deadline"]) > time.time()
    assert found["Name"].startswith(f"/rlenv-{labels['rlenv.session'][:8]}-gw0-")


def test_public_network_is_the_engines_bridge(start: Start) -> None:
    box = start(network=PUBLIC)
    assert box.run(["ls", "/sys/class/net"]).stdout.split() == [b"eth0", b"lo"]


def test_keeper_stops_at_once(start: Start, engine: Engine) -> None:
    box = start()
    begin = time.monotonic()
    engine.request("POST", f"/containers/{box.id}/kill", params={"signal": "TERM"}, doing="stop")
    assert eventually(lambda: not inspect(engine, box)["State"]["Running"])
    assert time.monotonic() - begin < HANG_GUARD
    assert inspect(engine, box)["State"]["ExitCode"] == 0


def test_output_of_an_entrypoint_is_kept_within_bounds(start: Start, build: Build, engine: Engine) -> None:
    image = build('FROM debian:bookworm-slim\nENTRYPOINT ["/entry.sh"]')
    box = start(image, entries=(Entry("/entry.sh", b'#!/bin/sh\nexec "$@"\n', 0o755),))
    log = inspect(engine, box)["HostConfig"]["LogConfig"]
    assert log == {"Type": "json-file", "Config": {"max-file": "1", "max-size": "1m"}}


def test_image_that_was_removed(start: Start) -> None:
    with pytest.raises(ImageUnavailable, match="not in the engine any more"):
        start(ImageRef("gone", "sha256:" + "0" * 64))


def test_nothing_is_left_of_a_failed_start(
    start: Start, build: Build, engine: Engine, session_id: str
) -> None:
    image = build("FROM scratch\nCOPY a /a", {"a": "x"})
    with pytest.raises(SandboxFailed):
        start(image, labels={"probe": "failed-start"})
    assert containers(engine, "rlenv.probe=failed-start", f"rlenv.session={session_id}") == []


def test_memory_below_the_engines_minimum(start: Start) -> None:
    with pytest.raises(SandboxFailed, match=r"(?i)memory"):
        start(memory_mb=1)
