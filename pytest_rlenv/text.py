"""Bytes and objects of unknown origin as text that people, JSON and XML can take."""

from __future__ import annotations

import re

TAIL_LINES = 20
TAIL_CHARS = 2000

# What XML 1.0 cannot hold, and escape sequences that would paint the reader's terminal. The first is not
# spelt as all but what may be, as Python takes 4 ms of each start to compile that.
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")


def decode(data: bytes) -> str:
    """Return bytes as safe text: bytes that are not UTF-8 and characters illegal in XML become U+FFFD."""
    return clean(data.decode("utf-8", errors="replace"))


def clean(text: str) -> str:
    """Return a text that UTF-8, XML and terminals can take: anything else becomes U+FFFD."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNSAFE.sub("\ufffd", _ANSI.sub("", plain))


def text_of(value: object) -> str:
    """Return what ``str`` says of a stranger's object, as safe text; it may have none that works."""
    try:
        return clean(str(value))
    except Exception as error:
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def tail(text: str, *, lines: int = TAIL_LINES, chars: int = TAIL_CHARS) -> str:
    """Return the end of a text: at most ``lines`` lines and ``chars`` characters, marked where it was cut."""
    text = text.strip("\n")
    kept = "\n".join(text.splitlines()[-lines:])[-chars:]
    return kept if kept == text else f"[... {len(text) - len(kept)} characters cut]\n{kept}"
