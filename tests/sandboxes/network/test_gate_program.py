"""The program that makes a gate's socket: run here, and read word by word for the other processor."""

from __future__ import annotations

import platform
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.docker.gate_program import STEPS, failed_step, gate_program
from pytest_rlenv.sandboxes.network.listeners import receive_listener

RUNS_HERE = platform.system() == "Linux" and platform.machine() in ("x86_64", "aarch64")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def write_program(folder: Path, port: int, path: Path) -> Path:
    program = folder / "gate"
    program.write_bytes(gate_program(platform.machine(), port, str(path)))
    program.chmod(0o755)
    return program


@pytest.mark.skipif(not RUNS_HERE, reason="the program is for Linux on two processors")
def test_it_hands_over_a_listening_socket_and_says_what_failed(tmp_path: Path) -> None:
    port, path = free_port(), tmp_path / "s"
    program = write_program(tmp_path, port, path)
    assert failed_step(subprocess.run([program]).returncode) == "connect to the host"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        assert subprocess.run([program]).returncode == 0
        link, _ = server.accept()
        with link, receive_listener(link) as listener:
            assert listener.getsockname() == ("127.0.0.1", port)
            with socket.create_connection(("127.0.0.1", port)), closing(listener.accept()[0]):
                pass
            assert failed_step(subprocess.run([program]).returncode) == "bind it to the loopback"


@pytest.mark.parametrize(("exit_code", "step"), [(1, STEPS[0]), (9, STEPS[8]), (26, "start"), (0, "start")])
def test_failed_steps(exit_code: int, step: str) -> None:
    assert failed_step(exit_code) == step


def test_a_program_is_a_small_file_with_one_segment() -> None:
    for architecture in ("x86_64", "aarch64"):
        data = gate_program(architecture, 27128, "/.rlenv/gate")
        assert data[:4] == b"\x7fELF"
        assert len(data) < 1024
        offset, size = struct.unpack_from("<Q", data, 64 + 8)[0], struct.unpack_from("<Q", data, 64 + 32)[0]
        assert (offset, size) == (0, len(data))


def test_both_processors_are_told_the_same() -> None:
    port, path = 27128, "/.rlenv/gate"
    arm = gate_program("aarch64", port, path)
    calls = list(arm_calls(arm))
    numbers = {"socket": 198, "dup3": 24, "setsockopt": 208, "bind": 200, "listen": 201, "connect": 203}
    assert [call[8] for call in calls] == [
        *(numbers[name] for name in ("socket", "dup3", "setsockopt", "bind", "listen")),
        *(numbers[name] for name in ("socket", "dup3", "connect")),
        211,
        94,
    ]
    assert [call.get(0) for call in calls] == [2, None, 100, 100, 100, 1, None, 101, 101, 0]
    address = calls[3]
    assert address[2] == 16
    assert data_at(arm, address[1], 8) == struct.pack("<H", 2) + struct.pack(">H", port) + bytes(
        (127, 0, 0, 1)
    )
    host = calls[7]
    assert data_at(arm, host[1], host[2]) == struct.pack("<H", 1) + path.encode() + b"\0"
    message = struct.unpack("<QI4xQQQQI4x", data_at(arm, calls[8][1], 56))
    assert message[3] == 1
    assert struct.unpack("<QIIi", data_at(arm, message[4], 20)) == (20, 1, 1, 100)
    assert all(call[at] % 8 == 0 for call, at in ((address, 1), (host, 1), (calls[8], 1)))


def arm_calls(program: bytes) -> Iterator[dict[int, int]]:
    """Yield the registers at each system call on the way on which none fails."""
    registers: dict[int, int] = {}
    at = 64 + 56
    while True:
        (word,) = struct.unpack_from("<I", program, at)
        at += 4
        if word >> 21 == 0x52800000 >> 21:  # movz w
            registers[word & 31] = word >> 5 & 0xFFFF
        elif word >> 21 == 0x72A00000 >> 21:  # movk w, lsl 16
            registers[word & 31] |= (word >> 5 & 0xFFFF) << 16
        elif word == 0xD4000001:  # svc
            yield dict(registers)
            if registers[8] == 94:
                return
            registers.pop(0, None)  # now a result
        elif word & 0xFFF8001F == 0xB6F80000:  # tbz x0, 63: a call that worked goes on there
            at += (word >> 5 & 0x3FFF) * 4 - 4
        else:
            pytest.fail(f"{word:#010x} at {at - 4} is none of the instructions that are used")


def data_at(program: bytes, address: int, size: int) -> bytes:
    return program[address - 0x400000 : address - 0x400000 + size]


def test_only_a_listening_socket_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as good, socket.socket() as idle:
        for fds in ([], [idle.fileno()], [0]):
            assert handed(fds) is None
        with socket.create_server(("127.0.0.1", 0)) as surplus:
            assert handed([good.fileno(), surplus.fileno()]) == good.getsockname()


def handed(fds: list[int]) -> object:
    """Return the address of what was taken, ``None`` if nothing was."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(theirs, [b"g"], fds) if fds else theirs.send(b"g")
        try:
            with receive_listener(ours) as listener:
                return listener.getsockname()
        except SandboxFailed:
            return None
