"""How long a task may take, by its own words: for the order in which rollouts begin, so quick and rough.

Apart from :mod:`~pytest_rlenv.frameworks.protocol`, since who only deals out tasks to others must not import
what runs them.
"""

from __future__ import annotations

from pathlib import Path

from pytest_rlenv.environments.layouts import HARBOR, TERMINAL_BENCH


def estimated_seconds(framework: str, folder: Path) -> float | None:
    """Return the seconds that the task in ``folder`` may take; ``None`` if that is not known.

    Args:
        framework: whose layout it has.
        folder: the task's; it may not be on this machine.
    """
    if framework == HARBOR:
        from pytest_rlenv.frameworks.harbor import estimate as of_harbor

        return of_harbor.estimated_seconds(folder)
    if framework == TERMINAL_BENCH:
        from pytest_rlenv.frameworks.terminal_bench import estimate as of_terminal_bench

        return of_terminal_bench.estimated_seconds(folder)
    return None
