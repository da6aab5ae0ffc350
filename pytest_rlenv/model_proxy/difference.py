"""The first place where two requests differ, told so that one sees why."""

from __future__ import annotations

import json
from typing import Any

_SHOWN = 60
_BEFORE = 20
_MISSING = object()


def first_difference(recorded: Any, now: Any, where: str = "") -> str | None:
    """Return where two JSON values differ first, and how: ``messages[3].content: recorded ..., now ...``.

    Args:
        recorded: the one that is expected.
        now: the one that came.
        where: the place of both; empty for the top.
    """
    if isinstance(recorded, dict) and isinstance(now, dict):
        pairs = [
            (f"{where}.{key}" if where else str(key), recorded.get(key, _MISSING), now.get(key, _MISSING))
            for key in [*recorded, *(key for key in now if key not in recorded)]
        ]
    elif isinstance(recorded, list) and isinstance(now, list):
        pairs = [
            (
                f"{where}[{index}]",
                recorded[index] if index < len(recorded) else _MISSING,
                now[index] if index < len(now) else _MISSING,
            )
            for index in range(max(len(recorded), len(now)))
        ]
    elif recorded == now and type(recorded) is type(now):
        return None
    else:
        return f"{where}: {_told(recorded, now)}"
    for place, one, other in pairs:
        if (found := first_difference(one, other, place)) is not None:
            return found
    return None


def _told(recorded: Any, now: Any) -> str:
    if now is _MISSING:
        return f"recorded {_short(recorded)}, now there is nothing"
    if recorded is _MISSING:
        return f"recorded nothing, now {_short(now)}"
    if isinstance(recorded, str) and isinstance(now, str):
        at = next(
            (index for index, (a, b) in enumerate(zip(recorded, now, strict=False)) if a != b),
            min(len(recorded), len(now)),
        )
        start = max(0, at - _BEFORE)
        return f"recorded {_cut(recorded, start)}, now {_cut(now, start)}"
    return f"recorded {_short(recorded)}, now {_short(now)}"


def _cut(text: str, start: int) -> str:
    piece = text[start : start + _SHOWN]
    before, after = "..." if start else "", "..." if start + _SHOWN < len(text) else ""
    return f"{before}{json.dumps(piece, ensure_ascii=False)}{after}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
