"""The parts of the local sandbox that need no box."""

from __future__ import annotations

import io
import os
import struct
import tarfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.local_boxes import pruned_images
from support.no_engine import hide_engine

from pytest_rlenv.errors import DiskFull, EngineUnavailable, SandboxFailed, StageTimeout, Unsupported
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.local import LocalSandbox, bwrap, seccomp
from pytest_rlenv.sandboxes.local.bwrap import is_privileged
from pytest_rlenv.sandboxes.local.cgroups import Cgroups, Group, find_in, make_group
from pytest_rlenv.sandboxes.local.extract import extract
from pytest_rlenv.sandboxes.local.health import wait_healthy
from pytest_rlenv.sandboxes.local.imageconfig import HealthCheck, ImageConfig
from pytest_rlenv.sandboxes.local.launcher import parse_status
from pytest_rlenv.sandboxes.local.limits import describe_limits
from pytest_rlenv.sandboxes.local.rootfs import RootfsCache
from pytest_rlenv.sandboxes.local.sandbox import HostSandbox
from pytest_rlenv.sandboxes.local.users import User, find_user, is_root
from pytest_rlenv.sandboxes.model import BuildOptions, Completed, ImageRef, ImageSpec, SandboxContext

# ---- users

PASSWD = b"""root:x:0:0:root:/root:/bin/sh
broken
ann:x:1000:100::/home/ann:/bin/sh
:x:1:1:::
bad:x:y:0::/:/
none:x:5:5:::
"""
GROUP = b"root:x:0:\nmore:x:77:bob,ann\nusers:x:100:\nonly:x:78:ann\n"


def read(path: str) -> bytes | None:
    return {"/etc/passwd": PASSWD, "/etc/group": GROUP}[path]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, User(0, 0, (0,), "/root")),
        ("", User(0, 0, (0,), "/root")),
        ("root", User(0, 0, (0,), "/root")),
        ("ann", User(1000, 100, (100, 77, 78), "/home/ann")),
        (1000, User(1000, 100, (100, 77, 78), "/home/ann")),
        ("ann:more", User(1000, 77, (77,), "/home/ann")),
        ("ann:5", User(1000, 5, (5,), "/home/ann")),
        (4321, User(4321, 0, (0,), "/")),
        ("4321:more", User(4321, 77, (77,), "/")),
        ("none", User(5, 5, (5,), "/")),
        ("ann:", User(1000, 100, (100, 77, 78), "/home/ann")),
        (":5", User(0, 5, (5,), "/root")),
    ],
)
def test_users(spec: str | int | None, expected: User) -> None:
    assert find_user(spec, read) == expected


@pytest.mark.parametrize("spec", ["ghost", "bad", "broken", "ann:ghosts", "²", 2**31, "ann:2147483648", -1])
def test_unknown_users(spec: str) -> None:
    with pytest.raises(SandboxFailed, match="does not exist in the image"):
        find_user(spec, read)


def test_users_of_a_box_without_files() -> None:
    assert find_user(0, lambda _: None) == User(0, 0, (0,), "/")
    with pytest.raises(SandboxFailed):
        find_user("ann", lambda _: None)


def test_words_for_root() -> None:
    assert all(map(is_root, (None, "", 0, "0", "root", "0:0")))
    assert not any(map(is_root, ("ann", 1, "1", "0:1", "rootless")))


# ---- control groups


def tree(base: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text(text)


V2_MOUNT = "29 1 0:25 / {base} rw - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "30 1 0:26 / {base}/memory rw shared:9 - cgroup cgroup rw,memory\n"
    "31 1 0:27 /docker/x {base}/pids rw - cgroup cgroup rw,pids\n"
    "32 1 0:28 / {base}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "33 1 0:29 / {base}/unified rw - cgroup2 cgroup2 rw\n"
)


def test_version_2_uses_the_nearest_group_that_can_have_limited_children(tmp_path: Path) -> None:
    slices = {
        "cgroup.procs": "",
        "cgroup.subtree_control": "memory pids cpu",
        "user.slice/cgroup.procs": "",
        "user.slice/cgroup.subtree_control": "cpu memory pids",
        "user.slice/session.scope/cgroup.procs": "1",
        "user.slice/session.scope/cgroup.subtree_control": "",
    }
    tree(tmp_path, slices)
    found = find_in(V2_MOUNT.format(base=tmp_path), "0::/user.slice/session.scope\n", "probe")
    assert found.unified
    assert set(found.parents) == {"memory", "pids", "cpu"}
    assert found.folders() == [tmp_path / "user.slice"]


def test_version_2_without_controllers_has_nothing(tmp_path: Path) -> None:
    tree(tmp_path, {"cgroup.procs": "1", "cgroup.subtree_control": ""})
    assert find_in(V2_MOUNT.format(base=tmp_path), "0::/\n", "probe") == Cgroups()


def test_version_1_uses_ones_own_group_below_what_is_mounted(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {f"{name}/cgroup.procs": "" for name in ("memory/own", "pids/inner", "cpu,cpuacct/own", "unified")},
    )
    own = "9:memory:/own\n8:pids:/docker/x/inner\n1:cpu,cpuacct:/own\n0::/\n"
    found = find_in(V1_MOUNTS.format(base=tmp_path), own, "probe")
    assert found == Cgroups(
        {
            "memory": tmp_path / "memory/own",
            "pids": tmp_path / "pids/inner",
            "cpu": tmp_path / "cpu,cpuacct/own",
        }
    )


@pytest.mark.parametrize(("mounts", "own"), [("", ""), ("", "0::/\n"), (V2_MOUNT, ""), ("x y z\n", "0::/\n")])
def test_no_control_groups(mounts: str, own: str, tmp_path: Path) -> None:
    assert find_in(mounts.format(base=tmp_path), own, "probe") == Cgroups()


def made(folder: Path) -> dict[str, str]:
    return {str(each.relative_to(folder)): each.read_text() for each in folder.rglob("*") if each.is_file()}


def test_limits_of_version_2(tmp_path: Path) -> None:
    cgroups = Cgroups(dict.fromkeys(("memory", "pids", "cpu"), tmp_path), unified=True)
    group = make_group(cgroups, "box", memory_mb=2, cpus=0.5, pids=9)
    assert made(tmp_path) == {"box/pids.max": "9", "box/memory.max": "2097152", "box/cpu.max": "50000 100000"}
    assert group.procs("pids", "memory") == [os.fsencode(tmp_path / "box/cgroup.procs")]


def test_limits_of_version_1(tmp_path: Path) -> None:
    parents = {name: tmp_path / name for name in ("memory", "pids", "cpu")}
    for parent in parents.values():
        parent.mkdir()
    group = make_group(Cgroups(parents), "box", memory_mb=2, cpus=1.5, pids=9)
    assert made(tmp_path) == {
        "pids/box/pids.max": "9",
        "memory/box/memory.limit_in_bytes": "2097152",
        "cpu/box/cpu.cfs_period_us": "100000",
        "cpu/box/cpu.cfs_quota_us": "150000",
    }
    assert len(group.procs("memory", "cpu")) == 2
    assert make_group(Cgroups(parents), "other", memory_mb=None, cpus=None, pids=9).folders == {
        "pids": tmp_path / "pids/other"
    }


@pytest.mark.parametrize(
    ("unified", "name", "text", "expected"),
    [
        (False, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", 3),
        (True, "memory.events", "low 0\noom 5\noom_kill 2\noom_group_kill 0\n", 2),
        (True, "memory.events", "low 0\n", None),
        (True, "other", "", None),
    ],
)
def test_count_of_processes_killed_for_memory(
    unified: bool, name: str, text: str, expected: int | None, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    assert Group({"memory": tmp_path}, unified).out_of_memory() == expected


def test_what_is_held_less_is_said() -> None:
    everything = Cgroups(dict.fromkeys(("memory", "pids", "cpu"), Path("/x")))
    assert describe_limits(everything, privileged=True) == []
    lacking = describe_limits(Cgroups(), privileged=True)
    assert ["memory" in lacking[0], "cpu" in lacking[1], "processes" in lacking[2]] == [True] * 3
    assert len(describe_limits(Cgroups(), privileged=False)) == 2


# ---- extracted images


def archive(*members: tuple[str, dict[str, Any], bytes | None]) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, fields, content in members:
            info = tarfile.TarInfo(name)
            for key, value in fields.items():
                setattr(info, key, value)
            info.size = len(content or b"")
            tar.addfile(info, io.BytesIO(content) if content is not None else None)
    stream.seek(0)
    return stream


FOLDER, LINK = {"type": tarfile.DIRTYPE, "mode": 0o755}, {"type": tarfile.SYMTYPE}


def test_extraction(tmp_path: Path) -> None:
    stream = archive(
        ("locked", {**FOLDER, "mode": 0o555, "mtime": 5}, None),
        ("locked/file", {"mode": 0o4750, "mtime": 7}, b"content"),
        ("locked/second", {"type": tarfile.LNKTYPE, "linkname": "locked/file"}, None),
        ("./parents/are/made", {}, b"x"),
        ("link", {**LINK, "linkname": "/etc/passwd"}, None),
        ("pipe", {"type": tarfile.FIFOTYPE}, None),
        ("dev/null", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}, None),
    )
    extract(stream, tmp_path / "root", owners=False)
    root = tmp_path / "root"
    assert (root / "locked/file").read_bytes() == b"content"
    assert (root / "locked/file").stat().st_mode & 0o7777 == 0o4750
    assert (root / "locked/second").samefile(root / "locked/file")
    assert (root / "locked").stat().st_mode & 0o7777 == 0o555
    assert ((root / "locked").stat().st_mtime, (root / "locked/file").stat().st_mtime) == (5, 7)
    assert str((root / "link").readlink()) == "/etc/passwd"
    assert (root / "pipe").is_fifo()
    assert not (root / "dev/null").exists()
    (root / "locked").chmod(0o755)


@pytest.mark.parametrize(
    "members",
    [
        [("../x", {}, b"")],
        [("a/../../x", {}, b"")],
        [("link", {**LINK, "linkname": "/tmp"}, None), ("link/x", {}, b"")],
        [("d", FOLDER, None), ("d/l", {**LINK, "linkname": ".."}, None), ("d/l/deep/x", {}, b"")],
        [("x", {"type": tarfile.LNKTYPE, "linkname": "../../etc/passwd"}, None)],
        [
            ("l", {**LINK, "linkname": "/etc"}, None),
            ("x", {"type": tarfile.LNKTYPE, "linkname": "l/passwd"}, None),
        ],
    ],
)
def test_extraction_stays_in_its_folder(members: list[Any], tmp_path: Path) -> None:
    with pytest.raises(SandboxFailed, match="outside of its root"):
        extract(archive(*members), tmp_path / "deep" / "root", owners=False)
    assert not (tmp_path / "deep" / "x").exists()


def test_extraction_in_time(tmp_path: Path) -> None:
    with pytest.raises(StageTimeout):
        extract(archive(("x", {}, b"")), tmp_path / "root", owners=False, deadline=time.monotonic() - 1)


def test_extraction_of_rubbish(tmp_path: Path) -> None:
    with pytest.raises(SandboxFailed, match="broken root file system"):
        extract(io.BytesIO(b"no tar" * 1000), tmp_path / "root", owners=False)


def test_extraction_to_a_full_disk(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")

    class Full(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(28, "No space left on device")

    with pytest.raises(DiskFull, match="cannot extract the image: no space left"):
        extract(Full(), tmp_path / "root", owners=False)


CONFIG = ImageConfig({"A": "1"}, "/w", "u", ("x", "y"), HealthCheck(("t",), retries=2))


def fill(root: Path) -> ImageConfig:
    root.mkdir(parents=True)
    (root / "file").write_text("x")
    return CONFIG


def test_cache_of_extracted_images(tmp_path: Path) -> None:
    cache = RootfsCache(tmp_path, owners=True)
    assert cache.find("sha256:1") is None
    found = cache.find_or_add("sha256:1", fill, timeout=None)
    assert (found.root / "file").read_text() == "x"
    other = RootfsCache(tmp_path, owners=True)
    again = other.find("sha256:1")
    assert again == found
    assert again.config == CONFIG
    assert RootfsCache(tmp_path, owners=False).find("sha256:1") is None
    cache.close()
    other.close()


def test_failed_extraction_leaves_nothing(tmp_path: Path) -> None:
    def fail(root: Path) -> ImageConfig:
        root.mkdir(parents=True)
        raise DiskFull("full")

    cache = RootfsCache(tmp_path, owners=True)
    with pytest.raises(DiskFull):
        cache.find_or_add("sha256:1", fail, timeout=None)
    assert [each.name for each in (tmp_path / "rootfs").iterdir() if not each.name.endswith(".lock")] == []
    assert cache.find_or_add("sha256:1", fill, timeout=None).config == CONFIG
    cache.close()


def test_names_are_remembered_while_their_image_is_here(tmp_path: Path) -> None:
    cache = RootfsCache(tmp_path, owners=True)
    cache.find_or_add("sha256:1", fill, timeout=None)
    image = ImageRef("name", "sha256:1")
    assert cache.recall("name:x") is None
    cache.remember("name:x", image)
    cache.remember("name:x", image)
    assert cache.recall("name:x") == image
    cache.close()
    assert pruned_images(tmp_path, 0) == 1
    assert cache.recall("name:x") is None
    assert pruned_images(tmp_path, 0) == 0
    assert list((tmp_path / "rootfs/names").iterdir()) == []


def test_prune_by_age(tmp_path: Path) -> None:
    cache = RootfsCache(tmp_path, owners=True)
    for number in "12":
        cache.find_or_add(f"sha256:{number}", fill, timeout=None)
    cache.close()
    os.utime(tmp_path / "rootfs/1/used", (0, 0))
    assert pruned_images(tmp_path, 3600) == 1
    assert not (tmp_path / "rootfs/1").exists()
    assert (tmp_path / "rootfs/2").exists()
    assert pruned_images(tmp_path / "nowhere", 0) == 0


def test_image_in_use_is_not_pruned(tmp_path: Path) -> None:
    cache = RootfsCache(tmp_path, owners=True)
    cache.find_or_add("sha256:1", fill, timeout=None)
    assert pruned_images(tmp_path, 0) == 0
    cache.close()
    assert pruned_images(tmp_path, 0) == 1


def test_one_fills_while_others_wait(tmp_path: Path) -> None:
    calls = []

    def slow(root: Path) -> ImageConfig:
        calls.append(1)
        time.sleep(0.2)
        return fill(root)

    caches = [RootfsCache(tmp_path, owners=True) for _ in range(4)]
    threads = [
        threading.Thread(target=lambda c=cache: c.find_or_add("sha256:1", slow, timeout=None))
        for cache in caches
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1]
    assert all(cache.find("sha256:1") for cache in caches)
    for cache in caches:
        cache.close()


# ---- what an image says


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ({}, None),
        ({"Test": ["NONE"]}, None),
        ({"Test": ["CMD", "a", "b"]}, HealthCheck(("a", "b"))),
        (
            {
                "Test": ["CMD-SHELL", "a b"],
                "Interval": 10**9,
                "Timeout": 2 * 10**9,
                "StartPeriod": 10**8,
                "Retries": 5,
            },
            HealthCheck(("/bin/sh", "-c", "a b"), 1.0, 2.0, 0.1, 5),
        ),
    ],
)
def test_healthcheck_of_an_image(described: dict[str, Any], expected: HealthCheck | None) -> None:
    assert HealthCheck.of(described) == expected


def test_config_of_an_image() -> None:
    inspected = {
        "Config": {"Env": ["A=1=2", "B="], "WorkingDir": "", "User": None, "Entrypoint": ["x"], "Cmd": ["y"]}
    }
    config = ImageConfig.of(inspected)
    assert config == ImageConfig({"A": "1=2", "B": ""}, "/", "", ("x",))
    assert ImageConfig.from_json(config.as_json()) == config
    assert ImageConfig.of({}) == ImageConfig()


@pytest.mark.parametrize(
    ("codes", "calls"),
    [([0], 1), ([1, 1, 1, 0], 4), ([1] * 99, None)],
)
def test_health(codes: list[int], calls: int | None) -> None:
    # a start period that a loaded machine does not use up, where success is what comes at its end
    check = HealthCheck(("t",), interval=0.02, start_period=0.1 if calls is None else 60, retries=2)
    asked: list[float] = []

    def run(argv: tuple[str, ...], timeout: float) -> Completed:
        asked.append(time.monotonic())
        return Completed(codes[len(asked) - 1], output=b"said")

    if calls is None:
        with pytest.raises(SandboxFailed, match="HEALTHCHECK failed"):
            wait_healthy(check, run)
        # failures in the start period do not count
        assert sum(each >= asked[0] + check.start_period for each in asked) == check.retries
    else:
        wait_healthy(check, run)
        assert len(asked) == calls


# ---- the launcher's words


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", None),
        (b"X 0\n", ("", 0)),
        (b"E exec 2\nX 126\n", ("exec", 2)),
        (b"X 126\nE exec 2\n", ("exec", 2)),
        (b"rubbish\nX 3\n", ("", 3)),
    ],
)
def test_status(data: bytes, expected: tuple[str, int] | None) -> None:
    assert parse_status(data) == expected


# ---- the system call filter


def decide(code: bytes, number: int, architecture: int, argument: int = 0) -> int:
    """Run a filter as the kernel does."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, argument, 0, 0, 0, 0, 0)
    steps = list(struct.iter_unpack("=HBBI", code))
    at, value = 0, 0
    while True:
        operation, jump_true, jump_false, operand = steps[at]
        at += 1
        if operation == 0x06:
            return operand
        if operation == 0x20:
            (value,) = struct.unpack_from("=I", data, operand)
            continue
        holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[operation]
        at += jump_true if holds else jump_false


ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
X86_64, I386, AARCH64 = 0xC000003E, 0x40000003, 0xC00000B7


@pytest.mark.parametrize(
    ("machine", "cases"),
    [
        (
            "x86_64",
            [
                (X86_64, 0, 0, ALLOW),
                (X86_64, 59, 0, ALLOW),
                (X86_64, 321, 0, EPERM),
                (X86_64, 56, 0x11, ALLOW),
                (X86_64, 56, 0x10000011, EPERM),
                (X86_64, 272, 0x00020000, ALLOW),
                (X86_64, 272, 0x10000000, EPERM),
                (X86_64, 435, 0, ENOSYS),
                (X86_64, 0x40000001, 0, ENOSYS),
                (I386, 11, 0, ALLOW),
                (I386, 321, 0, ALLOW),
                (I386, 357, 0, EPERM),
                (I386, 120, 0x10000000, EPERM),
                (AARCH64, 0, 0, ENOSYS),
            ],
        ),
        (
            "aarch64",
            [
                (AARCH64, 280, 0, EPERM),
                (AARCH64, 220, 0x10000000, EPERM),
                (AARCH64, 1, 0, ALLOW),
                (X86_64, 1, 0, ENOSYS),
            ],
        ),
    ],
)
def test_filter(
    machine: str, cases: list[tuple[int, int, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seccomp.platform, "machine", lambda: machine)
    code = seccomp.program.__wrapped__()
    for architecture, number, argument, expected in cases:
        assert decide(code, number, architecture, argument) == expected, (hex(architecture), number)


def test_no_filter_for_an_unknown_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp.platform, "machine", lambda: "vax")
    assert seccomp.program.__wrapped__() == b""


# ---- bubblewrap and the choice of a sandbox


@pytest.fixture
def context(tmp_path: Path) -> SandboxContext:
    return SandboxContext("s", "gw0", tmp_path / "cache", tmp_path / "run")


def fake(path: Path, script: str) -> Path:
    path.mkdir(exist_ok=True)
    (path / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
    (path / "bwrap").chmod(0o755)
    return path


def fake_bwrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    head = 'case "$1" in --version) echo bubblewrap 9.9; exit;; --help) echo "--overlay-src X"; exit;; esac\n'
    monkeypatch.setattr(bwrap, "_paths", lambda: iter([fake(tmp_path / "bin", head + script) / "bwrap"]))


@pytest.mark.parametrize(
    ("patch", "message", "hint"),
    [
        (
            lambda m: m.setattr(bwrap.sys, "platform", "darwin"),
            "needs Linux namespaces, which darwin",
            "Docker Desktop",
        ),
        (
            lambda m: m.setattr(bwrap, "_kernel", lambda _: (4, 19)),
            "needs Linux 5.11 or newer",
            "--rlenv-sandbox docker",
        ),
        (
            lambda m: m.setattr(bwrap, "_paths", lambda: iter(())),
            r"needs bubblewrap \(`bwrap`\)",
            "pytest-rlenv[local]",
        ),
    ],
)
def test_no_local_sandbox(
    patch: Callable[[pytest.MonkeyPatch], None],
    message: str,
    hint: str,
    context: SandboxContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patch(monkeypatch)
    with pytest.raises(EngineUnavailable, match=message) as caught:
        LocalSandbox(context).check()
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("settings", "marks", "uid", "hint"),
    [
        ({"kernel/apparmor_restrict_unprivileged_userns": "1"}, (), 1000, "bwrap-userns-restrict"),
        ({"kernel/unprivileged_userns_clone": "0"}, (), 1000, "kernel.unprivileged_userns_clone=1"),
        ({"user/max_user_namespaces": "0"}, (), 1000, "user.max_user_namespaces"),
        ({}, ("/.dockerenv",), 0, "seccomp=unconfined"),
        ({}, (), 1000, "--unshare-user true"),
    ],
)
def test_refused_namespaces(
    settings: dict[str, str],
    marks: tuple[str, ...],
    uid: int,
    hint: str,
    context: SandboxContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake_bwrap(tmp_path, monkeypatch, "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1")
    monkeypatch.setattr(bwrap, "_setting", lambda name: settings.get(name, ""))
    monkeypatch.setattr(bwrap, "_inside_container", lambda: bool(marks))
    monkeypatch.setattr(bwrap, "_is_root", lambda: uid == 0)
    with pytest.raises(
        EngineUnavailable, match=r"cannot make namespaces here: .*uid map: Permission denied"
    ) as caught:
        LocalSandbox(context).check()
    assert hint in caught.value.hint


def test_overlays_refused_leaves_the_hosts_userland(
    context: SandboxContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = 'case "$*" in *--overlay-src*) echo "bwrap: no overlay" >&2; exit 1;; esac'
    fake_bwrap(tmp_path, monkeypatch, refuse)
    sandbox = LocalSandbox(context)
    assert sandbox.describe().startswith("local (host userland, FROM image not used; bubblewrap 9.9")
    assert "overlays are refused here: bwrap: no overlay" in sandbox._parts().setup.no_overlay
    sandbox.close()


def test_old_bubblewrap_leaves_the_hosts_userland(
    context: SandboxContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_bwrap(tmp_path, monkeypatch, "exit 0")
    found = bwrap.candidates()
    monkeypatch.setattr(bwrap, "_look_at", lambda path: bwrap.Bubblewrap(path, "0.8.0", overlay=False))
    sandbox = LocalSandbox(context)
    assert found[0].overlay
    assert "no images: bubblewrap 0.11 or newer is needed" in sandbox.describe()
    assert "pip install 'pytest-rlenv[local]'" in sandbox.describe()
    sandbox.close()


def test_records_tell_the_hosts_userland_from_images(
    context: SandboxContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_bwrap(tmp_path, monkeypatch, "exit 0")
    hide_engine(monkeypatch, tmp_path / "docker")
    local, host = LocalSandbox(context), HostSandbox(context)
    assert local.name == host.name == "local (host userland)"
    assert local.describe().startswith(
        "local (host userland, FROM image not used but where it was extracted before; bubblewrap 9.9"
    )
    assert host.describe().startswith("local (host userland, FROM image not used; bubblewrap 9.9")
    monkeypatch.setattr(DockerSandbox, "check", lambda self: None)
    with_images = LocalSandbox(context)
    assert with_images.name == "local"
    assert with_images.describe().startswith("local (image root file systems; bubblewrap 9.9")
    assert host.name == "local (host userland)"
    for sandbox in (local, host, with_images):
        sandbox.close()


def test_a_sandbox_that_cannot_start_boxes_has_a_name(
    context: SandboxContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bwrap, "_paths", lambda: iter(()))
    assert LocalSandbox(context).name == "local"
    assert HostSandbox(context).name == "local (host userland)"


def test_the_hosts_userland_by_choice_asks_no_engine_and_no_cache(
    context: SandboxContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_bwrap(tmp_path, monkeypatch, "exit 0")
    monkeypatch.setattr(DockerSandbox, "check", lambda self: pytest.fail("an engine was asked"))
    monkeypatch.setattr(RootfsCache, "recall", lambda self, key: pytest.fail("the cache was asked"))
    host = HostSandbox(context)
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment/Dockerfile").write_text("FROM some/image\nWORKDIR /app\n")
    image = host.prepare(ImageSpec(context=tmp_path / "environment"))
    assert (image.name, image.sandbox) == ("host userland (for some/image)", "")
    with pytest.raises(Unsupported, match="image 'x': the local sandbox over this machine's userland has no"):
        host.prepare(ImageSpec(name="x"))
    host.close()


def test_an_image_that_was_extracted_before_is_recorded_as_one(
    context: SandboxContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_bwrap(tmp_path, monkeypatch, "exit 0")
    hide_engine(monkeypatch, tmp_path / "docker")
    cache = RootfsCache(context.cache_dir, owners=is_privileged())
    cache.find_or_add("sha256:1", fill, timeout=None)
    cache.remember("name:some/image", ImageRef("some/image", "sha256:1"))
    local = LocalSandbox(context)
    assert local.name == "local (host userland)"
    assert local.prepare(ImageSpec(name="some/image")).sandbox == "local"
    local.close()
    cache.close()


@pytest.mark.parametrize(("machine", "extra"), [("x86_64", True), ("aarch64", False)])
def test_the_extra_is_advised_where_it_brings_something(
    machine: str, extra: bool, context: SandboxContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bwrap, "_paths", lambda: iter(()))
    real = os.uname()
    monkeypatch.setattr(bwrap.os, "uname", lambda: os.uname_result((*real[:4], machine)))
    with pytest.raises(EngineUnavailable) as caught:
        LocalSandbox(context).check()
    assert ("pytest-rlenv[local]" in caught.value.hint) is extra
    assert "bubblewrap package" in caught.value.hint


def test_an_image_that_is_built_otherwise_is_not_made_without_images(
    context: SandboxContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_bwrap(tmp_path, monkeypatch, "exit 0")
    host = HostSandbox(context)
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment/Dockerfile").write_text("FROM debian\n")
    assert host.prepare(ImageSpec(context=tmp_path / "environment")).id
    with pytest.raises(Unsupported, match="built with arguments, a target or another Dockerfile"):
        host.prepare(ImageSpec(context=tmp_path / "environment", options=BuildOptions(args=(("A", "1"),))))
    host.close()
