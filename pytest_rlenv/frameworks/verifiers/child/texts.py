"""Texts of a taskset's, cut to what a message can be: an error may hold a whole document."""

from __future__ import annotations

LINE_CHARS = 2000
END_CHARS = 20_000


def one_line(text: str) -> str:
    """Return a text in one line, with its end left out if it is too long."""
    line = " ".join(text[:LINE_CHARS].split())
    return line if len(text) <= LINE_CHARS else f"{line} [... {len(text) - LINE_CHARS} characters cut]"


def end_of(text: str) -> str:
    """Return the end of a text, where a traceback says what was raised."""
    return text[-END_CHARS:]
