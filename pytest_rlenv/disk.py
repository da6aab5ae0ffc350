"""Free space: what would fill a disk is refused before it begins, and a full disk is one error everywhere."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_rlenv.amounts import show_size
from pytest_rlenv.errors import DiskFull, Stage

MIN_FREE = 1 << 30
"""Bytes that must be free where an image goes before it is made.

About what one usual image of a task takes. With less, an engine begins to fail in ways that look like faults
of the task, and so does everybody else on the machine.
"""

CURE = (
    "`python -m pytest_rlenv prune` removes images that are not in use, `docker system df` shows what else "
    "fills an engine's disk"
)
CACHE_CURE = (
    "free some (`python -m pytest_rlenv prune` removes images that are not in use), or put the cache "
    "elsewhere with RLENV_CACHE"
)
HUB_CURE = "free some (`hf cache ls` shows what is in the Hub's cache), or put it elsewhere with HF_HOME"
OUTPUT_CURE = "free some, or send results elsewhere with --rlenv-output"

_FULL = (errno.ENOSPC, errno.EDQUOT)
_WORDS = ("no space left on device", "disk quota exceeded")
_SOME_BYTES, _SOME_FILES = 64 << 20, 1000
"""What a disk has left if it is not itself what refuses to take a few files more."""


def is_full(error: OSError) -> bool:
    """Return True if an error of this machine says that a disk or a quota is full."""
    return error.errno in _FULL


def says_full(text: str) -> bool:
    """Return True if a text of another program says so."""
    return any(words in text.lower() for words in _WORDS)


def disk_full(
    doing: str, place: Path | str, *, stage: Stage | None = None, hint: str = CURE, detail: str = ""
) -> DiskFull:
    """Return the error for a disk of this machine that was found full.

    Args:
        doing: what could not be done, in the words of "cannot <doing>".
        place: where.
        stage: when, if that is known.
        hint: what to do about it.
        detail: the evidence.
    """
    left = free(Path(place))
    how = "" if left is None else f" ({show_size(left)} free)"
    return DiskFull(f"cannot {doing}: no space left at {place}{how}", hint=hint, detail=detail, stage=stage)


@contextmanager
def full_as_error(
    doing: str, place: Path | str, *, stage: Stage | None = None, hint: str = CURE
) -> Iterator[None]:
    """Turn an error that says that the disk is full into DiskFull; others pass."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        raise disk_full(doing, error.filename or place, stage=stage, hint=hint) from error


def require_free(
    place: Path, needed: int, *, doing: str, stage: Stage | None = None, hint: str = CURE
) -> None:
    """Refuse to begin something where there is less free than it needs.

    Args:
        place: where it would go; it need not be there yet.
        needed: bytes; 0 asks for nothing.
        doing: what would be done, in the words of "cannot <doing>".
        stage: when this is.
        hint: what to do about it.

    Raises:
        DiskFull: naming the place, what is free there and what is needed.
    """
    left = free(place) if needed else None
    if left is not None and left < needed:
        raise DiskFull(
            f"cannot {doing}: no space left at {place}: {show_size(left)} free, {show_size(needed)} needed",
            hint=f"{hint}; --rlenv-min-free sets what is needed",
            stage=stage,
        )


def free(place: Path) -> int | None:
    """Return the bytes that this user can still write at a place; ``None`` where that cannot be told.

    The nearest folder above answers for one that is not there yet.
    """
    for folder in (place, *place.parents):
        try:
            found = os.statvfs(folder)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        return found.f_bavail * found.f_frsize
    return None


def has_room(place: Path) -> bool:
    """Return True if a disk is certainly not full: neither of bytes nor of files."""
    try:
        found = os.statvfs(place)
    except OSError:
        return False
    # file systems without a fixed number of files say 0
    files = found.f_files == 0 or found.f_favail > _SOME_FILES
    return files and found.f_bavail * found.f_frsize > _SOME_BYTES
