"""What a box sees of this machine, and what it cannot do to it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.boxes import ok, sh

from pytest_rlenv.sandboxes.local.command import CAPABILITY_MASK
from pytest_rlenv.sandboxes.model import PUBLIC
from pytest_rlenv.sandboxes.protocol import Box, Sandbox

Start = Callable[..., Box]


# ---- files


def test_host_files_cannot_be_written(box: Box) -> None:
    marker = f"rlenv-{os.getpid()}"
    folders = ("/usr/bin", "/usr/lib", "/etc", "/tmp", "/var/tmp", "/root", "/")
    for folder in folders:
        sh(box, f"echo x >{folder}/{marker}")
    for folder in folders:
        if os.access(folder, os.R_OK | os.X_OK):
            assert marker not in {each.name for each in Path(folder).iterdir()}
    sh(box, f"rm -f {' '.join(f'{folder}/{marker}' for folder in folders)}")


def test_host_files_cannot_be_seen(box: Box, tmp_path: Path) -> None:
    (tmp_path / "here").write_text("x")
    assert box.stat(str(tmp_path / "here")) is None
    for path in (tmp_path / "here", "/oldroot", "/newroot", "/run/docker.sock", "/var/run/docker.sock"):
        assert sh(box, f"ls {path}").exit_code != 0
    homes = [str(each) for each in {Path("/root"), Path("/home"), Path.home()} if each.is_dir()]
    listed = sh(box, f"ls -A {' '.join(homes)} | grep -v '^/'").stdout.split()
    assert set(listed) <= {b".bashrc", b".profile"}


def test_boxes_are_apart(start: Start) -> None:
    one, other = start(), start()
    ok(one, "echo mine >/tmp/file; sleep 1000 >/dev/null 2>&1 &")
    assert other.stat("/tmp/file") is None
    assert sh(other, "cat /proc/[0-9]*/cmdline").stdout.count(b"sleep\x001000") == 0
    assert one.id != other.id
    assert ok(one, "hostname") != ok(other, "hostname")
    other.quiesce()
    assert b"sleep\x001000" in sh(one, "cat /proc/[0-9]*/cmdline").stdout


def test_devices_are_harmless(box: Box) -> None:
    assert set(ok(box, "ls /dev").split()) <= {
        *("console", "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm"),
        *("stderr", "stdin", "stdout", "tty", "urandom", "zero"),
    }
    assert (
        ok(box, "df -k /dev/shm | tail -1 | tr -s ' ' | cut -d' ' -f2; stat -c %a /dev/shm")
        == "65536\n1777\n"
    )


# ---- processes and the kernel


def test_no_view_of_the_hosts_processes(box: Box) -> None:
    box.quiesce()
    numbers = sorted(int(each) for each in ok(box, "cd /proc; echo [0-9]*").split())
    assert numbers[0] == 1
    assert len(numbers) <= 3
    assert sh(box, f"kill -0 {os.getpid()}").exit_code != 0
    commands = sh(box, "cat /proc/[0-9]*/cmdline").stdout
    assert b"pytest" not in commands
    assert b"_launcher" not in commands


def test_kernel_settings_cannot_be_changed(box: Box) -> None:
    setting = Path("/proc/sys/kernel/panic")
    before = setting.read_text()
    for path in ("/proc/sys/kernel/panic", "/proc/sys/vm/swappiness", "/proc/sysrq-trigger", "/sys/new"):
        assert sh(box, f"echo 77 >{path}").exit_code != 0
    assert setting.read_text() == before
    writable = "find {} 2>/dev/null | while read f; do [ -w $f ] && echo $f; done"
    assert sh(box, writable.format("/proc/sys -type f -perm /222")).stdout == b""
    assert sh(box, writable.format("/sys -maxdepth 4 -perm /222 ! -type l")).stdout == b""


def test_what_the_kernel_tells_of_the_machine_is_hidden(box: Box) -> None:
    for name in ("keys", "timer_list", "kcore"):
        assert sh(box, f"head -c 100 /proc/{name}").stdout == b""
    assert sh(box, "ls /proc/acpi /proc/scsi 2>/dev/null | grep -v :").stdout.strip() == b""


@pytest.mark.parametrize(
    "script",
    [
        "mount -t tmpfs x /mnt",
        "mount --bind /etc /mnt",
        "umount /proc/sys",
        "unshare -U true",
        "unshare -m true",
        "unshare -n true",
        "unshare -Ur true",
        "mknod /tmp/sda b 8 0 && head -c1 /tmp/sda",
        "mknod /tmp/loop b 7 0 && head -c1 /tmp/loop",
        "chroot /usr/.. unshare -Ur true",
        "nsenter -t 1 -m true && nsenter -t 1 -U true",
        "dmesg --clear",
        "hostname other",
        "date -s 2001-01-01",
        "head -c1 /dev/kmsg",
        "echo -1000 >/proc/self/oom_score_adj",
    ],
)
def test_forbidden(script: str, box: Box) -> None:
    done = sh(box, script)
    assert done.exit_code not in (0, 126, 127), done.output  # nor is it only that there is no such program


# ---- privileges


def test_capabilities(box: Box) -> None:
    status = status_of(box, "self")
    assert {status[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {f"{CAPABILITY_MASK:016x}"}
    assert int(status["CapAmb"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    # with no-new-privileges, its bounding set means nothing
    first = status_of(box, "1")
    assert {first[name] for name in ("CapPrm", "CapEff")} == {f"{CAPABILITY_MASK:016x}"}
    assert first["NoNewPrivs"] == "1"
    assert first["Seccomp"] == status["Seccomp"]


def status_of(box: Box, process: str) -> dict[str, str]:
    lines = ok(box, f"cat /proc/{process}/status").splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def test_another_user_has_no_capabilities(box: Box, sandbox: Sandbox) -> None:
    if not sandbox.capabilities.users:
        pytest.skip("no other users: the commands' tests have their refusal")
    lines = ok(box, "grep -E '^Cap(Prm|Eff|Amb)' /proc/self/status", user="nobody").split()
    assert set(lines[1::2]) == {"0" * 16}


def test_set_user_id_gains_nothing(box: Box, place: str, sandbox: Sandbox) -> None:
    ok(box, f"cp $(command -v id) {place}/id; chmod 4755 {place}/id")
    user, uid = ("nobody", "65534\n") if sandbox.capabilities.users else (None, "0\n")
    assert ok(box, f"{place}/id -u", user=user) == uid


def test_environment_is_clean_of_the_callers(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of processes that are not the command itself, as far as a box sees any."""
    monkeypatch.setenv("RLENV_TEST_SECRET", "hunter2")
    box = start(env={"OWN": "1"})
    names = {line.partition(b"=")[0] for line in box.run(["env"]).stdout.splitlines()}
    assert names == {b"PATH", b"HOME", b"HOSTNAME", b"OWN"}
    assert b"hunter2" not in sh(box, "cat /proc/[0-9]*/environ").stdout


# ---- network


@pytest.fixture
def server() -> Iterator[int]:
    """A server on this machine; the port."""
    with socket.create_server(("0.0.0.0", 0)) as listener:
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


CONNECT = "exec 3<>/dev/tcp/{}/{} && head -1 <&3"


def test_no_network(box: Box, server: int) -> None:
    for host in ("127.0.0.1", "172.17.0.1", "10.0.0.1"):
        assert box.run(["bash", "-c", CONNECT.format(host, server)], timeout=20).stdout == b""
    assert ok(box, "tail -n +3 /proc/net/dev | cut -d: -f1").split() == ["lo"]
    assert ok(box, "cat /proc/net/route | wc -l").strip() == "1"
    # but one's own services can be reached
    refused = box.run(["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9"], timeout=20)
    assert b"Connection refused" in refused.stderr


def test_public_network(start: Start) -> None:
    box = start(network=PUBLIC)
    assert box.get("/etc/resolv.conf", cap=100_000)
    assert b"localhost" in box.get("/etc/hosts", cap=100_000)
    # a box's own name stands for itself
    refused = box.run(["bash", "-c", f"exec 3<>/dev/tcp/{ok(box, 'hostname').strip()}/9"], timeout=20)
    assert b"Connection refused" in refused.stderr
