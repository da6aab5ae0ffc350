"""How boxes start, and what they make of their image: files, users, ENTRYPOINT, HEALTHCHECK."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from support.boxes import HANG_GUARD, eventually, ok, sh, unfit
from support.sandbox_kinds import LOCAL_HOST, WITH_IMAGES, Image

from pytest_rlenv.errors import EntrypointExited, ImageUnavailable, SandboxFailed, Stage, Unsupported
from pytest_rlenv.sandboxes.local.imageconfig import HealthCheck
from pytest_rlenv.sandboxes.model import BoxSpec, Entry, ImageRef, ImageSpec
from pytest_rlenv.sandboxes.protocol import Box, Sandbox

Start = Callable[..., Box]

PASSWD = "root:x:0:0:root:/root:/bin/sh\nworker:x:1500:1500::/home/worker:/bin/sh\n"
GROUP = "root:x:0:\nworker:x:1500:\nmore:x:77:worker\n"
CHECK = HealthCheck(("sh", "/check.sh"), interval=0.3, timeout=2.0, retries=2)

SETTINGS = Image(
    "settings",
    env={"A": "one two", "B": "$A", "PATH": "/own:/usr/bin:/bin"},
    workdir="/app/deep",
    files={"/own/run.sh": "#!/bin/sh\necho $A"},
)
WORKER = Image("worker", user="worker", workdir="/w", files={"/etc/passwd": PASSWD, "/etc/group": GROUP})
GHOST = Image("ghost", user="ghost")
ENTRY = Image("entry", env={"OWN": "1"}, workdir="/w", entrypoint=("/entry.sh", "an arg"))
HEALTH = Image("health", healthcheck=CHECK)
ENTRY_AND_HEALTH = Image("entry-and-health", entrypoint=("/entry.sh",), healthcheck=CHECK)
NO_SHELL = Image("no-shell", without=("/bin/sh",))
NO_SLEEP = Image("no-sleep", without=("/bin/sleep",))
NEED_AN_IMAGE = (WORKER, GHOST, ENTRY, HEALTH, ENTRY_AND_HEALTH, NO_SHELL, NO_SLEEP)

of_images = pytest.mark.parametrize("kind", WITH_IMAGES, scope="session", indirect=True)
"""For what only an image can have; what has no images must refuse each of these, see the last test."""


# ---- as asked for


def test_entries_are_there_before_the_first_command(start: Start) -> None:
    box = start(entries=(Entry("logs/agent", mode=0o777), Entry("/app/x", b"1")))
    assert ok(box, "stat -c %a /logs/agent; cat /app/x") == "777\n1"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"cpus": 10_000.0}, "asks for 10000 cpus, this (engine|machine) has {0.cpus:g}"),
        ({"memory_mb": 10**9}, "asks for 1000000000 MiB of memory, this (engine|machine) has {0.memory_mb}"),
    ],
    ids=["cpus", "memory"],
)
def test_more_than_there_is(spec: dict[str, Any], message: str, start: Start, sandbox: Sandbox) -> None:
    with pytest.raises(Unsupported, match=message.format(sandbox.capabilities)):
        start(**spec)


@pytest.mark.parametrize("name", ["", "A=B", "A\0"])
def test_variables_of_a_box_that_no_system_can_pass(name: str, start: Start) -> None:
    with unfit("cannot be the name of an environment variable"):
        start(env={name: "x"})


def test_a_box_ends_by_itself(start: Start) -> None:
    box = start(lifetime=0.3)
    with pytest.raises(SandboxFailed, match="the box died"):
        use(box)


def use(box: Box) -> NoReturn:
    """Run commands until that raises."""
    give_up = time.monotonic() + HANG_GUARD
    while time.monotonic() < give_up:
        box.run(["true"])
        time.sleep(0.05)
    pytest.fail("the box is still up")


# ---- what the image says


def test_environment_working_directory_and_files(start: Start) -> None:
    box = start(SETTINGS, env={"B": "2"})
    assert ok(box, "pwd; echo $B; run.sh; echo $PATH") == "/app/deep\n2\none two\n/own:/usr/bin:/bin\n"
    assert box.run(["run.sh"]).stdout == b"one two\n"
    assert ok(box, "pwd", cwd="/") == "/\n"


@of_images
def test_user(start: Start, sandbox: Sandbox) -> None:
    if not sandbox.capabilities.users:
        with pytest.raises(Unsupported, match="the image's USER 'worker'"):
            start(WORKER)
        return
    box = start(WORKER)
    assert ok(box, "id -un; id -G; echo $HOME; pwd; touch /tmp/mine; stat -c %U /tmp/mine") == (
        "worker\n1500 77\n/home/worker\n/w\nworker\n"
    )
    assert ok(box, "id -u", user="root") == ok(box, "id -u", user=0) == "0\n"
    ok(box, "touch /root/mine && chown worker /root/mine", user="root")  # root is root there
    assert box.run(["sleep", "1000"], user="root", timeout=0.3).timed_out
    # users that come to be in the box
    ok(box, "echo late:x:1600:1600::/:/bin/sh >>/etc/passwd", user="root")
    assert ok(box, "id -u", user="late") == "1600\n"


@of_images
def test_user_that_is_not_in_the_image(start: Start, sandbox: Sandbox) -> None:
    if sandbox.capabilities.users:
        with unfit("(the image's USER|user 'ghost') does not exist in "):
            start(GHOST)
    else:
        with pytest.raises(Unsupported, match="the image's USER 'ghost'"):
            start(GHOST)


@of_images
def test_root_file_system_is_writable_and_each_boxes_own(start: Start) -> None:
    one, other = start(), start()
    ok(one, "echo x >/usr/bin/new; rm /usr/bin/env; mv /usr/share /usr/moved; rm -r /opt; mkdir /opt")
    assert sh(other, "ls /usr/bin/new /usr/moved /opt").stdout == b"/opt:\n"
    assert other.stat("/usr/bin/env") is not None


@of_images
def test_image_without_a_shell(start: Start) -> None:
    with unfit(r"the image has no shell \(`sh`\)") as caught:
        start(NO_SHELL)
    assert "distroless" in caught.value.hint


@of_images
def test_image_without_sleep(start: Start) -> None:
    with unfit("the image has no `sleep`"):
        use(start(NO_SLEEP))


def test_missing_image(sandbox: Sandbox, kind: Any) -> None:
    with pytest.raises(ImageUnavailable, match=r"image 'gone' .*is not in"):
        sandbox.start(ImageRef("gone", "sha256:" + "0" * 64), BoxSpec())


# ---- its ENTRYPOINT

HANDS_OVER = '#!/bin/sh\necho "started $#: $1" >>/started\nsleep 1000 &\nshift\nexec "$@"\n'
WAITS = '#!/bin/sh\necho started >>/started\nsleep 1000 &\nshift\n"$@"\n'


def entry(script: str) -> dict[str, Any]:
    return {"entries": (Entry("/entry.sh", script.encode(), 0o755),)}


def services(box: Box) -> int:
    return sh(box, "cat /proc/[0-9]*/cmdline").stdout.count(b"sleep\x001000")


@of_images
def test_entrypoint_that_becomes_its_command(start: Start) -> None:
    box = start(ENTRY, **entry(HANDS_OVER))
    started = box.get("/started", cap=100)
    assert started.startswith(b"started ")
    assert started.endswith(b": an arg\n")
    assert eventually(lambda: services(box) == 1)
    assert box.run(["sleep", "100"], timeout=0.3).timed_out
    assert services(box) == 0
    assert box.get("/started", cap=100) == started  # it is not run again


@of_images
def test_entrypoint_that_waits_for_its_command(start: Start) -> None:
    """It ends when everything is killed, so the box is started again: entry point and files are there."""
    box = start(ENTRY, **entry(WAITS))
    ok(box, "echo work >/work")
    assert box.run(["sleep", "100"], timeout=0.3).timed_out
    assert ok(box, "cat /work /started") == "work\nstarted\nstarted\n"
    assert eventually(lambda: services(box) == 1)
    box.quiesce()
    assert ok(box, "cat /work") == "work\n"


@of_images
def test_entrypoint_runs_as_the_image_says(start: Start) -> None:
    box = start(
        ENTRY,
        **entry('#!/bin/sh\necho "$OWN $HOSTNAME $FROM_BOX" >/seen\nshift\nexec "$@"\n'),
        env={"FROM_BOX": "2"},
    )
    assert ok(box, "cat /seen").split() == ["1", ok(box, "hostname").strip(), "2"]
    assert ok(box, "pwd") == "/w\n"


@of_images
@pytest.mark.parametrize(
    ("script", "code", "printed"),
    [
        ("echo no config >&2; exit 3", 3, "no config"),
        ("echo early; sleep 0.3; exit 4", 4, "early"),
    ],
    ids=["at-once", "later"],
)
def test_entrypoint_that_ends(script: str, code: int, printed: str, start: Start) -> None:
    with pytest.raises(EntrypointExited) as caught:
        use(start(ENTRY, **entry(f"#!/bin/sh\n{script}\n")))
    error = caught.value
    assert error.message == (
        "the image's ENTRYPOINT ended instead of running the command it was given: /entry.sh 'an arg' "
        f"(exit code {code})"
    )
    assert error.hint == 'an ENTRYPOINT script must end with exec "$@"'
    assert printed in error.detail


@of_images
@pytest.mark.parametrize(
    "files", [{}, {"entries": (Entry("/entry.sh", b"#!/bin/sh\n", 0o644),)}, entry("#!/no/such/shell\n")],
    ids=["missing", "mode", "interpreter"],
)  # fmt: skip
def test_entrypoint_that_cannot_be_executed(files: dict[str, Any], start: Start) -> None:
    with unfit("the image's ENTRYPOINT cannot be executed"):
        use(start(ENTRY, **files))


# ---- its HEALTHCHECK


def check(script: str) -> Entry:
    return Entry("/check.sh", script.encode())


@of_images
def test_healthcheck_is_waited_for(start: Start) -> None:
    box = start(HEALTH, entries=(check("test -e /ready || { touch /ready; exit 1; }"),))
    assert box.stat("/ready") is not None


@of_images
def test_healthcheck_that_fails(start: Start) -> None:
    with unfit("the image's HEALTHCHECK failed") as caught:
        start(HEALTH, entries=(check("echo still down; exit 1"),))
    assert caught.value.stage is Stage.HEALTHCHECK
    assert caught.value.detail.startswith("exit code 1: still down")


@of_images
def test_healthcheck_of_a_box_that_ends(start: Start) -> None:
    files = (*entry("#!/bin/sh\nsleep 0.5\n")["entries"], check("exit 1"))
    with pytest.raises(EntrypointExited):
        use(start(ENTRY_AND_HEALTH, entries=files))


# ---- who has no images


@pytest.mark.parametrize("kind", [LOCAL_HOST], scope="session", indirect=True)
@pytest.mark.parametrize("which", NEED_AN_IMAGE, ids=lambda image: image.name)
def test_what_needs_an_image_is_refused(which: Image, image: Callable[[Image], ImageRef]) -> None:
    """By the instruction that asks for it."""
    with pytest.raises(Unsupported, match=r"environment/Dockerfile line \d+: [A-Z]+ .*") as caught:
        image(which)
    assert "the local sandbox over this machine's userland" in caught.value.reason


@pytest.mark.parametrize("kind", [LOCAL_HOST], scope="session", indirect=True)
def test_a_prebuilt_image_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(
        Unsupported, match="image 'some/image': the local sandbox over this machine's userland"
    ):
        sandbox.prepare(ImageSpec(name="some/image"))
