"""What a box sees of this machine, and what it cannot do to it."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.local_boxes import needs_users, sh

from pytest_rlenv.sandboxes.local import LocalBox, LocalSandbox, seccomp
from pytest_rlenv.sandboxes.local.command import CAPABILITY_MASK
from pytest_rlenv.sandboxes.protocol import PUBLIC

Start = Callable[..., LocalBox]


def test_host_files_cannot_be_written(lbox: LocalBox, mode: str) -> None:
    marker = f"rlenv-{os.getpid()}"
    for folder in ("/usr/bin", "/usr/lib", "/etc", "/tmp", "/var/tmp", "/root", "/"):
        sh(lbox, f"echo x >{folder}/{marker}")
        assert not os.access(folder, os.R_OK | os.X_OK) or marker not in {
            each.name for each in Path(folder).iterdir()
        }
    if mode == "host":
        done = sh(
            lbox, "touch /usr/bin/env /etc/alternatives/x; rm -rf /usr/bin/env; mount -o remount,rw /usr"
        )
        assert done.exit_code != 0
        assert Path("/usr/bin/env").exists()
        assert done.stderr.count(b"Read-only file system") >= 2


def test_host_files_cannot_be_seen(lbox: LocalBox, tmp_path: Path) -> None:
    (tmp_path / "here").write_text("x")
    assert sh(lbox, f"cat {tmp_path}/here").exit_code != 0
    # nor by way of where bubblewrap puts the old root
    assert sh(lbox, "ls /oldroot /newroot").exit_code != 0
    homes = [each for each in ("/root", "/home") if Path(each).is_dir()]
    assert sh(lbox, f"ls -A {' '.join(homes)} | grep -v '^/'").stdout.split() in (
        [],
        [b".bashrc", b".profile"],
    )


def test_nothing_of_the_hosts_root_in_image_mode(lbox: LocalBox, mode: str) -> None:
    if mode == "host":
        assert set(sh(lbox, "ls -A /").stdout.decode().split()) <= {
            *("app", "bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "logs", "mnt", "nix"),
            *("opt", "proc", "root", "run", "sbin", "srv", "sys", "tmp", "usr", "var"),
        }
        return
    mounts = sh(lbox, "cat /proc/self/mountinfo").stdout.decode().splitlines()
    kinds = {line.split()[4]: line.partition(" - ")[2].split()[0] for line in mounts}
    assert kinds.pop("/") == "overlay"
    # all others are the kernel's own
    assert set(kinds.values()) <= {"proc", "tmpfs", "devtmpfs", "devpts", "sysfs"}


def test_secrets_of_etc_are_not_there(lbox: LocalBox, mode: str) -> None:
    if mode == "image":
        pytest.skip("the image's own /etc")
    for name in ("shadow", "gshadow", "sudoers", "ssh", "ssl/private", "machine-id", "fstab"):
        assert lbox.stat(f"/etc/{name}") is None


def test_no_view_of_the_hosts_processes(lbox: LocalBox) -> None:
    numbers = sorted(int(each) for each in sh(lbox, "cd /proc; echo [0-9]*").stdout.split())
    assert numbers[0] == 1
    assert len(numbers) <= 3
    assert sh(lbox, f"kill -0 {os.getpid()}").exit_code != 0
    commands = sh(lbox, "cat /proc/[0-9]*/cmdline").stdout
    assert b"pytest" not in commands
    assert b"_launcher" not in commands


def test_kernel_settings_cannot_be_changed(lbox: LocalBox) -> None:
    setting = Path("/proc/sys/kernel/panic")
    before = setting.read_text()
    done = sh(
        lbox, "echo 77 >/proc/sys/kernel/panic; echo 77 >/proc/sys/vm/swappiness; echo b >/proc/sysrq-trigger"
    )
    assert done.exit_code != 0
    assert setting.read_text() == before
    written = sh(
        lbox, "find /proc/sys -type f -perm /222 2>/dev/null | while read f; do [ -w $f ] && echo $f; done"
    )
    assert written.stdout == b""


def test_what_the_kernel_tells_of_the_machine_is_hidden(lbox: LocalBox) -> None:
    for name in ("keys", "timer_list", "kcore"):
        assert sh(lbox, f"cat /proc/{name}").stdout == b""


@pytest.mark.parametrize(
    "script",
    [
        "mount -t tmpfs x /mnt",
        "mount --bind /etc /mnt",
        "umount /proc/sys",
        "unshare -U true",
        "unshare -m true",
        "unshare -Ur true",
        "mknod /dev/sda b 8 0 && cat /dev/sda",
        "mknod /d b 7 0 && head -c1 /d",
        "chroot /usr/.. unshare -Ur true",
        "nsenter -t 1 -m true && nsenter -t 1 -U true",
        "dmesg --clear",
        "hostname other",
        "date -s 2001-01-01",
    ],
)
def test_forbidden(script: str, lbox: LocalBox) -> None:
    assert sh(lbox, script).exit_code != 0


def test_capabilities_and_filter(lbox: LocalBox) -> None:
    status = dict(
        line.split(":\t", 1)
        for line in sh(lbox, "cat /proc/self/status").stdout.decode().splitlines()
        if ":\t" in line
    )
    assert {status[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {f"{CAPABILITY_MASK:016x}"}
    assert {int(status[name], 16) for name in ("CapInh", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == ("2" if seccomp.program() else "0")


def test_first_process_is_as_limited_as_the_others(lbox: LocalBox) -> None:
    """Its bounding set is wider, but with no-new-privileges no program gets more than it has."""
    names = "CapPrm|CapEff|NoNewPrivs|Seccomp"
    status = sh(lbox, f"grep -E '^({names}):' /proc/1/status").stdout.decode().split()
    assert dict(zip(status[::2], status[1::2], strict=True)) == {
        "CapPrm:": f"{CAPABILITY_MASK:016x}",
        "CapEff:": f"{CAPABILITY_MASK:016x}",
        "NoNewPrivs:": "1",
        "Seccomp:": "2" if seccomp.program() else "0",
    }


def test_set_user_id_gains_nothing(lbox: LocalBox) -> None:
    done = sh(lbox, "cp $(command -v id) /tmp/id; chmod 4755 /tmp/id; /tmp/id -u")
    assert done.stdout == b"0\n"


@needs_users
def test_set_user_id_does_not_make_root(lbox: LocalBox) -> None:
    assert sh(lbox, "cp $(command -v id) /tmp/id; chmod 4755 /tmp/id").exit_code == 0
    assert sh(lbox, "/tmp/id -u", user="nobody").stdout == b"65534\n"


def test_environment_is_clean_of_the_callers(
    local: LocalSandbox, start_local: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that of processes that are not the command itself, as far as a box sees any."""
    monkeypatch.setenv("RLENV_TEST_SECRET", "hunter2")
    box = start_local(env={"OWN": "1"})
    names = {line.partition(b"=")[0] for line in box.run(["env"]).stdout.splitlines()}
    assert names <= {b"PATH", b"HOME", b"HOSTNAME", b"OWN", b"PWD"}
    assert b"hunter2" not in sh(box, "cat /proc/[0-9]*/environ").stdout
    launcher = local._parts().boxes._launcher
    assert launcher is not None
    if os.geteuid() == 0:  # to others it is closed anyway
        assert b"SECRET" not in Path(f"/proc/{launcher._process.pid}/environ").read_bytes()


@pytest.fixture
def server() -> Iterator[int]:
    """A server on this machine's loopback; the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_answer, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def _answer(listener: socket.socket) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.sendall(b"hello\n")


CONNECT = "exec 3<>/dev/tcp/127.0.0.1/{port} && head -1 <&3"


def test_no_network(lbox: LocalBox, server: int) -> None:
    assert lbox.run(["bash", "-c", CONNECT.format(port=server)], timeout=20).stdout == b""
    devices = sh(lbox, "tail -n +3 /proc/net/dev | cut -d: -f1").stdout.split()
    assert devices == [b"lo"]
    assert sh(lbox, "cat /proc/net/route | wc -l").stdout.strip() == b"1"
    # but one's own services can be reached
    listening = lbox.run(["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9"], timeout=20)
    assert b"Connection refused" in listening.stderr


def test_public_network_is_this_machines(start_local: Start, server: int) -> None:
    box = start_local(network=PUBLIC)
    assert box.run(["bash", "-c", CONNECT.format(port=server)], timeout=20).stdout == b"hello\n"
    if Path("/etc/resolv.conf").is_file():
        assert box.get("/etc/resolv.conf", cap=10_000) == Path("/etc/resolv.conf").read_bytes()
    assert b"localhost" in box.get("/etc/hosts", cap=100_000)


def test_boxes_are_apart(start_local: Start) -> None:
    one, other = start_local(), start_local()
    sh(one, "echo mine >/tmp/file; sleep 1000 >/dev/null 2>&1 &")
    assert other.stat("/tmp/file") is None
    assert sh(other, "cat /proc/[0-9]*/cmdline").stdout.count(b"1000") == 0
    assert one.id != other.id
    assert sh(one, "cat /proc/sys/kernel/hostname").stdout.decode().strip() == one.id
    other.quiesce()
    assert b"sleep\x001000" in sh(one, "cat /proc/[0-9]*/cmdline").stdout


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


@pytest.mark.skipif(not seccomp.program(), reason="no filter for this machine")
def test_forbidden_system_calls(lbox: LocalBox, mode: str) -> None:
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
