"""What a container reaches, in all modes and through their changes, against a real engine."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.engine import BASE, containers, remove_all
from support.gates import FETCH, Server, fetch, serving, web

from pytest_rlenv.errors import SandboxFailed, Unsupported
from pytest_rlenv.sandboxes.docker import handover
from pytest_rlenv.sandboxes.docker.box import DockerBox
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.handover import Handover, impediment
from pytest_rlenv.sandboxes.docker.networks import FOLDER, BoxNetwork, sweep_folders
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.model import ALLOWLIST, NO_NETWORK, PUBLIC, BoxSpec, ImageRef, SandboxContext
from pytest_rlenv.sandboxes.network.gate import Gate
from pytest_rlenv.sandboxes.network.hosts import Address
from pytest_rlenv.sandboxes.network.variables import PORT

ALL = frozenset({PUBLIC, NO_NETWORK, ALLOWLIST})


@pytest.fixture
def host(engine: Engine) -> str:
    """This machine's address on the bridge, which containers with a public network reach."""
    found = engine.get("/networks/bridge", doing="look")["IPAM"]["Config"]
    return str(found[0].get("Gateway") or ip_address(found[0]["Subnet"].split("/")[0]) + 1)


@pytest.fixture
def site(host: str) -> Iterator[Server]:
    with serving(web, host) as server:
        yield server


@pytest.fixture
def named(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every name lead to this machine."""

    async def resolve(name: str) -> list[Address]:
        return [ip_address(host)]

    monkeypatch.setattr("pytest_rlenv.sandboxes.network.gate.Gate", partial(Gate, resolver=resolve))


def interfaces(box: DockerBox) -> set[str]:
    text = box.run(["cat", "/proc/net/dev"]).stdout.decode()
    return {line.split(":")[0].strip() for line in text.splitlines() if ":" in line}


@pytest.mark.docker
@pytest.mark.usefixtures("named")
def test_one_box_through_all_networks(
    start: Callable[..., DockerBox], engine: Engine, host: str, site: Server
) -> None:
    hosts = ("good.test", "*.wild.test", host)  # the machine itself has to be listed, beside its names
    box = start(network=ALLOWLIST, allowed_hosts=hosts, later_networks=ALL)

    # no network but the gate, which nothing in the box keeps up
    assert fetch(box, "good.test", site.port).endswith("hello")
    assert fetch(box, "a.b.wild.test", site.port).endswith("hello")
    assert "403 Forbidden" in fetch(box, "evil.test", site.port)
    assert box.take_denied() == {f"evil.test:{site.port}": 1}
    assert interfaces(box) == {"lo"}
    direct = box.run(["bash", "-c", f"exec 3<>/dev/tcp/{host}/{site.port}"])
    assert b"unreachable" in direct.output
    assert box.run(["getent", "hosts", "good.test"]).exit_code == 2
    box.quiesce()
    assert fetch(box, "good.test", site.port).endswith("hello")

    # a container that has to be started again has a new namespace, and gets its gate again
    engine.request("POST", f"/containers/{box.id}/kill", doing="kill")
    wait_until(lambda: not running(engine, box))
    box._start_again()
    assert fetch(box, "good.test", site.port).endswith("hello")
    assert interfaces(box) == {"lo"}

    box.set_network(ALLOWLIST, ["evil.test", host])
    assert "403 Forbidden" in fetch(box, "good.test", site.port)
    assert fetch(box, "evil.test", site.port).endswith("hello")

    # all of it, and no proxy
    box.set_network(PUBLIC)
    assert box.run(["sh", "-c", 'echo "<$http_proxy$HTTPS_PROXY$ALL_PROXY$no_proxy>"']).stdout == b"<>\n"
    assert fetch(box, host, site.port).endswith("hello")
    talk = f"exec 3<>/dev/tcp/{host}/{site.port}; while :; do echo x; sleep 0.01; done >&3"
    assert box.run(["bash", "-c", f"({talk}) </dev/null >/dev/null 2>&1 &"]).exit_code == 0
    wait_until(lambda: said_to(site) > 0)

    # nothing, and what was open is dead
    box.set_network(NO_NETWORK)
    heard = said_to(site)
    assert interfaces(box) == {"lo"}
    assert "unreachable" in fetch(box, host, site.port)
    gate = box.run(["bash", "-c", FETCH, "fetch", "evil.test", "80"], env={"http_proxy": f"127.0.0.1:{PORT}"})
    assert b"403 Forbidden" in gate.stdout
    time.sleep(0.2)
    assert said_to(site) == heard

    box.set_network(ALLOWLIST, ["good.test", host])
    assert fetch(box, "good.test", site.port).endswith("hello")
    folder = Path(box._network.mounts[0]["Source"])
    assert list(folder.iterdir()) == []
    box.destroy()
    assert not folder.exists()


def said_to(site: Server) -> int:
    """Return how often it was told "x", by whichever connection."""
    return sum(each.count(b"x\n") for each in list(site.received))


def running(engine: Engine, box: DockerBox) -> bool:
    return bool(engine.get(f"/containers/{box.id}/json", doing="look")["State"]["Running"])


def wait_until(true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 20
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.01)


@pytest.mark.docker
@pytest.mark.usefixtures("named")
def test_the_gate_is_there_before_the_images_own_entrypoint(
    start: Callable[..., DockerBox], build: Callable[..., ImageRef], host: str, site: Server
) -> None:
    script = f'#!/bin/bash\nset -- good.test {site.port} "$@"\n(\n{FETCH}\n) >/tmp/got\nshift 2\nexec "$@"\n'
    image = build(
        f'FROM {BASE}\nCOPY entry.sh /\nUSER nobody\nENTRYPOINT ["bash", "/entry.sh"]', {"entry.sh": script}
    )
    box = start(image, network=ALLOWLIST, allowed_hosts=("good.test", host))
    assert box.get("/tmp/got", cap=1000).endswith(b"hello")
    assert box.run(["id", "-un"]).stdout == b"nobody\n"


@pytest.mark.docker
def test_a_public_box_that_gets_an_allowlist_later(
    start: Callable[..., DockerBox], host: str, site: Server
) -> None:
    box = start(network=PUBLIC, later_networks=frozenset({ALLOWLIST}))
    assert fetch(box, host, site.port).endswith("hello")
    box.set_network(ALLOWLIST, [host])
    assert fetch(box, host, site.port).endswith("hello")
    assert b"unreachable" in box.run(["bash", "-c", f"exec 3<>/dev/tcp/{host}/{site.port}"]).output
    with pytest.raises(Unsupported, match="not made ready for network mode 'no-network'"):
        box.set_network(NO_NETWORK)
    with pytest.raises(ValueError, match="range"):
        box.set_network(ALLOWLIST, ["http://x/"])
    assert fetch(box, host, site.port).endswith("hello")


@pytest.mark.docker
def test_a_box_whose_network_is_not_what_it_should_be_is_not_used(
    start: Callable[..., DockerBox], engine: Engine
) -> None:
    box = start(network=NO_NETWORK, later_networks=ALL)
    for verb, network in (("disconnect", "none"), ("connect", "bridge")):
        engine.request("POST", f"/networks/{network}/{verb}", body={"Container": box.id}, doing="meddle")
    with pytest.raises(SandboxFailed, match="should be allowlist, but the engine has it on bridge"):
        box.set_network(ALLOWLIST, ["good.test"])
    with pytest.raises(SandboxFailed, match="network could not be changed"):
        box.run(["true"])


@pytest.mark.docker
def test_a_folder_that_the_engine_does_not_see_is_a_skip(
    start: Callable[..., DockerBox], monkeypatch: pytest.MonkeyPatch, context: SandboxContext
) -> None:
    elsewhere = {"Type": "bind", "Source": "/nonexistent/rlenv", "Target": handover.FOLDER, "ReadOnly": True}
    monkeypatch.setattr(Handover, "mount", property(lambda self: elsewhere))
    with pytest.raises(Unsupported, match="does not see this machine's folders"):
        start(network=ALLOWLIST)
    assert list((context.cache_dir / FOLDER).iterdir()) == []


@pytest.mark.docker
def test_a_gate_that_does_not_open_is_an_error_that_says_why(
    start: Callable[..., DockerBox], monkeypatch: pytest.MonkeyPatch, context: SandboxContext
) -> None:
    make = handover.gate_program
    monkeypatch.setattr(handover, "gate_program", lambda kind, port, path: make(kind, port, f"{path}-not"))
    with pytest.raises(SandboxFailed, match=r"could not open its gate .* it failed to connect to the host"):
        start(network=ALLOWLIST)
    assert list((context.cache_dir / FOLDER).iterdir()) == []


OWNER = """
import sys, time, pathlib
from pytest_rlenv.sandboxes.docker import DockerSandbox
from pytest_rlenv.sandboxes.model import *
session, base, image = sys.argv[1:]
sandbox = DockerSandbox(SandboxContext(session, "main", pathlib.Path(base), pathlib.Path(base)))
sandbox.start(sandbox.prepare(ImageSpec(name=image)), BoxSpec(network="allowlist", lifetime=300))
print("up", flush=True)
time.sleep(60)
"""


@pytest.mark.docker
def test_nothing_is_left_of_a_process_that_was_killed(engine: Engine, tmp_path: Path) -> None:
    session = f"t{uuid.uuid4().hex[:12]}"
    argv = [sys.executable, "-c", OWNER, session, str(tmp_path), BASE]
    owner = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        (folder,) = (tmp_path / FOLDER).iterdir()
        assert sweep_folders(tmp_path) == 0
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        wait_until(lambda: containers(engine, f"rlenv.session={session}") == [])
        DockerSandbox(SandboxContext("other", "main", tmp_path, tmp_path)).check()
        assert not folder.exists()
    finally:
        owner.kill()
        owner.wait()
        if owner.stdout is not None:
            owner.stdout.close()
        remove_all(engine, f"rlenv.session={session}")


# ---- without an engine


def engine_that_says(socket_path: str | None = "/var/run/docker.sock", **info: Any) -> Any:
    import platform

    facts = {"KernelVersion": platform.release(), "Architecture": "x86_64", **info}
    return SimpleNamespace(info=lambda: facts, endpoint=SimpleNamespace(socket_path=socket_path))


@pytest.mark.skipif(sys.platform != "linux", reason="gates are for Linux")
@pytest.mark.parametrize(
    ("engine", "why"),
    [
        (engine_that_says(), ""),
        (engine_that_says(Architecture="aarch64"), ""),
        (engine_that_says(socket_path=None), "not on this machine"),
        (engine_that_says(KernelVersion="6.6.12-linuxkit"), "another kernel"),
        (engine_that_says(Architecture="riscv64"), "processor is riscv64"),
        (engine_that_says(KernelVersion=None), "another kernel"),
    ],
)
def test_engines_that_cannot_have_gates(engine: Any, why: str) -> None:
    found = impediment(engine)
    assert bool(found) is bool(why)
    assert why in found


@pytest.mark.parametrize(
    ("spec", "mode", "seen"),
    [
        (BoxSpec(network=PUBLIC), PUBLIC, {}),
        (BoxSpec(network=NO_NETWORK), NO_NETWORK, {}),
        (BoxSpec(network=ALLOWLIST), ALLOWLIST, {"http_proxy": f"http://127.0.0.1:{PORT}"}),
        (BoxSpec(network=ALLOWLIST, later_networks=ALL), PUBLIC, {"http_proxy": ""}),
        (BoxSpec(network=PUBLIC, later_networks=ALL), PUBLIC, {}),
        (BoxSpec(network=ALLOWLIST, env={"http_proxy": "http://own:1"}), ALLOWLIST, {}),
    ],
)
def test_the_variables_of_a_network(spec: BoxSpec, mode: str, seen: dict[str, str]) -> None:
    network = BoxNetwork(engine_that_says(), spec, None)
    network._mode = mode
    found = network.variables()
    assert {name: value for name, value in found.items() if name == "http_proxy"} == seen


def test_a_folder_that_cannot_hold_a_socket_is_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SandboxFailed, match=r"no socket for the gate .* can be made in .*/file/") as caught:
        Handover(tmp_path / "file", "x86_64")
    assert "RLENV_CACHE" in caught.value.hint
    handover = Handover(tmp_path / "gates", "x86_64")
    handover.folder.rmdir()
    with pytest.raises(SandboxFailed, match="no socket for the gate"):
        handover.expect()
    handover.close()
    handover.close()
