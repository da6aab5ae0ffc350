"""A terminal as small as can be: what is on it once a program has written to it."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_PART = re.compile(r"\x1b\[(?P<number>\d*)(?P<what>[A-Za-z])|(?P<text>[^\x1b])|\x1b")


class Screen:
    """Lines of text, a cursor, and the few sequences that pytest and the progress line use."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.lines: list[list[str]] = [[]]
        self.row = self.column = 0

    def write(self, text: str) -> None:
        for part in _PART.finditer(text):
            if part["text"]:
                self._character(part["text"])
            elif part["what"]:
                self._move(part["what"], int(part["number"] or 1), part["number"])

    def text(self) -> str:
        return "\n".join("".join(line).rstrip() for line in self.lines).rstrip()

    def _character(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self._down()
        elif character.isprintable():
            if self.column == self.columns:
                self._down()
                self.column = 0
            line = self.lines[self.row]
            line += [" "] * (self.column + 1 - len(line))
            line[self.column] = character
            self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])

    def _move(self, what: str, number: int, given: str) -> None:
        if what == "A":
            self.row = max(0, self.row - number)
        elif what == "C":
            self.column = min(self.columns - 1, self.column + number)
        elif what == "J":
            assert not given, "only what is below is erased"
            del self.lines[self.row][self.column :]
            del self.lines[self.row + 1 :]
        elif what == "K":
            del self.lines[self.row][self.column :]
        elif what != "m":
            raise AssertionError(f"a sequence that nobody should send: {what}")


def run_on_terminal(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], columns: int = 80, limit: float = 60.0
) -> tuple[int, str]:
    """Run a program on a terminal of its own; return its exit code and all that it wrote there."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        command, cwd=cwd, env=dict(env), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    written = bytearray()
    give_up = time.monotonic() + limit
    try:
        while time.monotonic() < give_up:
            if not select.select([ours], [], [], 0.2)[0]:
                continue
            try:
                data = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            written += data
        return process.wait(timeout=10), written.decode(errors="replace")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)
