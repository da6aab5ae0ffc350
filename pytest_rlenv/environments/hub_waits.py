"""Waiting for the Hub, and what the client logs meanwhile: how long before a retry, what the user is told."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

LONGEST_WAIT_SEC = 30.0
"""A wait that is longer is not worth it: the run fails and names it."""

_BUSY = (408, 500, 502, 503, 504)
_CLIENT_WAITS = re.compile(r"Rate limited\. Waiting ([\d.]+)s")
_QUIET_SEC = 5.0


def rate_limit_wait(response: Any) -> float | None:
    """Return the seconds that a 429 answer asks to wait, if it does."""
    from huggingface_hub.utils import parse_ratelimit_headers  # type: ignore[attr-defined]  # lazy export

    info = parse_ratelimit_headers(response.headers)
    if info is not None and info.remaining == 0:
        return float(info.reset_in_seconds)
    after = response.headers.get("Retry-After", "").strip()
    return float(after) if after.isdigit() else None


def is_network(error: BaseException) -> bool:
    """Whether no answer came at all: refused, unknown host, timed out, cut off.

    By module name: the client's HTTP library is ``httpx`` in 1.x and ``httpx2`` in 2.x, not ours to import.
    """
    library = type(error).__module__.partition(".")[0] in ("httpx", "httpx2")
    return library and type(error).__name__ not in ("InvalidURL", "UnsupportedProtocol")


def pause_before_retry(error: Exception, attempt: int) -> float | None:
    """Return how many seconds to wait before asking again, ``None`` to give up.

    Args:
        error: what the attempt ended with.
        attempt: counted from 1.
    """
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    if isinstance(error, LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # the client's wrapping of "could not ask"
    own = float(2 ** (attempt - 1))
    if isinstance(error, HfHubHTTPError):
        if error.response.status_code == 429:
            asked = rate_limit_wait(error.response)
            pause = own if asked is None else asked + 1  # the client's own rule: seconds are rounded down
            return pause if pause <= LONGEST_WAIT_SEC + 1 else None
        return own if error.response.status_code in _BUSY and attempt < 4 else None
    # Once only: an unplugged machine should fall back to its cache without delay.
    return own if is_network(error) and attempt == 1 else None


@contextmanager
def without_no_match_warning() -> Iterator[None]:
    """Keep the client from warning that a listing was asked for and no file."""
    logger = logging.getLogger("huggingface_hub._snapshot_download")

    def is_other(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("No files matched")

    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


class RelayedWaits(logging.Handler):
    """While entered, tells of the waits that the client makes inside a call and only logs.

    They last up to five minutes each, and pytest captures the log.
    """

    _lock_of_all = threading.Lock()
    _last_told = 0.0

    def __init__(self, notify: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = notify

    def __enter__(self) -> None:
        logging.getLogger("huggingface_hub").addHandler(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger("huggingface_hub").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Pass on one line of all that dozens of downloading threads log at the same time."""
        waits = _CLIENT_WAITS.search(record.getMessage())
        if not waits:
            return
        with self._lock_of_all:
            now = time.monotonic()
            if now - RelayedWaits._last_told < _QUIET_SEC:
                return
            RelayedWaits._last_told = now
        self._tell(
            f"the Hub limits our rate: waiting {float(waits.group(1)):.0f} s (a token raises the limit)"
        )
