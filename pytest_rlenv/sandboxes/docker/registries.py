"""What a registry's refusal means, in the engine's words, and what to do about it."""

from __future__ import annotations

import re

from pytest_rlenv.errors import ImageUnavailable

_RATE_LIMIT = re.compile(r"toomanyrequests|too many requests|\b429\b|rate limit")
_NO_ACCESS = re.compile(
    r"denied|unauthorized|authentication required|no basic auth credentials|forbidden|\b40[13]\b"
)
_NOT_THERE = re.compile(r"not found|manifest unknown|name unknown|does not exist|no matching manifest")
_PASSING = re.compile(
    r"\b50[0234]\b|timeout|timed out|connection reset|unexpected eof|temporary failure|try again"
)
_WORDS = 300


def is_rate_limit(reason: str) -> bool:
    """Return True if a registry gives no more for now."""
    return bool(_RATE_LIMIT.search(reason.lower()))


def may_pass(reason: str) -> bool:
    """Return True for a refusal that a later try may get past."""
    return is_rate_limit(reason) or bool(_PASSING.search(_without_digests(reason)))


def image_unavailable(name: str, reason: str) -> ImageUnavailable:
    """Return the error for an image that a registry does not give us.

    Args:
        name: the image's.
        reason: the engine's words.
    """
    low = _without_digests(reason)
    if is_rate_limit(low):
        hint = (
            "the registry's rate limit is used up: `docker login` (accounts may pull more), use a mirror, "
            "or pull it beforehand"
        )
    elif _NO_ACCESS.search(low):
        hint = f"is {name!r} spelled right? A private image needs `docker login` first"
    elif _NOT_THERE.search(low):
        hint = f"is {name!r} spelled right, and is there such a tag for this machine's architecture?"
    else:
        hint = (
            "the engine cannot reach the registry: check its network and proxy, or load the image beforehand"
        )
    return ImageUnavailable(
        f"image {name!r} is not here and cannot be pulled: {one_line(reason)}", hint=hint, detail=reason
    )


def one_line(text: str) -> str:
    """Return a text in one line of a length that can be read."""
    line = " ".join(text.split())
    return line if len(line) <= _WORDS else f"{line[:_WORDS]} ..."


def _without_digests(reason: str) -> str:
    """Return a reason in lower case without hexadecimal words, whose digits mean nothing."""
    return re.sub(r"\b[0-9a-f]{12,}\b", "", reason.lower())
