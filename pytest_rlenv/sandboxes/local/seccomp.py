"""A system call filter for boxes, as the kernel's own small program.

Dropped capabilities forbid most of what a box must not do. What is left is open to any user of a machine
and is the usual way to a kernel's faults, or is shared between all of one user's processes: user
namespaces, keyrings, BPF, performance counters, io_uring. Docker's default profile forbids these too.
"""

from __future__ import annotations

import platform
import struct
from functools import lru_cache

_LOAD, _JUMP_EQUAL, _JUMP_SET, _JUMP_ABOVE, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_NR, _ARCH, _ARGUMENT_0 = 0, 4, 16
_NEW_USER = 0x10000000
_X32 = 0x40000000

_FORBIDDEN = ("keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup")
_WITHOUT_NEW_USER = ("clone", "unshare")
_ABSENT = ("clone3",)
"""Its flags are in memory, out of a filter's sight; without it, libraries use ``clone``."""

_NAMES = (*_FORBIDDEN, *_WITHOUT_NEW_USER, *_ABSENT)
_NUMBERS = {
    # the machine's audit architecture: its numbers in the order of _NAMES
    0xC000003E: (250, 248, 249, 321, 298, 323, 425, 56, 272, 435),  # x86-64
    0x40000003: (288, 286, 287, 357, 336, 374, 425, 120, 310, 435),  # i386, which x86-64 runs as well
    0xC00000B7: (219, 217, 218, 280, 241, 282, 425, 220, 97, 435),  # AArch64
}
_MACHINES = {"x86_64": (0xC000003E, 0x40000003), "aarch64": (0xC00000B7,)}

Instruction = tuple[int, int, int, int]


@lru_cache(maxsize=1)
def program() -> bytes:
    """Return the filter for this machine; empty for one whose system calls are not known here."""
    architectures = _MACHINES.get(platform.machine())
    if architectures is None:
        return b""
    code: list[Instruction] = []
    for architecture in architectures:
        block = _block(architecture)
        code += [(_LOAD, 0, 0, _ARCH), (_JUMP_EQUAL, 0, len(block), architecture), *block]
    code.append((_RETURN, 0, 0, _ERRNO | _ENOSYS))  # of no architecture that this machine should run
    return b"".join(struct.pack("=HBBI", *each) for each in code)


def _block(architecture: int) -> list[Instruction]:
    """Return the decision for one architecture; it never falls through."""
    numbers = dict(zip(_NAMES, _NUMBERS[architecture], strict=True))
    code: list[Instruction] = [(_LOAD, 0, 0, _NR)]
    if architecture == _MACHINES["x86_64"][0]:  # a second set of numbers for the same calls
        code += [(_JUMP_ABOVE, 0, 1, _X32), (_RETURN, 0, 0, _ERRNO | _ENOSYS)]
    for name in _FORBIDDEN:
        code += _answer(numbers[name], _EPERM)
    for name in _ABSENT:
        code += _answer(numbers[name], _ENOSYS)
    for name in _WITHOUT_NEW_USER:
        code += [
            (_JUMP_EQUAL, 0, 4, numbers[name]),
            (_LOAD, 0, 0, _ARGUMENT_0),
            (_JUMP_SET, 0, 1, _NEW_USER),
            (_RETURN, 0, 0, _ERRNO | _EPERM),
            (_RETURN, 0, 0, _ALLOW),
        ]
    return [*code, (_RETURN, 0, 0, _ALLOW)]


def _answer(number: int, error: int) -> list[Instruction]:
    return [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | error)]
