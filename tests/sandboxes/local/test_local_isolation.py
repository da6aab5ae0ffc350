"""What a local box sees of this machine, beyond what every box must not; see ``conformance/``."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.boxes import ok, sh
from support.sandbox_kinds import LOCAL_HOST, LOCAL_IMAGE

from pytest_rlenv.sandboxes.local import LocalBox, LocalSandbox, seccomp
from pytest_rlenv.sandboxes.model import PUBLIC

Start = Callable[..., LocalBox]

over_the_host = pytest.mark.parametrize("kind", [LOCAL_HOST], scope="session", indirect=True)
over_an_image = pytest.mark.parametrize("kind", [LOCAL_IMAGE], scope="session", indirect=True)


@over_the_host
def test_this_machines_programs_are_read_only(lbox: LocalBox) -> None:
    done = sh(lbox, "touch /usr/bin/env /etc/alternatives/x; rm -rf /usr/bin/env; mount -o remount,rw /usr")
    assert done.exit_code != 0
    assert Path("/usr/bin/env").exists()
    assert done.stderr.count(b"Read-only file system") >= 2


@over_the_host
def test_root_of_this_machine_shows_programs_only(lbox: LocalBox) -> None:
    assert set(ok(lbox, "ls -A /").split()) <= {
        *("app", "bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "logs", "mnt", "nix"),
        *("opt", "proc", "root", "run", "sbin", "srv", "sys", "tmp", "usr", "var"),
    }
    for name in ("shadow", "gshadow", "sudoers", "ssh", "ssl/private", "machine-id", "fstab"):
        assert lbox.stat(f"/etc/{name}") is None


@over_an_image
def test_nothing_of_this_machines_root_is_in_an_image(lbox: LocalBox) -> None:
    mounts = ok(lbox, "cat /proc/self/mountinfo").splitlines()
    kinds = {line.split()[4]: line.partition(" - ")[2].split()[0] for line in mounts}
    assert kinds.pop("/") == "overlay"
    # all others are the kernel's own
    assert set(kinds.values()) <= {"proc", "tmpfs", "devtmpfs", "devpts", "sysfs"}


def test_system_call_filter(lbox: LocalBox) -> None:
    status = dict(line.split(":\t", 1) for line in ok(lbox, "grep Seccomp: /proc/self/status").splitlines())
    assert status == {"Seccomp": "2" if seccomp.program() else "0"}


@over_the_host
@pytest.mark.skipif(not seccomp.program(), reason="no filter for this machine")
def test_forbidden_system_calls(lbox: LocalBox) -> None:
    """By their numbers, in both ways that the processor has of making them."""
    if sh(lbox, "command -v python3").exit_code != 0 or os.uname().machine != "x86_64":
        pytest.skip("needs Python in the box, on x86-64")
    code = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
calls = {"keyctl": (250, 0), "bpf": (321, 0), "userfaultfd": (323, 0), "io_uring_setup": (425, 1),
         "unshare": (272, 0x10000000), "clone": (56, 0x10000000 | 17), "clone3": (435, 0),
         "x32": (0x40000000 + 39, 0)}
for name, (number, argument) in calls.items():
    done = libc.syscall(number, argument, 0, 0, 0, 0, 0)
    if done == 0 and name == "clone": os._exit(0)
    print(name, errno.errorcode[ctypes.get_errno()] if done < 0 else "allowed")
print("unshare files", libc.syscall(272, 0x400))
"""
    done = lbox.run(["python3", "-c", code])
    assert dict(line.rsplit(" ", 1) for line in done.stdout.decode().splitlines()) == {
        **dict.fromkeys(("keyctl", "bpf", "userfaultfd", "io_uring_setup", "unshare", "clone"), "EPERM"),
        **dict.fromkeys(("clone3", "x32"), "ENOSYS"),
        "unshare files": "0",
    }


def test_launcher_knows_nothing_of_the_callers_environment(
    local: LocalSandbox, lbox: LocalBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = local._parts().boxes._launcher
    assert launcher is not None
    if os.geteuid() != 0:
        pytest.skip("to others than root it is closed anyway")
    names = Path(f"/proc/{launcher._process.pid}/environ").read_bytes()
    assert b"PYTEST" not in names
    assert b"HOME" not in names


def test_attendant_cannot_be_looked_into(lbox: LocalBox, local: LocalSandbox) -> None:
    """What starts commands is seen in a box for a moment, before it becomes one."""
    sh(lbox, ":")  # by then it is there
    launcher = local._parts().boxes._launcher
    assert launcher is not None
    children = subprocess.run(
        ["pgrep", "-P", str(launcher._process.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert children
    owners = {Path(f"/proc/{pid}/environ").stat().st_uid for pid in children if _is_python(pid)}
    assert owners == {0}, "a process that can be traced is its user's"


def _is_python(pid: str) -> bool:
    return b"_launcher" in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_public_network_is_this_machines(start_local: Start) -> None:
    box = start_local(network=PUBLIC)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        done = sh(box, f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'", timeout=20)
    assert done.exit_code == 0, done.output
    if Path("/etc/resolv.conf").is_file():
        assert box.get("/etc/resolv.conf", cap=10_000) == Path("/etc/resolv.conf").read_bytes()
