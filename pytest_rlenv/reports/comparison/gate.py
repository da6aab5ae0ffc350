"""What a comparison can be made to fail on, and how great a fall it must rule out."""

from __future__ import annotations

from collections.abc import Collection

MARGIN = 0.05
"""The fall that "no regression" rules out, as a share of the range of rewards."""

FAIL_ON = ("regression", "inconclusive", "broken", "error", "gone")
"""What a comparison can be made to fail on: a verdict, any task that is broken, any that the baseline scored
and that is an error now, or any of the baseline's that the run was to have and does not."""

NOTHING_COMPARED = "nothing could be compared"
"""Whatever it was to fail on, a gate that has seen nothing does not pass."""


def parse_fail_on(text: str) -> tuple[str, ...]:
    """Read ``regression,broken``.

    Raises:
        ValueError: a word is none of :data:`FAIL_ON`.
    """
    words = tuple(filter(None, text.replace(",", " ").split()))
    check_fail_on(words)
    return words


def check_fail_on(words: Collection[str]) -> None:
    """Refuse other words than those of :data:`FAIL_ON`.

    Raises:
        ValueError: naming the first of them.
    """
    for word in words:
        if word not in FAIL_ON:
            raise ValueError(f"{word!r} is none of {', '.join(FAIL_ON)}")


def parse_margin(text: str) -> float:
    """Read a share of the range of rewards.

    Raises:
        ValueError: it is no number above 0 and up to 1.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise ValueError(f"{text!r} is no number above 0 and up to 1")
    return value
