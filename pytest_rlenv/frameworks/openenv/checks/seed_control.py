"""Whether the seed of a reset decides how an episode begins. It need not: nothing here is a failure."""

from __future__ import annotations

from pytest_rlenv.errors import EnvironmentFailed, TaskInvalid
from pytest_rlenv.frameworks.openenv.checks.findings import Findings
from pytest_rlenv.frameworks.openenv.host import Host


def seed_control(host: Host, found: Findings) -> None:
    """Begin with the task's own seed and with another, and note if both begin alike."""
    own = host.task.reset.get("seed", 0)
    first = own if isinstance(own, int) and not isinstance(own, bool) else 0
    with host.episode({**host.task.reset, "seed": first}) as ground:
        begun = ground.begin.observation
    try:
        with host.episode({**host.task.reset, "seed": first + 1}) as ground:
            alike = ground.begin.observation == begun
    except (EnvironmentFailed, TaskInvalid) as error:
        host.note("seed-refused", f"the environment does not take seed {first + 1}: {error.message}")
    else:
        if alike:
            told = f"seeds {first} and {first + 1} begin alike: the seed may not decide anything"
            host.note("seed-ignored", told)
    found.see("seeds", True)
