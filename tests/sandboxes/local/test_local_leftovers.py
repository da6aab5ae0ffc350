"""Nothing is left: after use, after a failure, and after the death of whoever started boxes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.local_boxes import eventually, sh

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.local import LocalBox, LocalSandbox
from pytest_rlenv.sandboxes.local._removal import remove_tree
from pytest_rlenv.sandboxes.local.cgroups import find_cgroups
from pytest_rlenv.sandboxes.local.places import Owner, bases, sweep
from pytest_rlenv.sandboxes.protocol import NO_NETWORK, BoxSpec, ImageRef, ImageSpec, SandboxContext

Start = Callable[..., LocalBox]

OWNER = """
import os, sys, time
from pathlib import Path
os.environ["DOCKER_HOST"] = "unix:///nowhere"
from pytest_rlenv.sandboxes.local import LocalSandbox
from pytest_rlenv.sandboxes.protocol import NO_NETWORK, BoxSpec, ImageSpec, SandboxContext
base = Path(sys.argv[1])
sandbox = LocalSandbox(SandboxContext("s", "gw0", base / "cache", base / "run"))
image = sandbox.prepare(ImageSpec(context=base / "environment"))
box = sandbox.start(image, BoxSpec(network=NO_NETWORK, memory_mb=512))
box.run(["sh", "-c", "mkdir -m 0 /locked; setsid sleep 97531 >/dev/null 2>&1 &"])
print(sandbox._parts().boxes._launcher._process.pid, flush=True)
time.sleep(1000)
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "Dockerfile").write_text("FROM x\n")
    return tmp_path


def marked() -> list[str]:
    """Processes of the boxes of an owner, and its launcher."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if b"sleep\x0097531" in line:
                found.append(folder.name)
    return found


def boxes_of(base: Path) -> list[Path]:
    return list((base / "cache" / "boxes").iterdir())


def groups_of(pid: int) -> list[Path]:
    return [
        each
        for parent in find_cgroups(f"rlenv-probe-{os.getpid()}").folders()
        for each in parent.iterdir()
        if each.name.startswith("rlenv-") and (owner := Owner.parse(each.name)) and owner.pid == pid
    ]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("victim", ["owner", "launcher"])
def test_death(victim: str, number: signal.Signals, base: Path) -> None:
    """Of the owner: all goes. Of the launcher: the boxes die with it, their files at the next start."""
    if victim == "launcher" and number is not signal.SIGKILL:
        pytest.skip("it ignores all others")
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(base)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )
    try:
        assert owner.stdout is not None
        launcher = int(owner.stdout.readline())
        assert eventually(lambda: len(marked()) == 1)  # its shell may be back first
        assert len(boxes_of(base)) == 1
        if victim == "owner":
            owner.send_signal(number)
            owner.wait()
        else:
            os.kill(launcher, number)
        assert eventually(lambda: not marked())
        if victim == "launcher":
            owner.kill()
            owner.wait()
            sweep(base / "cache" / "boxes")
        assert eventually(lambda: not boxes_of(base))
    finally:
        owner.kill()
        owner.communicate()
    assert eventually(lambda: not Path(f"/proc/{launcher}").exists())
    if victim == "owner":
        assert eventually(lambda: not groups_of(owner.pid))


def test_launcher_killed_under_a_box(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    sandbox = LocalSandbox(SandboxContext("s", "gw0", base / "cache", base / "run"))
    image = sandbox.prepare(ImageSpec(context=base / "environment"))
    box = sandbox.start(image, BoxSpec(network=NO_NETWORK))
    launcher = sandbox._parts().boxes._launcher
    assert launcher is not None
    launcher._process.kill()
    assert eventually(lambda: box._namespace.is_dead())
    with pytest.raises(SandboxFailed, match="the box died"):
        box.run(["true"])
    with pytest.raises(SandboxFailed, match="the process that starts commands in local boxes is gone"):
        sandbox.start(image, BoxSpec(network=NO_NETWORK))
    sandbox.close()
    assert boxes_of(base) == []


def test_box_that_does_not_start_leaves_nothing(
    local: LocalSandbox, image: ImageRef, local_context: SandboxContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = local._parts()
    assert eventually(lambda: not parts.boxes._up)
    wrong = replace(parts.setup, binary=replace(parts.setup.binary, path=Path("/bin/false")))
    monkeypatch.setattr(parts.boxes, "_setup", wrong)
    with pytest.raises(SandboxFailed, match="bubblewrap could not start the box"):
        local.start(image, BoxSpec(network=NO_NETWORK))
    monkeypatch.undo()
    left = [each for owner in (local_context.cache_dir / "boxes").iterdir() for each in owner.iterdir()]
    assert left == []
    assert groups_of(os.getpid()) == []


def test_destroyed_box_leaves_nothing(start_local: Start, local_context: SandboxContext) -> None:
    box = start_local(memory_mb=256)
    sh(box, "mkdir -p /a/b && touch /a/b/c && chmod 0 /a/b /a; setsid sleep 97531 >/dev/null 2>&1 &")
    box.destroy()
    folders = local_context.cache_dir / "boxes"
    assert eventually(lambda: not [each for owner in folders.iterdir() for each in owner.iterdir()])
    assert marked() == []
    assert groups_of(os.getpid()) == []


def test_close_with_a_box_up(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    sandbox = LocalSandbox(SandboxContext("s", "gw0", base / "cache", base / "run"))
    box = sandbox.start(sandbox.prepare(ImageSpec(context=base / "environment")), BoxSpec(network=NO_NETWORK))
    sandbox.close()
    sandbox.close()
    assert boxes_of(base) == []
    with pytest.raises(SandboxFailed, match="the box was destroyed"):
        box.run(["true"])


def test_sweep_leaves_the_living_alone(tmp_path: Path) -> None:
    me = Owner.me()
    kept = [
        me.new_name(),
        replace(me, machine="0" * 8).new_name(),
        replace(me, namespace="0" * 8).new_name(),
        "other",
    ]
    gone = [replace(me, start="1").new_name(), replace(me, boot="0" * 8).new_name()]
    for name in (*kept, *gone):
        (tmp_path / name / "1").mkdir(parents=True)
    assert sweep(tmp_path) == len(gone)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(kept)


def test_sweep_takes_what_nobody_can_be_asked_about_when_it_is_old(tmp_path: Path) -> None:
    folder = tmp_path / replace(Owner.me(), machine="0" * 8).new_name()
    folder.mkdir()
    os.utime(folder, (0, 0))
    assert sweep(tmp_path) == 1


def test_owner_is_read_back() -> None:
    me = Owner.me()
    assert Owner.parse(me.new_name()) == me
    assert Owner.parse(f"rlenv-{me.new_name()}-probe") == me
    assert me.is_gone() is False
    assert [Owner.parse(each) for each in ("", "x", "a-b-c-d-e-f", "1")] == [None] * 4


def test_base_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "boxes").mkdir(mode=0o777)
    (tmp_path / "boxes").chmod(0o777)
    assert tmp_path / "boxes" not in list(bases(tmp_path))
    (tmp_path / "boxes").chmod(0o700)
    assert next(bases(tmp_path)) == tmp_path / "boxes"


def test_removal_follows_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("x")
    outside.chmod(0o750)
    tree = tmp_path / "tree"
    (tree / "locked" / "deep").mkdir(parents=True)
    (tree / "locked" / "deep" / "link").symlink_to(outside)
    (tree / "link").symlink_to(outside)
    (tree / "locked").chmod(0)
    remove_tree(tree)
    assert not tree.exists()
    assert (outside / "file").read_text() == "x"
    assert outside.stat().st_mode & 0o777 == 0o750
    remove_tree(tree)  # nothing there
