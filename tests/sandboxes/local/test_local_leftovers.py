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
from support.boxes import eventually, sh

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.local import LocalBox, LocalSandbox
from pytest_rlenv.sandboxes.local._removal import remove_tree
from pytest_rlenv.sandboxes.local.cgroups import find_cgroups
from pytest_rlenv.sandboxes.local.places import bases, sweep
from pytest_rlenv.sandboxes.model import NO_NETWORK, BoxSpec, ImageRef, ImageSpec, SandboxContext
from pytest_rlenv.sandboxes.owners import Owner

Start = Callable[..., LocalBox]

OWNER = """
import sys, time
from pathlib import Path
from pytest_rlenv.sandboxes.local.sandbox import HostSandbox
from pytest_rlenv.sandboxes.model import NO_NETWORK, BoxSpec, ImageSpec, SandboxContext
base, mark = Path(sys.argv[1]), sys.argv[2]
sandbox = HostSandbox(SandboxContext("s", "gw0", base / "cache", base / "run"))
image = sandbox.prepare(ImageSpec(context=base / "environment"))
box = sandbox.start(image, BoxSpec(network=NO_NETWORK, memory_mb=512))
box.run(["sh", "-c", f"mkdir -m 0 /locked; setsid sleep {mark} >/dev/null 2>&1 &"])
print(sandbox._parts().boxes._launcher._process.pid, flush=True)
time.sleep(1000)
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return new_base(tmp_path)


def new_base(folder: Path) -> Path:
    (folder / "environment").mkdir(parents=True)
    (folder / "environment" / "Dockerfile").write_text("FROM x\n")
    return folder


def marked(mark: str) -> list[str]:
    """Processes of boxes that sleep for as long as the mark says."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if f"sleep\0{mark}\0".encode() in line:
                found.append(folder.name)
    return found


def has_ended(pid: int) -> bool:
    """Say whether a process has ended, though whoever inherited it may not have noticed yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def boxes_of(base: Path) -> list[Path]:
    return list((base / "cache" / "boxes").iterdir())


def groups_of(pid: int) -> list[Path]:
    return [
        each
        for parent in find_cgroups(f"rlenv-probe-{os.getpid()}").folders()
        for each in parent.iterdir()
        if each.name.startswith("rlenv-") and (owner := Owner.parse(each.name)) and owner.pid == pid
    ]


class Owning:
    """Another process that owns a box in which something sleeps."""

    def __init__(self, folder: Path, mark: str) -> None:
        self.base, self.mark = new_base(folder), mark
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(self.base), mark],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        )

    def wait_until_up(self) -> None:
        assert self.process.stdout is not None
        self.launcher = int(self.process.stdout.readline())
        assert eventually(lambda: len(marked(self.mark)) == 1)  # its shell may be back first
        assert len(boxes_of(self.base)) == 1

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


DEATHS = {
    "owner-killed": ("owner", signal.SIGKILL),
    "owner-terminated": ("owner", signal.SIGTERM),
    "owner-interrupted": ("owner", signal.SIGINT),
    "launcher-killed": ("launcher", signal.SIGKILL),  # it ignores all other signals
}


def test_deaths(tmp_path: Path) -> None:
    """Of the owner: all goes. Of the launcher: the boxes die with it, their files at the next start."""
    owners: dict[str, Owning] = {}
    try:
        for number, name in enumerate(DEATHS):  # all at once: their start takes longest
            owners[name] = Owning(tmp_path / name, f"9753{number}")
        for owner in owners.values():
            owner.wait_until_up()
        for name, (victim, how) in DEATHS.items():
            owner = owners[name]
            os.kill(owner.process.pid if victim == "owner" else owner.launcher, how)
        for name, (victim, _) in DEATHS.items():
            owner = owners[name]
            if victim == "owner":
                owner.process.wait()
            assert eventually(lambda: not marked(owner.mark)), name  # noqa: B023 - asked for at once
            if victim == "launcher":
                owner.end()
                sweep(owner.base / "cache" / "boxes")
            assert eventually(lambda: not boxes_of(owner.base)), name  # noqa: B023
            assert eventually(lambda: has_ended(owner.launcher)), name  # noqa: B023
            if victim == "owner":
                assert eventually(lambda: not groups_of(owner.process.pid)), name  # noqa: B023
    finally:
        for owner in owners.values():
            owner.end()


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
    others = groups_of(os.getpid())
    wrong = replace(parts.setup, binary=replace(parts.setup.binary, path=Path("/bin/false")))
    monkeypatch.setattr(parts.boxes, "_setup", wrong)
    with pytest.raises(SandboxFailed, match="bubblewrap could not start the box"):
        local.start(image, BoxSpec(network=NO_NETWORK))
    monkeypatch.undo()
    left = [each for owner in (local_context.cache_dir / "boxes").iterdir() for each in owner.iterdir()]
    assert left == []
    assert groups_of(os.getpid()) == others


def test_destroyed_box_leaves_nothing(start_local: Start, local_context: SandboxContext) -> None:
    others = groups_of(os.getpid())
    box = start_local(memory_mb=256)
    sh(box, "mkdir -p /a/b && touch /a/b/c && chmod 0 /a/b /a; setsid sleep 97539 >/dev/null 2>&1 &")
    box.destroy()
    folders = local_context.cache_dir / "boxes"
    assert eventually(lambda: not [each for owner in folders.iterdir() for each in owner.iterdir()])
    assert marked("97539") == []
    assert groups_of(os.getpid()) == others


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
