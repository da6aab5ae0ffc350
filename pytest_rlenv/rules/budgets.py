"""Budgets of a run: time, money and errors. Once one is used up no more rollouts are started.

Those that are under way end as they do; the rest is skipped with the reason, and none of it is failed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from pytest_rlenv.amounts import parse_duration
from pytest_rlenv.usage import COST, cost_of

FEWEST_ENDED = 10
"""Rollouts that must have ended before a share of errors says anything."""


class ErrorLimit(NamedTuple):
    """How many errors a run may have: a number, or a share of the rollouts that ended."""

    number: int | None = None
    share: float | None = None

    @classmethod
    def parse(cls, text: str) -> ErrorLimit:
        """Read ``5`` or ``20%``.

        Raises:
            ValueError: it is neither, 0, or more than 100 %.
        """
        wrong = ValueError(f"{text!r} is neither a number of errors such as 5 nor a share such as 20%")
        try:
            if text.strip().endswith("%"):
                share = float(text.strip()[:-1])
                if not 0 < share <= 100:
                    raise wrong
                return cls(share=share / 100)
            number = int(text)
        except ValueError:
            raise wrong from None
        if number < 1:
            raise wrong
        return cls(number=number)


def parse_seconds(value: object) -> object:
    """Return a duration such as ``30m``, or a bare number, in seconds.

    Raises:
        ValueError: it is neither.
    """
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return parse_duration(value)


def check_error_limit(text: object) -> object:
    """Return the text of an error limit as it is.

    Raises:
        ValueError: it is not one.
    """
    ErrorLimit.parse(str(text))
    return str(text)


def time_is_up(seconds: float) -> str:
    """Return the reason to stop when the time is used up."""
    return f"the time budget of {seconds:g} s is used up (--rlenv-max-seconds)"


class Budgets:
    """Counts what money and errors a run has taken. Time is looked at by whoever starts a rollout.

    Args:
        cost: US dollars; ``None`` is no limit.
        errors: ``None`` is no limit.
    """

    def __init__(self, *, cost: float | None, errors: ErrorLimit | None) -> None:
        self._cost_limit = cost
        self._errors_limit = errors
        self._costs: list[float] = []
        self._ended = 0
        self._errors = 0

    @property
    def cost(self) -> float | None:
        """US dollars so far; ``None`` if no rollout said what it cost."""
        return math.fsum(self._costs) if self._costs else None

    def count(self, record: Mapping[str, Any], *, rerun: bool = False) -> str | None:
        """Count a rollout that ended, and return why no more are to be started, if a budget is used up.

        What is skipped has not ended, and what is in quarantine is no error that counts; both may cost.

        Args:
            record: the rollout's.
            rerun: True if its test is run again by another plugin: it cost, and its verdict does not count.
        """
        if record.get("resumed_from"):  # it took nothing of this run
            return None
        cost = cost_of(record)
        if cost is not None:
            self._costs.append(cost)
        if record["verdict"] != "skipped" and not rerun and not record.get("quarantine"):
            self._ended += 1
            self._errors += record["verdict"] == "error"
        return self._cost_used_up() or self._errors_used_up()

    def _cost_used_up(self) -> str | None:
        spent = self.cost
        if self._cost_limit is None or spent is None or spent < self._cost_limit:
            return None
        return (
            f"the cost budget of {self._cost_limit:g} USD is used up: {spent:.2f} USD by usage.{COST} "
            "(--rlenv-max-cost)"
        )

    def _errors_used_up(self) -> str | None:
        limit = self._errors_limit
        if limit is None or not self._errors:
            return None
        if limit.number is not None and self._errors >= limit.number:
            had = "was 1 error" if self._errors == 1 else f"were {self._errors} errors"
            return f"there {had} (--rlenv-max-errors {limit.number})"
        enough = self._ended >= FEWEST_ENDED
        if limit.share is not None and enough and self._errors >= limit.share * self._ended:
            told = f"--rlenv-max-errors {limit.share * 100:g}%"
            return f"{self._errors} of {self._ended} rollouts were errors ({told})"
        return None
