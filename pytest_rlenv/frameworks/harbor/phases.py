"""What the network of a box is in each phase of a rollout, and the change from one to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pytest_rlenv.frameworks.harbor.config import PhaseConfig
from pytest_rlenv.frameworks.harbor.environment_config import EnvironmentConfig
from pytest_rlenv.frameworks.harbor.network import NetworkMode
from pytest_rlenv.frameworks.harbor.steps import Step
from pytest_rlenv.rollout import StepRecord
from pytest_rlenv.sandboxes.protocol import Box

DENIED = "network-denied"
"""The note about hosts that an allowlist has refused."""

_SHOWN = 20


@dataclass(frozen=True)
class NetworkPolicy:
    """What may be reached.

    Attributes:
        mode: the mode.
        hosts: what an allowlist allows.
    """

    mode: NetworkMode
    hosts: tuple[str, ...] = ()

    def allowing(self, hosts: Iterable[str]) -> NetworkPolicy:
        """Return the policy that allows these hosts, too, as Harbor 0.26 merges them."""
        more = tuple(hosts)
        if not more or self.mode is NetworkMode.PUBLIC:
            return self
        return NetworkPolicy(NetworkMode.ALLOWLIST, tuple(dict.fromkeys((*self.hosts, *more))))


def baseline(environment: EnvironmentConfig) -> NetworkPolicy:
    """Return the policy of a box between phases, and of phases that say nothing."""
    return NetworkPolicy(environment.network_mode, tuple(environment.allowed_hosts or ()))


def phase_policy(
    tables: Iterable[PhaseConfig], otherwise: NetworkPolicy, *, also: Iterable[str] = ()
) -> NetworkPolicy:
    """Return the policy of a phase.

    Args:
        tables: those that speak of the phase, the strongest first; one counts if it sets a mode.
        otherwise: the box's own policy.
        also: hosts that whoever acts in the phase needs, such as a model's.
    """
    for table in tables:
        if table.network_mode is not None:
            own = NetworkPolicy(table.network_mode, tuple(table.allowed_hosts or ()))
            return own.allowing(also)
    return otherwise.allowing(also)


def policies_of_agents_box(
    steps: Sequence[Step], own: NetworkPolicy, *, also: Sequence[str] = ()
) -> list[NetworkPolicy]:
    """Return the policies that the agent's box has in turn, its own first.

    Args:
        steps: the task's steps.
        own: the box's own policy.
        also: hosts that the agent needs.
    """
    found = [own]
    for step in steps:
        found.append(phase_policy(step.agent_phase, own, also=also))
        if step.verifier_definition is None:
            found.append(phase_policy(step.verifier_phase, own))
    return list(dict.fromkeys(found))


@contextmanager
def in_phase(
    box: Box, policy: NetworkPolicy, own: NetworkPolicy, record: StepRecord, who: str, *, back: bool = True
) -> Iterator[None]:
    """Give a box the network of a phase while it lasts.

    Args:
        box: the box.
        policy: the phase's network.
        own: the box's own, which it has between phases.
        record: gets a note of the hosts that were refused.
        who: acts in the phase, for the note.
        back: False if nothing more happens in the box, so that it need not get its own network back.

    Raises:
        SandboxFailed: the network cannot be changed.
    """
    note_denied(box, record, f"before the {who}", policy, own)
    if policy != own:
        box.set_network(policy.mode.value, policy.hosts)
    try:
        yield
    finally:
        note_denied(box, record, who, policy, own)
    if policy != own and back:
        box.set_network(own.mode.value, own.hosts)


def note_denied(box: Box, record: StepRecord, who: str, *policies: NetworkPolicy) -> None:
    """Note which hosts a box was refused, if any of its policies is an allowlist."""
    if not any(policy.mode is NetworkMode.ALLOWLIST for policy in policies):
        return
    denied = sorted(box.take_denied().items(), key=lambda each: (-each[1], each[0]))
    if denied:
        shown = ", ".join(f"{host} \u00d7{count}" for host, count in denied[:_SHOWN])
        more = f" and {len(denied) - _SHOWN} more" if len(denied) > _SHOWN else ""
        record.note(DENIED, f"{who}: {shown}{more}")
