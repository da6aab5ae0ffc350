"""Wait until the task's health check succeeds (Harbor 0.26: ``[environment.healthcheck]``)."""

from __future__ import annotations

import time

from pytest_rlenv.errors import HealthcheckFailed
from pytest_rlenv.frameworks.harbor.config import HealthcheckConfig
from pytest_rlenv.sandboxes.protocol import Box
from pytest_rlenv.text import decode, tail
from pytest_rlenv.verdict import number


def wait_until_healthy(box: Box, check: HealthcheckConfig, *, user: str | int | None = None) -> None:
    """Run the check until it exits 0, as the image's own user if none is named.

    Failures within ``start_period_sec`` are free; after it, ``retries`` failures in a row are the end. A
    check that exceeds its own time limit is the end at once, as in Harbor.

    Raises:
        HealthcheckFailed: with the command, its last exit code and the tail of its output.
    """
    begin = time.monotonic()
    failures = 0
    while True:
        done = box.run(["bash", "-c", check.command], user=user, timeout=check.limit)
        if done.exit_code == 0:
            return
        if done.timed_out:
            raise HealthcheckFailed(
                f"health check `{check.command}` did not end within {number(check.limit or 0)} s",
                hint="make the command end by itself, or raise healthcheck.timeout_sec",
                detail=tail(decode(done.output)),
            )
        starting = time.monotonic() - begin < check.start_period_sec
        failures = 0 if starting else failures + 1
        if failures >= check.retries:
            raise HealthcheckFailed(
                f"health check `{check.command}` exited {done.exit_code}, {failures} times in a row",
                hint="the task's service never became ready; see the output, or raise healthcheck.retries",
                detail=tail(decode(done.output)),
            )
        time.sleep(check.start_interval_sec if starting else check.interval_sec)
