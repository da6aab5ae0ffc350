"""BuildKit's progress over the engine's API: steps, logs and errors out of base64 protobuf messages.

Only the few fields that we need of ``moby.buildkit.v1.StatusResponse`` are read, so a full protobuf
library would be out of proportion.
"""

from __future__ import annotations

import base64
import binascii
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

LOG_LINES = 40

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VERTEX, _LOG = 1, 3
_VERTEX_DIGEST, _VERTEX_NAME, _VERTEX_ERROR = 1, 3, 7
_LOG_VERTEX, _LOG_MESSAGE = 1, 4


@dataclass
class Progress:
    """What a build has said so far.

    Attributes:
        failed_step: the step that failed, as in ``[2/3] RUN make``; empty if none did.
        error: what is wrong with it.
    """

    failed_step: str = ""
    error: str = ""
    _steps: dict[str, str] = field(default_factory=dict)
    _logs: dict[str, deque[str]] = field(default_factory=dict)
    _all: deque[str] = field(default_factory=lambda: deque(maxlen=LOG_LINES))
    _partial: dict[str, str] = field(default_factory=dict)
    _failed: str = ""

    @property
    def lines(self) -> list[str]:
        """The last lines of the failed step's log, or of the whole build while none has failed."""
        for vertex, rest in list(self._partial.items()):
            self._add_line(vertex, rest)
        self._partial.clear()
        return list(self._logs.get(self._failed) or self._all)

    def add_log(self, vertex: str, text: str) -> None:
        """Take a piece of a step's log, which may end within a line."""
        *lines, rest = (self._partial.pop(vertex, "") + text).split("\n")
        for line in lines:
            self._add_line(vertex, line)
        if rest:
            self._partial[vertex] = rest[-10_000:]

    def add_trace(self, aux: str) -> None:
        """Take one message of the API; what cannot be decoded is passed over, as it only informs."""
        try:
            for number, value in _fields(base64.b64decode(aux, validate=True)):
                if number == _VERTEX and isinstance(value, bytes):
                    self._take_vertex(value)
                elif number == _LOG and isinstance(value, bytes):
                    self._take_log(value)
        except (ValueError, binascii.Error):
            return

    def _add_line(self, vertex: str, line: str) -> None:
        self._logs.setdefault(vertex, deque(maxlen=LOG_LINES)).append(line.rstrip("\r"))
        self._all.append(line.rstrip("\r"))

    def _take_vertex(self, data: bytes) -> None:
        fields = {number: value for number, value in _fields(data) if isinstance(value, bytes)}
        digest = _text(fields.get(_VERTEX_DIGEST))
        name = _text(fields.get(_VERTEX_NAME))
        error = _text(fields.get(_VERTEX_ERROR))
        if name:
            self._steps[digest] = name
        # a failed step has others cancelled; those come later or say so
        if error and not self.failed_step and "context canceled" not in error:
            self.failed_step, self.error, self._failed = self._steps.get(digest, name), error, digest

    def _take_log(self, data: bytes) -> None:
        fields = {number: value for number, value in _fields(data) if isinstance(value, bytes)}
        self.add_log(_text(fields.get(_LOG_VERTEX)), _text(fields.get(_LOG_MESSAGE)))


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and value of each field of a protobuf message.

    Raises:
        ValueError: this is not such a message.
    """
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        value: int | bytes
        if kind == _VARINT:
            value, at = _varint(data, at)
        elif kind in (_BYTES, _FIXED64, _FIXED32):
            size, at = _varint(data, at) if kind == _BYTES else ({_FIXED64: 8, _FIXED32: 4}[kind], at)
            if at + size > len(data):
                raise ValueError("a field is longer than its message")
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"unknown wire type {kind}")
        yield number, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number does not end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
