"""Retries: a rollout that an error ended is run again as a whole, in a fresh sandbox, and every try is kept.

A verdict on the agent is never retried: what passed, failed or was skipped stays as it is.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from threading import Event

from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.execution import Judged
from pytest_rlenv.rollout import ErrorInfo, Rollout, TryRecord
from pytest_rlenv.rules.error_words import INTERNAL
from pytest_rlenv.verdict import Outcome

FIRST_PAUSE = 1.0
"""Seconds before the second try, at most; each further pause may be twice as long."""
LONGEST_PAUSE = 60.0
LOOK = 0.25
"""Seconds between two looks at whether the run is stopped."""

ONLY_BY_NAME = frozenset({"DiskFull", "FetchFailed", "ImageUnavailable", INTERNAL})
"""Errors that a kind does not mean. A full disk stays full and ends the run; what comes from the Hub or a
registry was tried again already, with patience of its own; and a fault of ours is not to be hidden."""


class Retries:
    """How often rollouts of one process are tried, and after what.

    Args:
        limit: retries after the first try.
        on: kinds and types of errors that are worth one.
        stopped: why the run starts no more rollouts, if it does not.
        closing: set when the process lets go of its sandbox.
        notify: told in a line when somebody waits; ``None`` tells nobody.
    """

    def __init__(
        self,
        limit: int,
        on: Sequence[str],
        *,
        stopped: Callable[[], str | None],
        closing: Event,
        notify: Callable[[str], None] | None = None,
    ) -> None:
        self.limit = limit
        self._on = frozenset(on)
        self._stopped = stopped
        self._closing = closing
        self.notify = notify
        self._engine_gone = False
        """An engine that stayed away through all tries of one rollout is not waited for by the next ones."""

    def run(self, once: Callable[[int], Judged]) -> Judged:
        """Run a rollout until it is worth no further try; the last try's result holds the earlier ones.

        Args:
            once: runs it once in a fresh sandbox, given the number of the try from 1.
        """
        tries: list[TryRecord] = []
        while True:
            judged = once(len(tries) + 1)
            if not (self.are_worth(judged, tried=len(tries) + 1) and self._wait(judged.rollout, len(tries))):
                break
            tries.append(_try_of(judged.rollout))
        if tries:  # a rollout that was taken over from an earlier run has its own
            judged.rollout.tries = tries
        error = judged.rollout.error
        self._engine_gone = error is not None and error.type == EngineUnavailable.__name__
        return judged

    def are_worth(self, judged: Judged, *, tried: int) -> bool:
        """Return whether a rollout that was tried so often is worth another try."""
        error = judged.rollout.error
        if judged.verdict.outcome is not Outcome.ERROR or error is None or tried > self.limit:
            return False
        if error.type == EngineUnavailable.__name__ and self._engine_gone:
            return False
        return error.type in self._on or (error.kind.value in self._on and error.type not in ONLY_BY_NAME)

    def _wait(self, rollout: Rollout, retries: int) -> bool:
        """Wait before the next try; return False if the run is stopped meanwhile: then there is none."""
        pause = pause_before(retries)
        if self.notify is not None and rollout.error is not None:
            what, left = rollout.error.type, self.limit - retries
            self.notify(f"{rollout.task}: {what}; try {retries + 2} of {retries + 1 + left} in {pause:.0f} s")
        until = time.monotonic() + pause
        while not self._stopped():
            left_of_it = until - time.monotonic()
            if self._closing.wait(max(0.0, min(LOOK, left_of_it))):
                return False
            if left_of_it <= LOOK:
                return not self._stopped()
        return False


def pause_before(retries: int) -> float:
    """Return how long to wait before the next try, in seconds.

    It is never the same twice, so that rollouts that one fault ended do not come back all at once.

    Args:
        retries: how many there were already.
    """
    longest: float = min(FIRST_PAUSE * 2 ** min(retries, 30), LONGEST_PAUSE)
    return longest * random.uniform(0.5, 1.0)


def _try_of(rollout: Rollout) -> TryRecord:
    error: ErrorInfo | None = rollout.error
    assert error is not None  # nothing else is tried again
    return TryRecord(
        error=error,
        seconds=rollout.seconds,
        stages=rollout.stages,
        started_at=rollout.started_at,
        logs=rollout.logs,
        usage=rollout.usage,
    )
