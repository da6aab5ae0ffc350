"""Texts of unknown origin in so many columns of a terminal."""

from __future__ import annotations

import unicodedata

from pytest_rlenv.text import clean

_CUT = "..."


def width_of(text: str) -> int:
    """Return how many columns a text takes."""
    return sum(_columns(character) for character in text)


def fit(text: str, width: int) -> str:
    """Return a text as one line of at most ``width`` columns, marked where it was cut."""
    line = " ".join(clean(text).split("\n"))
    if width_of(line) <= width:
        return line
    kept, room = [], width - len(_CUT)
    for character in line:
        room -= _columns(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept) + _CUT[: max(0, width)]


def padded(text: str, width: int) -> str:
    """Return a text in exactly ``width`` columns."""
    line = fit(text, width)
    return line + " " * (width - width_of(line))


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
