"""A request as it is compared with a recorded one: without what differs from one run to the next anyway."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

LEFT_OUT = frozenset(
    {
        "client_metadata",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "stream_options",
        "user",
    }
)
"""Fields of a request that say nothing of what is asked."""

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[AaPp][Mm]\b)?"

MASKS: tuple[tuple[str, str], ...] = (
    (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "<uuid>"),
    (rf"\b\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]{_CLOCK})?(?:\s?(?:Z\b|UTC\b|[+-]\d{{2}}:?\d{{2}}\b))?", "<time>"),
    (
        rf"\b(?:{_DAY},?\s+)?{_MONTH}\s+\d{{1,2}}\b(?:,?\s+\d{{4}}\b)?(?:\s+{_CLOCK})?(?:\s+[A-Z]{{3,4}}\b)?(?:\s+\d{{4}}\b)?",
        "<time>",
    ),
    (rf"\b(?:{_DAY},?\s+)?\d{{1,2}}\s+{_MONTH}\s+\d{{4}}\b(?:\s+{_CLOCK})?", "<time>"),
    (rf"\b\d{{1,2}}/\d{{1,2}}/\d{{4}}\b(?:,?\s+{_CLOCK})?", "<time>"),
    (r"\b\d{2}:\d{2}:\d{2}(?:[.,]\d+)?\b", "<time>"),
    (r"(?<![\d.])1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9}|\.\d+)?(?!\d)", "<time>"),
    (r"\b\d+m\d+(?:\.\d+)?s\b", "<seconds>"),
    (r"\b\d+(?:\.\d+)?\s?(?:ms|[µu]s|ns|s|sec|secs|seconds)\b", "<seconds>"),
    (r"(?<=/tmp/)(?:tmp[.\w]*|[\w-]*\.[A-Za-z0-9]{6,})", "<temporary>"),
    (r"(?i)\b(?:p[gps]?id|process id)s?\b\W{1,3}\d+\b", "<process>"),
    (r"\b(?:127\.0\.0\.1|localhost):\d{2,5}\b", "<here>"),
    (r"\b(?:ses|msg|prt|session)_[A-Za-z0-9]{12,}\b", "<id>"),
    (r"(?<![\w./-])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{12}(?![\w./-])", "<host>"),
)
"""What is taken for the same in a text: a pattern, and the word that stands in its place."""


class Comparing:
    """Makes requests comparable.

    Args:
        ignore: further patterns; what they match is taken for the same.

    Raises:
        re.error: one is no regular expression.
    """

    def __init__(self, ignore: Sequence[str] = ()) -> None:
        patterns = [*((pattern, "<ignored>") for pattern in ignore), *MASKS]
        self._masks = [(re.compile(pattern), word) for pattern, word in patterns]

    def plain(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return a request's body as it is compared."""
        return {key: self._masked(value) for key, value in body.items() if key not in LEFT_OUT}

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            for pattern, word in self._masks:
                value = pattern.sub(word, value)
            return value
        if isinstance(value, dict):
            return {key: self._masked(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._masked(each) for each in value]
        return value


def digest(path: str, plain: dict[str, Any]) -> str:
    """Return a word that two requests share if they are the same."""
    text = json.dumps([path, plain], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def check_pattern(text: str) -> str:
    """Return a pattern of what a replay ignores, as it is.

    Raises:
        ValueError: it is no regular expression.
    """
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None
    return text
