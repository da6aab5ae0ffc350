"""What a check has found."""

from __future__ import annotations

from pytest_rlenv.frameworks.openenv.frames import brief
from pytest_rlenv.rollout import Checks

SOURCE = "rlenv"
_MOST_FAILING = 20


class Findings:
    """What was looked at, and what of it is wrong."""

    def __init__(self) -> None:
        self.rewards: dict[str, float] = {}
        """What was earned meanwhile, by who earned it."""
        self._passed = 0
        self._failing: list[str] = []

    def see(self, name: str, holds: bool, but: str = "") -> None:
        """Take note of one point."""
        if holds:
            self._passed += 1
        else:
            self._failing.append(brief(f"{name}: {but}" if but else name))

    def as_checks(self) -> Checks:
        """Return them as they are stored."""
        failed = len(self._failing)
        failing = self._failing[:_MOST_FAILING]
        return Checks(source=SOURCE, passed=self._passed, failed=failed, failing=failing)
