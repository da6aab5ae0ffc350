"""A rollout's folder as strangers left it: which files it holds, and a part of the text of one.

What an agent or a verifier wrote is in there, so a link may point anywhere on this machine, and a file may be
of any size and any bytes. Links are not followed.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from pytest_rlenv.text import decode

MAX_FILES = 1000
"""Files of one rollout's folder that are looked at; an agent may have left a million."""

_PROBE = 8192
"""Bytes at the start of a file in which a NUL tells that it is no text."""


@dataclass(frozen=True)
class StoredFile:
    """A regular file.

    Attributes:
        path: where it is.
        parts: its name below the rollout's folder; safe to show.
        size: its bytes.
    """

    path: Path
    parts: tuple[str, ...]
    size: int

    @property
    def name(self) -> str:
        """The name below the rollout's folder."""
        return "/".join(self.parts)

    def below(self, folder: str) -> tuple[str, str] | None:
        """Return the step, and the name in that step's ``folder``; ``None`` if the file is not in there.

        The step of a task without steps is ``""``.
        """
        if self.parts[0] == folder and len(self.parts) > 1:
            return "", "/".join(self.parts[1:])
        if self.parts[0] == "steps" and len(self.parts) > 3 and self.parts[2] == folder:
            return self.parts[1], "/".join(self.parts[3:])
        return None


@dataclass(frozen=True)
class Excerpt:
    """A part of a file's text.

    Attributes:
        text: what is shown, safe for people and JSON.
        cut: bytes of the file that are not.
    """

    text: str
    cut: int


def locate(run: Path, logs: object) -> Path | None:
    """Return a rollout's folder, as its record names it; ``None`` if that is not inside the run's folder."""
    if not isinstance(logs, str) or not logs:
        return None
    try:
        root = run.resolve()
        folder = (root / logs).resolve()
        inside = folder != root and folder.is_relative_to(root)
        return folder if inside and folder.is_dir() else None
    except (OSError, ValueError, RuntimeError):  # too long, a NUL in the name, a loop of links
        return None


def list_files(folder: Path) -> tuple[list[StoredFile], bool]:
    """Return the regular files below a folder by name, and whether there are more than are looked at."""
    found: list[StoredFile] = []
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(where) / name
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                continue
            if len(found) == MAX_FILES:
                return found, True
            parts = (decode(os.fsencode(part)) for part in path.relative_to(folder).parts)
            found.append(StoredFile(path, tuple(parts), status.st_size))
    return found, False


def read_end(file: StoredFile, most: int) -> Excerpt | None:
    """Return the end of a text, from the beginning of a line where one is near; ``None`` if it is no text.

    Args:
        file: the file.
        most: bytes to show.
    """
    with file.path.open("rb") as opened:
        if b"\0" in opened.read(_PROBE):
            return None
        begin = max(file.size - most, 0)
        opened.seek(begin)
        data = opened.read(most)
    line = data.find(b"\n", 0, _PROBE) if begin else -1
    if 0 <= line < len(data) - 1:
        data, begin = data[line + 1 :], begin + line + 1
    return Excerpt(decode(data).rstrip("\n"), begin)


def read_start(file: StoredFile, most: int) -> Excerpt:
    """Return the beginning of a text.

    Args:
        file: the file.
        most: bytes to show.
    """
    with file.path.open("rb") as opened:
        data = opened.read(most)
    return Excerpt(decode(data), max(file.size - len(data), 0))
