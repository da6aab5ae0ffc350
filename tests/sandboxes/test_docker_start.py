"""How boxes start, and what they may do, against a real engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pytest_rlenv.errors import EntrypointExited, ImageUnavailable, SandboxFailed, Stage, Unsupported
from pytest_rlenv.sandboxes.confinement import CAPABILITIES
from pytest_rlenv.sandboxes.docker.box import DockerBox
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.protocol import PUBLIC, Box, Entry, ImageRef, Sandbox

pytestmark = pytest.mark.docker

Start = Callable[..., DockerBox]
Build = Callable[..., ImageRef]


def test_protocols_are_met(sandbox: DockerSandbox, box: DockerBox) -> None:
    assert isinstance(sandbox, Sandbox)
    assert isinstance(box, Box)


def test_describe_and_capabilities(sandbox: DockerSandbox, engine: Engine) -> None:
    sandbox.check()
    assert sandbox.describe() == f"docker {engine.version()}"
    assert "+" not in sandbox.describe()
    can = sandbox.capabilities
    assert can.network_modes == {"public", "no-network"}
    assert (can.builds_images, can.users, can.gpus) == (True, True, 0)
    assert can.cpus == engine.info()["NCPU"]
    assert can.memory_mb is not None
    assert can.memory_mb > 100


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


def test_no_privileges_can_be_gained(box: DockerBox) -> None:
    status = box.run(["cat", "/proc/self/status"]).stdout.decode()
    assert "NoNewPrivs:\t1" in status
    assert box.run(["mount", "-t", "tmpfs", "x", "/mnt"]).exit_code != 0
    assert box.run(["mknod", "/x", "b", "8", "0"]).exit_code != 0
    assert (
        box.run(["sh", "-c", "chown nobody /tmp/x 2>/dev/null || touch /x && chown nobody /x"]).exit_code == 0
    )


def test_no_network_has_only_the_loopback(box: DockerBox) -> None:
    assert box.run(["ls", "/sys/class/net"]).stdout == b"lo\n"


def test_public_network(start: Start) -> None:
    box = start(network=PUBLIC)
    assert box.run(["ls", "/sys/class/net"]).stdout.split() == [b"eth0", b"lo"]


def test_entries_are_there_before_the_first_process(start: Start, build: Build) -> None:
    image = build('FROM debian:bookworm-slim\nENTRYPOINT ["sh", "-c", "cp /in/a /seen; exec \\"$@\\"", "-"]')
    box = start(image, entries=(Entry("/in/a", b"early"),))
    assert box.run(["cat", "/seen"], timeout=10).stdout == b"early"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"cpus": 1000}, "task asks for 1000 cpus, this engine has {cpus:g}"),
        ({"memory_mb": 10**9}, "task asks for 1000000000 MiB of memory, this engine has {memory}"),
        (
            {"network": "allowlist"},
            "task asks for network mode 'allowlist', this engine has no-network, public",
        ),
    ],
)
def test_what_the_engine_lacks(
    spec: dict[str, Any], reason: str, start: Start, sandbox: DockerSandbox
) -> None:
    can = sandbox.capabilities
    with pytest.raises(Unsupported) as caught:
        start(**spec)
    assert caught.value.reason.startswith(reason.format(cpus=can.cpus, memory=can.memory_mb))


def test_box_ends_by_itself(start: Start) -> None:
    box = start(lifetime=1.0)
    assert box.run(["true"]).exit_code == 0
    time.sleep(2.5)
    with pytest.raises(SandboxFailed, match="exit code 0"):
        box.run(["true"])


def test_keeper_reaps_orphans(box: DockerBox) -> None:
    box.run(["sh", "-c", "for i in 1 2 3 4 5; do (sleep 0.05 &) ; done; sleep 0.4"])
    states = box.run(["sh", "-c", "cat /proc/[0-9]*/stat"]).stdout.decode()
    assert " Z " not in states


def test_keeper_stops_at_once(box: DockerBox, engine: Engine) -> None:
    engine.request("POST", f"/containers/{box.id}/kill", params={"signal": "TERM"}, doing="stop")
    begin = time.monotonic()
    while inspect(engine, box)["State"]["Running"] and time.monotonic() - begin < 5:
        time.sleep(0.05)
    assert inspect(engine, box)["State"]["ExitCode"] == 0


ENTRY = """FROM debian:bookworm-slim
COPY entry.sh /entry.sh
RUN chmod +x /entry.sh
ENTRYPOINT ["/entry.sh", "an arg"]
"""


def test_entrypoint_runs_and_hands_over(start: Start, build: Build, engine: Engine) -> None:
    image = build(ENTRY, {"entry.sh": '#!/bin/sh\necho "up $1" >/service\nshift\nexec "$@"\n'})
    box = start(image)
    assert box.run(["cat", "/service"]).stdout == b"up an arg\n"
    log = inspect(engine, box)["HostConfig"]["LogConfig"]
    assert log == {"Type": "json-file", "Config": {"max-file": "1", "max-size": "1m"}}
    assert box.run(["sleep", "1000"], timeout=0.5).timed_out
    assert box.run(["cat", "/service"]).stdout == b"up an arg\n"


@pytest.mark.parametrize("delay", [0, 0.3])
@pytest.mark.parametrize("operation", ["run", "quiesce"])
def test_entrypoint_that_ends(delay: float, operation: str, start: Start, build: Build) -> None:
    image = build(ENTRY, {"entry.sh": f"#!/bin/sh\necho no config >&2\nsleep {delay}\nexit 3\n"})

    def use() -> None:
        box = start(image)
        time.sleep(1.5)
        box.run(["true"]) if operation == "run" else box.quiesce()

    with pytest.raises(EntrypointExited) as caught:
        use()
    error = caught.value
    assert "ENTRYPOINT" in error.message
    assert "/entry.sh 'an arg'" in error.message
    assert "exit code 3" in error.message
    assert "no config" in error.detail
    assert 'exec "$@"' in error.hint


def test_entrypoint_that_ends_under_a_command(start: Start, build: Build) -> None:
    image = build(ENTRY, {"entry.sh": "#!/bin/sh\nsleep 1\nexit 4\n"})
    box = start(image)
    with pytest.raises(EntrypointExited, match="exit code 4"):
        box.run(["sleep", "1000"], timeout=30)


def test_entrypoint_that_waits_for_its_command(start: Start, build: Build) -> None:
    """It ends when everything is killed, so the box is started again: entry point and files are there."""
    image = build(ENTRY, {"entry.sh": '#!/bin/sh\necho start >>/starts\nshift\n"$@"\necho over\n'})
    box = start(image)
    box.run(["sh", "-c", "echo work >/work"])
    assert box.run(["sleep", "1000"], timeout=0.5).timed_out
    assert box.run(["cat", "/work", "/starts"]).stdout == b"work\nstart\nstart\n"
    box.quiesce()
    assert box.run(["cat", "/work"]).stdout == b"work\n"


def test_entrypoint_that_is_not_there(start: Start, build: Build) -> None:
    with pytest.raises(SandboxFailed, match="ENTRYPOINT cannot be executed"):
        start(build('FROM debian:bookworm-slim\nENTRYPOINT ["/nope"]'))


def test_image_without_a_shell(start: Start, build: Build) -> None:
    with pytest.raises(SandboxFailed, match="no shell") as caught:
        start(build("FROM scratch\nCOPY a /a", {"a": "x"}))
    assert "distroless" in caught.value.hint


def test_image_without_sleep(start: Start, build: Build) -> None:
    image = build("FROM debian:bookworm-slim\nRUN rm /usr/bin/sleep")

    def use() -> None:
        box = start(image)
        time.sleep(1)
        box.run(["true"])

    with pytest.raises(SandboxFailed, match="no `sleep`"):
        use()


def test_user_of_the_image(start: Start, build: Build) -> None:
    box = start(build("FROM debian:bookworm-slim\nRUN useradd -u 1500 me\nUSER me\nWORKDIR /home"))
    assert box.run(["sh", "-c", "id -u; pwd"]).stdout == b"1500\n/home\n"
    assert box.run(["id", "-u"], user=0).stdout == b"0\n"
    assert box.run(["setsid", "sleep", "1000"], user="root", timeout=0.5).timed_out
    assert box.run(["true"]).exit_code == 0


HEALTH = "FROM debian:bookworm-slim\nHEALTHCHECK --interval=300ms --timeout=2s --retries=2 CMD {}"


def test_healthcheck_is_waited_for(start: Start, build: Build) -> None:
    image = build(HEALTH.format("test -e /ready || { touch /ready; exit 1; }"))
    assert start(image).run(["ls", "/ready"]).exit_code == 0


def test_healthcheck_that_fails(start: Start, build: Build) -> None:
    with pytest.raises(SandboxFailed, match="HEALTHCHECK failed") as caught:
        start(build(HEALTH.format("echo still down; exit 7")))
    assert caught.value.stage is Stage.HEALTHCHECK
    assert caught.value.detail.startswith("exit code 1: still down") or "exit code 7" in caught.value.detail


def test_healthcheck_of_a_box_that_ends(start: Start, build: Build) -> None:
    image = build(ENTRY + "HEALTHCHECK --interval=300ms CMD false", {"entry.sh": "#!/bin/sh\nsleep 0.5\n"})

    def use() -> None:
        box = start(image)
        time.sleep(1)
        box.run(["true"])

    with pytest.raises(EntrypointExited):
        use()


def test_image_that_was_removed(sandbox: DockerSandbox, start: Start) -> None:
    with pytest.raises(ImageUnavailable, match="not in the engine any more"):
        start(ImageRef("gone", "sha256:" + "0" * 64))


def test_nothing_is_left_of_a_failed_start(
    start: Start, build: Build, engine: Engine, session_id: str
) -> None:
    from support.engine import containers

    image = build("FROM scratch\nCOPY a /a", {"a": "x"})
    with pytest.raises(SandboxFailed):
        start(image, labels={"probe": "failed-start"})
    assert containers(engine, "rlenv.probe=failed-start", f"rlenv.session={session_id}") == []


def test_memory_below_the_engines_minimum(start: Start) -> None:
    with pytest.raises(SandboxFailed, match=r"(?i)memory"):
        start(memory_mb=1)
