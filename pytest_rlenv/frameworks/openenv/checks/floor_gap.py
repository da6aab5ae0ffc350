"""Whether the reward tells who solves the task from who does nothing (RFC 008 of OpenEnv)."""

from __future__ import annotations

from collections.abc import Callable

from pytest_rlenv.frameworks.openenv.checks.findings import Findings
from pytest_rlenv.frameworks.openenv.floor import measure_floor
from pytest_rlenv.frameworks.openenv.host import Host
from pytest_rlenv.frameworks.openenv.reference import reference_of
from pytest_rlenv.frameworks.openenv.task import OpenEnvTask
from pytest_rlenv.verdict import Expectation, number


def floor_gap(task: OpenEnvTask) -> Callable[[Host, Findings], None]:
    """Return the check: the oracle and the floor are where they are declared to be, both in one rollout.

    Raises:
        Unsupported: the task has no oracle. TaskInvalid, ReferenceInvalid: it cannot be used.
    """
    reference = reference_of(task)

    def check(host: Host, found: Findings) -> None:
        reward_range = task.manifest.reward_range
        # the floor first: what a script or a state solves may stay solved in the server
        floor = measure_floor(host).reward(reward_range)
        oracle = reference.play(host).reward(reward_range)
        found.rewards = {"oracle": oracle, "floor": floor}
        both = f"the oracle earns {number(oracle)}, doing nothing {number(floor)}"
        for name, agent, reward in (("oracle", "oracle", oracle), ("floor", "nop", floor)):
            wanted = task.bounds[agent]
            found.see(name, Expectation.parse(wanted, source=name).holds(reward), f"{both}: not {wanted}")

    return check
