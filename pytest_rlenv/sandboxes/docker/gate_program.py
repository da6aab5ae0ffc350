"""The program that makes a box's gate: a listening socket on the box's loopback, which it sends to us.

Only a process inside can make a socket in a box's network namespace, and an image may have no program that
could. So one is brought: a straight line of nine system calls, assembled here for the engine's processor,
without a file of another's making in it. It exits 0, or with the number of the call that failed.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Sequence

STEPS = (
    "make a socket",
    "keep it",
    "make its port reusable",
    "bind it to the loopback",
    "listen",
    "make a second socket",
    "keep it",
    "connect to the host",
    "send the first one there",
)
"""What the calls are for; a failed one is told by its number, from 1."""

_RESULT = None
"""An argument that is the result of the call before."""
_Call = tuple[str, Sequence[int | None]]

_BASE = 0x400000
_ELF_HEADER, _PROGRAM_HEADER = 64, 56
_CODE = _ELF_HEADER + _PROGRAM_HEADER
_READ_AND_EXECUTE = 5
_PAGE = 0x10000
_LISTENER, _LINK = 100, 101
_BACKLOG = 128


def gate_program(architecture: str, port: int, path: str) -> bytes:
    """Return the program as an ELF file.

    Args:
        architecture: the engine's, a key of :data:`ASSEMBLERS`.
        port: where to listen.
        path: of the Unix socket to send the listening one to.
    """
    machine, assemble = ASSEMBLERS[architecture]
    size = len(assemble(_calls(port, path, 0)[0]))
    gap = -size % 8
    calls, data = _calls(port, path, _BASE + _CODE + size + gap)
    return _elf(machine, assemble(calls) + bytes(gap) + data)


def failed_step(exit_code: int) -> str:
    """Return what the program failed at."""
    return STEPS[exit_code - 1] if 0 < exit_code <= len(STEPS) else "start"


def _calls(port: int, path: str, data_at: int) -> tuple[list[_Call], bytes]:
    """Return the calls, and the data that they point to."""
    loopback = struct.pack("=H", socket.AF_INET) + struct.pack(">H4s8x", port, bytes((127, 0, 0, 1)))
    host = struct.pack("=H", socket.AF_UNIX) + os.fsencode(path) + b"\0"
    rights = struct.pack("=QIIi4x", 20, socket.SOL_SOCKET, socket.SCM_RIGHTS, _LISTENER)
    one = struct.pack("=I4x", 1)
    at = {}
    data = b""
    for name, piece in (("one", one), ("loopback", loopback), ("rights", rights), ("host", host)):
        at[name] = data_at + len(data)
        data += piece + bytes(-len(piece) % 8)
    at["vector"] = data_at + len(data)
    data += struct.pack("=QQ", at["one"], 1)
    at["message"] = data_at + len(data)
    data += struct.pack("=QI4xQQQQI4x", 0, 0, at["vector"], 1, at["rights"], len(rights), 0)
    stream = socket.SOCK_STREAM | socket.SOCK_CLOEXEC
    calls: list[_Call] = [
        ("socket", (socket.AF_INET, stream, 0)),
        ("dup3", (_RESULT, _LISTENER, 0)),
        ("setsockopt", (_LISTENER, socket.SOL_SOCKET, socket.SO_REUSEADDR, at["one"], 4)),
        ("bind", (_LISTENER, at["loopback"], len(loopback))),
        ("listen", (_LISTENER, _BACKLOG)),
        ("socket", (socket.AF_UNIX, stream, 0)),
        ("dup3", (_RESULT, _LINK, 0)),
        ("connect", (_LINK, at["host"], len(host))),
        ("sendmsg", (_LINK, at["message"], 0)),
    ]
    return calls, data


# ---- x86-64

_X86_64_CALLS = {
    "socket": 41,
    "connect": 42,
    "sendmsg": 46,
    "bind": 49,
    "listen": 50,
    "setsockopt": 54,
    "exit_group": 231,
    "dup3": 292,
}
# mov edi/esi/edx/r10d/r8d, imm32
_X86_64_ARGUMENTS = (b"\xbf", b"\xbe", b"\xba", b"\x41\xba", b"\x41\xb8")


def _x86_64(calls: Sequence[_Call]) -> bytes:
    def call(name: str, arguments: Sequence[int | None]) -> bytes:
        code = b""
        for register, value in zip(_X86_64_ARGUMENTS, arguments, strict=False):
            code += b"\x89\xc7" if value is _RESULT else register + struct.pack("<I", value)  # mov edi, eax
        return code + b"\xb8" + struct.pack("<I", _X86_64_CALLS[name]) + b"\x0f\x05"  # mov eax, ...; syscall

    code = b""
    for number, (name, arguments) in enumerate(calls, 1):
        leave = call("exit_group", (number,))
        # test rax, rax; jns over the exit
        code += call(name, arguments) + b"\x48\x85\xc0\x79" + bytes([len(leave)]) + leave
    return code + call("exit_group", (0,))


# ---- arm64

_AARCH64_CALLS = {
    "dup3": 24,
    "exit_group": 94,
    "socket": 198,
    "bind": 200,
    "listen": 201,
    "connect": 203,
    "setsockopt": 208,
    "sendmsg": 211,
}


def _aarch64(calls: Sequence[_Call]) -> bytes:
    def move(register: int, value: int) -> bytes:  # movz, movk with the upper half
        low = 0x52800000 | (value & 0xFFFF) << 5 | register
        high = 0x72A00000 | (value >> 16) << 5 | register
        return struct.pack("<II", low, high)

    def call(name: str, arguments: Sequence[int | None]) -> bytes:
        # a result is in the register of the first argument already
        code = b"".join(move(number, value) for number, value in enumerate(arguments) if value is not _RESULT)
        return code + move(8, _AARCH64_CALLS[name]) + struct.pack("<I", 0xD4000001)  # svc 0

    code = b""
    for number, (name, arguments) in enumerate(calls, 1):
        leave = call("exit_group", (number,))
        over = 0xB6F80000 | (len(leave) // 4 + 1) << 5  # tbz x0, 63: not negative
        code += call(name, arguments) + struct.pack("<I", over) + leave
    return code + call("exit_group", (0,))


ASSEMBLERS: dict[str, tuple[int, Callable[[Sequence[_Call]], bytes]]] = {
    "x86_64": (62, _x86_64),
    "aarch64": (183, _aarch64),
}
"""By the engine's word for its processor: the ELF machine, and what turns calls into code."""


def _elf(machine: int, body: bytes) -> bytes:
    size = _CODE + len(body)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",
        2,  # an executable
        machine,
        1,
        _BASE + _CODE,
        _ELF_HEADER,
        0,
        0,
        _ELF_HEADER,
        _PROGRAM_HEADER,
        1,
        0,
        0,
        0,
    )
    segment = struct.pack("<IIQQQQQQ", 1, _READ_AND_EXECUTE, 0, _BASE, _BASE, size, size, _PAGE)
    return header + segment + body
