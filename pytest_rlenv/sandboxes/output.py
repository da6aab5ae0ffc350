"""Bounded memory for the output of a command, however much it prints."""

from __future__ import annotations

import struct
from collections.abc import Callable

from pytest_rlenv.sandboxes.model import Completed

STDERR = 2
_HEADER = 8


class HeadTail:
    """Keeps the first half and the last half of ``cap`` bytes, and counts all.

    When something is left out in between, a line in the middle says how much.
    """

    def __init__(self, cap: int) -> None:
        self.total = 0
        self._half = max(1, cap // 2)
        self._head = bytearray()
        self._tail = bytearray()

    def write(self, data: memoryview) -> None:
        """Take the next bytes of the stream."""
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        if len(data) >= self._half:
            self._tail[:] = data[-self._half :]
            return
        self._tail += data
        if len(self._tail) > 4 * self._half:  # trimmed seldom, so that small writes stay cheap
            del self._tail[: -self._half]

    def value(self) -> bytes:
        """Return what was kept."""
        tail = self._tail[-self._half :]
        cut = self.total - len(self._head) - len(tail)
        if not cut:
            return bytes(self._head + tail)
        return bytes(self._head) + b"\n[... %d bytes left out ...]\n" % cut + bytes(tail)


class Demultiplexer:
    """Splits the engine's stream of frames (8-byte header: stream number, length) as it arrives."""

    def __init__(self, sink: Callable[[int, memoryview], None]) -> None:
        self._sink = sink
        self._header = bytearray()
        self._stream = 0
        self._left = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes from the connection; frames and headers may be split anywhere.

        Raises:
            ValueError: this is not a stream of frames.
        """
        view = memoryview(data)
        while view:
            if self._left:
                part, view = view[: self._left], view[self._left :]
                self._left -= len(part)
                self._sink(self._stream, part)
                continue
            missing = _HEADER - len(self._header)
            self._header += view[:missing]
            view = view[missing:]
            if len(self._header) == _HEADER:
                self._stream, self._left = struct.unpack(">BxxxL", self._header)
                if self._stream > STDERR or any(self._header[1:4]):
                    raise ValueError(f"not a frame header: {bytes(self._header)!r}")
                self._header.clear()


class Output:
    """What a command prints: each stream by itself, and both in the order of arrival."""

    def __init__(self, cap: int) -> None:
        self.stdout = HeadTail(cap)
        self.stderr = HeadTail(cap)
        self.both = HeadTail(cap)

    def write(self, stream: int, data: memoryview) -> None:
        """Take bytes of stream 1 (stdout) or 2 (stderr)."""
        (self.stderr if stream == STDERR else self.stdout).write(data)
        self.both.write(data)

    def completed(
        self, exit_code: int | None, *, timed_out: bool, seconds: float, oom_killed: bool | None = None
    ) -> Completed:
        """Return how the command ended that printed this; the arguments are the fields of that name."""
        return Completed(
            exit_code=exit_code,
            stdout=self.stdout.value(),
            stderr=self.stderr.value(),
            output=self.both.value(),
            output_bytes=self.both.total,
            timed_out=timed_out,
            seconds=seconds,
            oom_killed=oom_killed,
        )
