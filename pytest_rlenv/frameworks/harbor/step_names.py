"""Names of steps: each is one folder name on every operating system."""

from __future__ import annotations

import re
import unicodedata

_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_DEVICE = re.compile(r"(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[1-9¹²³])", re.IGNORECASE)
_MAX_BYTES = 255


def check_step_name(name: str) -> str:
    """Return the name.

    Raises:
        ValueError: it is empty, too long, or not a folder name on Linux, macOS and Windows alike.
    """
    bad = (
        not name.strip()
        or name.endswith((".", " "))
        or _FORBIDDEN.search(name)
        or _DEVICE.fullmatch(name.partition(".")[0].rstrip(" "))
        or len(name.encode("utf-8")) > _MAX_BYTES
    )
    if bad:
        raise ValueError(f"expected a folder name that every system takes, of at most {_MAX_BYTES} bytes")
    return name


def step_name_key(name: str) -> str:
    """Return the form by which two names are one folder on some file system."""
    return unicodedata.normalize("NFC", name).casefold()
