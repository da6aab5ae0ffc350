"""What boxes make of an image: users, entry points, health checks, limits. Against a real engine."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.local_boxes import BASE, needs_users, sh

from pytest_rlenv.errors import EntrypointExited, ImageUnavailable, SandboxFailed, Stage, Unsupported
from pytest_rlenv.sandboxes.docker.client import shared_engine
from pytest_rlenv.sandboxes.docker.failures import EngineRefused
from pytest_rlenv.sandboxes.local import LocalBox, LocalSandbox, prune
from pytest_rlenv.sandboxes.local.bwrap import is_privileged
from pytest_rlenv.sandboxes.protocol import NO_NETWORK, BoxSpec, ImageRef, ImageSpec, SandboxContext

pytestmark = [pytest.mark.docker, pytest.mark.parametrize("mode", ["image"], scope="session", indirect=True)]

Start = Callable[..., LocalBox]
Build = Callable[..., ImageRef]


@pytest.fixture
def build(local: LocalSandbox, tmp_path: Path) -> Iterator[Build]:
    """Build an image from a Dockerfile's text and other files; it is removed with the test."""
    built: list[ImageRef] = []

    def build(dockerfile: str, files: dict[str, str] | None = None) -> ImageRef:
        folder = tmp_path / uuid.uuid4().hex[:8]
        folder.mkdir()
        (folder / "Dockerfile").write_text(f"FROM {BASE}\n{dockerfile}\n# {uuid.uuid4()}\n")
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        image = local.prepare(ImageSpec(context=folder, slug="local test"))
        built.append(image)
        return image

    yield build
    for image in built:
        remove_image(image.name)


def remove_image(name: str) -> None:
    try:
        shared_engine().request("DELETE", f"/images/{name}", params={"force": 1}, doing="clean up")
    except EngineRefused as refused:
        if refused.status != 404:
            raise


def test_env_workdir_and_files(build: Build, start_local: Start) -> None:
    image = build(
        "ENV A=1 PATH=/own:$PATH\nWORKDIR /app/deep\nCOPY run.sh /own/", {"run.sh": "#!/bin/sh\necho $A"}
    )
    box = start_local(image, env={"B": "2"})
    assert sh(box, "pwd; echo $B; run.sh").stdout == b"/app/deep\n2\n1\n"
    assert image.id.startswith("sha256:")


def test_root_file_system_is_writable_and_each_boxes_own(start_local: Start) -> None:
    one, other = start_local(), start_local()
    assert (
        sh(one, "echo x >/usr/bin/new && rm /usr/bin/env && mv /usr/share /usr/moved && rm -r /opt").exit_code
        == 0
    )
    assert sh(other, "ls /usr/bin/new /usr/moved /opt").stdout == b"/opt:\n"
    assert other.stat("/usr/bin/env") is not None


@needs_users
def test_image_user(build: Build, start_local: Start) -> None:
    image = build(
        "RUN useradd -m -u 1500 worker && groupadd -g 77 more && usermod -aG more worker\nUSER worker"
    )
    box = start_local(image)
    assert sh(box, "id -un; id -G; echo $HOME; touch ~/mine; stat -c %U ~/mine").stdout == (
        b"worker\n1500 77\n/home/worker\nworker\n"
    )
    assert sh(box, "id -u", user="root").stdout == b"0\n"
    # users that come to be in the box
    assert sh(box, "useradd -u 1600 late && su late -c 'id -u'", user="root").stdout == b"1600\n"
    assert sh(box, "id -u", user="late").stdout == b"1600\n"


@pytest.mark.skipif(is_privileged(), reason="root has users")
def test_image_user_without_root(build: Build, start_local: Start) -> None:
    image = build("RUN useradd worker\nUSER worker")
    with pytest.raises(Unsupported, match="the image's USER 'worker': the local boxes of a plain user"):
        start_local(image)


@needs_users
def test_owners_and_modes_are_the_images(build: Build, start_local: Start) -> None:
    script = "mkdir /t && touch /t/f && chown 1234:77 /t/f && chmod 4751 /t/f && ln /t/f /t/g && mkfifo /t/p"
    image = build(f"RUN {script} && chmod 1703 /t && ln -s f /t/l && chown -h 9 /t/l")
    box = start_local(image)
    listed = sh(box, "stat -c '%n %a %u:%g %h %F' /t /t/*").stdout.decode().splitlines()
    assert listed == [
        "/t 1703 0:0 2 directory",
        "/t/f 4751 1234:77 2 regular empty file",
        "/t/g 4751 1234:77 2 regular empty file",
        "/t/l 777 9:0 1 symbolic link",
        "/t/p 644 0:0 1 fifo",
    ]


ENTRY = '#!/bin/bash\necho "started $# $1" >>/started\n'


def test_entrypoint_that_becomes_its_command(build: Build, start_local: Start) -> None:
    script = f'{ENTRY}sleep 1000 &\necho log\nexec "$@"\n'
    box = start_local(
        build(
            'COPY e.sh /\nENTRYPOINT ["/e.sh", "arg"]',
            {"e.sh": script.replace('exec "$@"', 'shift; exec "$@"')},
        )
    )
    started = box.get("/started", cap=100)
    assert started.startswith(b"started ")
    assert started.count(b"\n") == 1
    assert b"sleep\x001000" in sh(box, "cat /proc/[0-9]*/cmdline").stdout
    assert box.run(["sleep", "100"], timeout=0.3).timed_out
    assert b"sleep\x001000" not in sh(box, "cat /proc/[0-9]*/cmdline").stdout
    assert box.get("/started", cap=100) == started  # it is not run again


def test_entrypoint_that_waits_for_its_command(build: Build, start_local: Start) -> None:
    """It would end with its command, and a container be started again: so it is run again here."""
    box = start_local(build('COPY e.sh /\nENTRYPOINT ["/e.sh"]', {"e.sh": f'{ENTRY}sleep 1000 &\n"$@"\n'}))
    assert box.get("/started", cap=1000).count(b"started") == 1
    box.quiesce()
    assert box.get("/started", cap=1000).count(b"started") == 2
    assert b"sleep\x001000" in sh(box, "cat /proc/[0-9]*/cmdline").stdout


def test_entrypoint_runs_as_the_image_says(build: Build, start_local: Start) -> None:
    script = '#!/bin/bash\necho "$(pwd) $OWN $HOSTNAME" >/tmp/seen\nexec "$@"\n'
    box = start_local(
        build('ENV OWN=1\nWORKDIR /w\nCOPY e.sh /\nENTRYPOINT ["/e.sh"]', {"e.sh": script}), workdir="/usr"
    )
    assert box.get("/tmp/seen", cap=100).decode().split() == ["/w", "1", box.id]
    assert box.run(["pwd"]).stdout == b"/usr\n"


@pytest.mark.parametrize(
    ("script", "message", "detail"),
    [
        (
            "#!/bin/bash\necho going down\nexit 3\n",
            r"ended instead of running.*/e.sh \(exit code 3\)",
            "going down",
        ),
        ("#!/bin/bash\nsleep 0.3\nkill -9 $$\n", r"exit code 137", ""),
        ("#!/no/such/shell\n", "cannot be executed: .*names an interpreter", ""),
    ],
)
def test_entrypoint_that_ends(
    script: str, message: str, detail: str, build: Build, start_local: Start
) -> None:
    image = build('COPY e.sh /\nENTRYPOINT ["/e.sh"]', {"e.sh": script})
    with pytest.raises(EntrypointExited, match=message) as caught:
        start_local(image)
    assert detail in caught.value.detail


def test_healthcheck_is_waited_for(build: Build, start_local: Start) -> None:
    script = '#!/bin/bash\n(sleep 0.7; touch /ready) &\nexec "$@"\n'
    check = "HEALTHCHECK --interval=1s CMD test -e /ready"
    box = start_local(build(f'COPY e.sh /\nENTRYPOINT ["/e.sh"]\n{check}', {"e.sh": script}))
    assert box.stat("/ready") is not None


def test_healthcheck_that_fails(build: Build, start_local: Start) -> None:
    image = build("HEALTHCHECK --interval=100ms --retries=2 CMD echo not yet; false")
    with pytest.raises(SandboxFailed, match="HEALTHCHECK failed") as caught:
        start_local(image)
    assert caught.value.stage is Stage.HEALTHCHECK
    assert caught.value.detail == "exit code 1: not yet\nexit code 1: not yet"


def test_image_without_a_shell(build: Build, start_local: Start) -> None:
    image = build("RUN true\nFROM scratch\nCOPY x /x", {"x": "x"})
    with pytest.raises(SandboxFailed, match=r"the image has no shell \(`sh`\)"):
        start_local(image)


def test_missing_image(local: LocalSandbox) -> None:
    with pytest.raises(ImageUnavailable):
        local.prepare(ImageSpec(name="rlenv-no-such-image:none"))
    with pytest.raises(ImageUnavailable, match="is not in"):
        local.start(ImageRef("gone", "sha256:" + "0" * 64), BoxSpec())


def test_memory_limit(start_local: Start) -> None:
    box = start_local(memory_mb=64)
    done = box.run(["tail", "/dev/zero"], timeout=60)
    hidden = sh(box, "tail /dev/zero | cat; true", timeout=60)
    assert hidden.exit_code == 0
    if is_privileged() and done.oom_killed is not None:
        assert (done.exit_code, done.oom_killed, hidden.oom_killed) == (137, True, True)
    else:  # per process: it is refused the memory
        assert (done.exit_code, done.oom_killed) == (1, None)
        assert b"memory exhausted" in done.stderr
    later = box.run(["true"])
    assert (later.exit_code, later.oom_killed or False) == (0, False)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"cpus": 10_000.0}, "task asks for 10000 cpus, this machine has"),
        ({"memory_mb": 10**9}, "task asks for 1000000000 MiB of memory, this machine has"),
        ({"network": "allowlist"}, "network mode 'allowlist', the local sandbox has no-network, public"),
    ],
)
def test_more_than_there_is(spec: dict[str, Any], message: str, start_local: Start) -> None:
    with pytest.raises(Unsupported, match=message):
        start_local(**spec)


def test_cached_image_needs_no_engine(
    local: LocalSandbox,
    local_context: SandboxContext,
    build: Build,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "context"
    folder.mkdir()
    (folder / "Dockerfile").write_text(f"FROM {BASE}\nRUN echo {uuid.uuid4()} >/built\n")
    image = local.prepare(ImageSpec(context=folder))
    try:
        monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
        other = LocalSandbox(local_context)
        assert "host userland" in other.describe()
        assert other.prepare(ImageSpec(context=folder)).id == image.id
        with pytest.raises(Unsupported, match="image 'never-seen': no Docker engine answers"):
            other.prepare(ImageSpec(name="never-seen"))
        box = other.start(image, BoxSpec(network=NO_NETWORK))
        assert box.stat("/built") is not None
        (folder / "Dockerfile").write_text(f"FROM {BASE}\nRUN echo other\n")
        with pytest.raises(Unsupported, match=r"context/Dockerfile line 2: RUN echo other: .* runs no RUN"):
            other.prepare(ImageSpec(context=folder))
        other.close()
    finally:
        monkeypatch.undo()
        remove_image(image.name)


def test_one_extraction_however_many_ask(tmp_path: Path, mode: str) -> None:
    """From several threads of several sandboxes; and an image in use is not pruned."""
    context = SandboxContext("s", "gw0", tmp_path / "cache", tmp_path / "run")
    sandboxes = [LocalSandbox(context) for _ in range(3)]
    images: list[ImageRef] = []
    threads = [
        threading.Thread(target=lambda s=each: images.append(s.prepare(ImageSpec(name=BASE))))
        for each in sandboxes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({image.id for image in images}) == 1
    assert len(list((tmp_path / "cache/rootfs").glob("*/config.json"))) == 1
    assert prune(tmp_path / "cache", 0) == 0
    for sandbox in sandboxes:
        sandbox.close()
    assert prune(tmp_path / "cache", 3600) == 0
    assert prune(tmp_path / "cache", 0) == 1
    assert [each.name for each in (tmp_path / "cache/rootfs").iterdir()] == ["names"]
