"""Until when an answer must be there."""

from __future__ import annotations

import time


class Deadline:
    """Until when an answer must be there; set anew for each.

    Attributes:
        at: on the monotonic clock.
        passed: True once a read was ended by it.
    """

    def __init__(self) -> None:
        self.at = 0.0
        self.passed = False

    def set(self, seconds: float) -> None:
        """Begin anew: the next answer must be there after so many seconds."""
        self.at = time.monotonic() + seconds
        self.passed = False

    @property
    def is_over(self) -> bool:
        """True if the time is up."""
        return self.passed or time.monotonic() >= self.at
