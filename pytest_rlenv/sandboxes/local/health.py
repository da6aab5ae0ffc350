"""Waits for an image's own HEALTHCHECK, by Docker's rule."""

from __future__ import annotations

import time
from collections.abc import Callable

from pytest_rlenv.errors import BoxUnfit, Stage
from pytest_rlenv.sandboxes.local.imageconfig import HealthCheck
from pytest_rlenv.sandboxes.model import Completed

_EAGER = 0.25
_OUTPUT_CAP = 2000


def wait_healthy(check: HealthCheck, run: Callable[[tuple[str, ...], float], Completed]) -> None:
    """Return when the check has succeeded once.

    Docker looks after the first interval and counts failures from the end of the start period on. Until
    then, this looks more often, and does not count: a box is ready no later, and often sooner.

    Args:
        check: the image's.
        run: runs a command in the box within some seconds.

    Raises:
        BoxUnfit: it failed as often as it may.
    """
    begin = time.monotonic()
    uncounted = begin + max(check.start_period, check.interval)
    failures: list[Completed] = []
    while len(failures) < check.retries:
        started = time.monotonic()
        done = run(check.argv, check.timeout)
        if done.exit_code == 0:
            return
        if started >= uncounted:
            failures.append(done)
            pause = check.interval
        else:
            pause = min(_EAGER, check.interval, max(0.0, uncounted - time.monotonic()))
        if len(failures) < check.retries:
            time.sleep(pause)
    lines = [_describe(done) for done in failures]
    raise BoxUnfit(
        "the image's HEALTHCHECK failed",
        hint="its last results are below; it runs in the box as the image's user",
        detail="\n".join(lines),
        stage=Stage.HEALTHCHECK,
    )


def _describe(done: Completed) -> str:
    how = "timed out" if done.timed_out else f"exit code {done.exit_code}"
    return f"{how}: {done.output.decode('utf-8', 'replace').strip()[:_OUTPUT_CAP]}"
