"""What a provider's error means: whose fault it is decides whether a rollout is judged."""

from __future__ import annotations

import re

from pytest_rlenv.model_proxy.ledger import End

_CONTEXT = re.compile(
    r"context[ _-]?(?:length|window|size)|maximum (?:context|prompt|input)|prompt is too long|too many tokens"
    r"|input (?:is )?too long|input token count|exceeds? .{0,40}token|reduce the length",
    re.IGNORECASE,
)
_REFUSAL = re.compile(r"content_?(?:filter|policy)|safety|moderation|invalid_prompt", re.IGNORECASE)
_FILTERED = re.compile(r"(?:blocked|filtered) (?:by|due to) .{0,80}polic|\bflagged\b", re.IGNORECASE)
_KEY = re.compile(
    r"(?:invalid|incorrect|missing|no|not valid).{0,30}api.?key|api.?key.{0,30}(?:not valid|invalid)",
    re.IGNORECASE,
)
_CREDIT = re.compile(
    r"insufficient_quota|credit balance|insufficient.{0,20}(?:balance|credit|funds)", re.IGNORECASE
)
_MODEL = re.compile(
    r"model_not_found|(?:unknown|invalid|no such|unsupported) model|model .{0,80}not (?:exist|found)",
    re.IGNORECASE,
)


def end_of(status: int, code: str, message: str) -> End:
    """Return how a call ended that was answered with an error.

    Args:
        status: the HTTP status; 0 for an error in the middle of an answer.
        code: the provider's word for it.
        message: what it says.
    """
    said = f"{code} {message}"
    if status in (400, 403) and (_FILTERED.search(message) or (status == 403 and _REFUSAL.search(code))):
        return End.REFUSED
    if status == 413 and "rate_limit" in code:  # so many tokens a minute, which no pause will make more
        return End.BUSY
    if _CREDIT.search(said) or status in (401, 402, 403) or (status == 400 and _KEY.search(said)):
        return End.DENIED
    if status in (400, 413, 422) or status == 0:
        if status == 413 or _CONTEXT.search(said):
            return End.CONTEXT
        if _REFUSAL.search(code):
            return End.REFUSED
        if status and _MODEL.search(said):
            return End.NOT_FOUND
        return End.INVALID if status else End.BROKEN
    if status == 404:
        return End.NOT_FOUND
    if status == 429:
        return End.BUSY
    return End.BROKEN if status >= 500 or status in (408, 409, 425) else End.INVALID
