"""How far a pull is, for who waits for it: no word of a short one, a line now and then of a long one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from pytest_rlenv.amounts import show_size

FIRST_AFTER = 5.0
"""Seconds that a pull may take without a word."""
THEN_EVERY = 15.0

_DONE = ("Pull complete", "Already exists")


class PullProgress:
    """Follows the engine's messages about one pull.

    Args:
        name: the image's.
        notify: told a line; ``None`` for nobody.
        clock: seconds since any moment.
    """

    def __init__(
        self, name: str, notify: Callable[[str], None] | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._notify = notify
        self._clock = clock
        self._begin = clock()
        self._next = self._begin + FIRST_AFTER
        self._told = False
        self._layers: dict[str, bool] = {}
        self._bytes: dict[str, tuple[int, int]] = {}

    def take(self, message: Mapping[str, Any]) -> None:
        """Take one message of the engine's stream."""
        layer, status = str(message.get("id") or ""), str(message.get("status") or "")
        if layer and not status.startswith("Pulling from"):
            self._layers[layer] = self._layers.get(layer, False) or status in _DONE
        detail = message.get("progressDetail") or {}
        if layer and status == "Downloading" and detail.get("total"):
            self._bytes[layer] = (int(detail.get("current") or 0), int(detail["total"]))
        if status in ("Download complete", *_DONE) and layer in self._bytes:
            total = self._bytes[layer][1]
            self._bytes[layer] = (total, total)
        if self._clock() >= self._next:
            self._next = self._clock() + THEN_EVERY
            self._tell(f"pulling {self._name}: {self._how_far()}")

    def retry(self, reason: str, wait: float, attempt: int, tries: int) -> None:
        """Say that the pull failed and is tried again."""
        self._tell(f"pulling {self._name} failed ({reason}); try {attempt} of {tries} in {wait:.0f} s")

    def finish(self) -> None:
        """Say that it is done, if anything was said before."""
        if self._told:
            self._tell(f"pulled {self._name} in {self._clock() - self._begin:.0f} s")

    def _how_far(self) -> str:
        got = sum(current for current, _ in self._bytes.values())
        total = sum(whole for _, whole in self._bytes.values())
        layers = f"{sum(self._layers.values())} of {len(self._layers)} layers"
        return f"{show_size(got)} of {show_size(total)}, {layers}" if total else layers

    def _tell(self, line: str) -> None:
        if self._notify is not None:
            self._notify(line)
            self._told = True
