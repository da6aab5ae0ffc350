"""Which values are rewards, whoever gives them: finite numbers. A missing one is never a number."""

from __future__ import annotations

import math
from typing import Any

from pytest_rlenv.errors import RewardInvalid

LARGEST_REWARD = 1e100
"""A number further from 0 is no reward: sums and squares of a few of them would be no numbers any more."""
TOO_LARGE = f"further from 0 than {LARGEST_REWARD:g} is no reward"

_SHOWN_CHARS = 80


def finite_reward(value: Any, what: str, *, booleans: bool = False, hint: str = "") -> float:
    """Return a decoded JSON value as a reward.

    Args:
        value: the value.
        what: where it was found, as the beginning of a message.
        booleans: True to take true for 1 and false for 0.
        hint: what to do about a value that is none.

    Raises:
        RewardInvalid: it is no number, or not a finite one, or no reward for its size.
    """
    if not isinstance(value, (int, float)) or (isinstance(value, bool) and not booleans):
        kinds = "Only numbers, true and false are rewards" if booleans else "Only numbers are rewards"
        raise RewardInvalid(
            f"{what} is {json_kind(value)}, not a number", hint=hint or f"{kinds}; null is not 0."
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isnan(number):
        raise RewardInvalid(f"{what} is not a number (NaN)", hint=hint)
    if not math.isfinite(number):
        raise RewardInvalid(f"{what} is too large for a number ({number})", hint=hint)
    if abs(number) > LARGEST_REWARD:
        raise RewardInvalid(f"{what} is {number:g}: {TOO_LARGE}", hint=hint)
    return number


def json_kind(value: Any) -> str:
    """Return what a decoded JSON value is, in words for a message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the string {shown(value)}"
    return "an object" if isinstance(value, dict) else "an array"


def shown(text: str) -> str:
    """Return text for a message: quoted, cut, all of it printable."""
    text = text.strip()
    cut = text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
    return repr(cut) if cut.isprintable() else ascii(cut)
