"""What may pass a box's gate at one time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pytest_rlenv.sandboxes.model import ALLOWLIST, NO_NETWORK, PUBLIC
from pytest_rlenv.sandboxes.network.hosts import HostList
from pytest_rlenv.sandboxes.network.targets import Target

_SHOWN = 20


@dataclass(frozen=True)
class Policy:
    """Allowed hosts, and what to tell whoever asks for others.

    Attributes:
        mode: a network mode in the sandboxes' words. With a public network the gate is open too, for what was
            started earlier and still asks there; without a network it is closed.
        hosts: what an allowlist allows.
    """

    mode: str = NO_NETWORK
    hosts: HostList = field(default_factory=HostList)

    @classmethod
    def of(cls, mode: str, allowed_hosts: Iterable[str]) -> Policy:
        """Return the policy of a network mode.

        Raises:
            ValueError: an entry with a slash is not a range of addresses.
        """
        return cls(mode, HostList(allowed_hosts if mode == ALLOWLIST else ()))

    def allows(self, target: Target) -> bool:
        """Return True if the target is on the list; what its name leads to is another question."""
        if self.mode == PUBLIC:
            return True
        if isinstance(target.host, str):
            return self.hosts.allows_name(target.host)
        return self.hosts.allows_address(target.host)

    def restricts(self, target: Target) -> bool:
        """Return True if an allowed target is not enough: what is sent there must be meant for it, too."""
        return self.mode != PUBLIC and target.is_name

    @property
    def explanation(self) -> str:
        """What passes, in one line."""
        if self.mode != ALLOWLIST:
            return "this box has no network now"
        entries = self.hosts.entries
        if not entries:
            return "the task allows no hosts at all"
        more = f" and {len(entries) - _SHOWN} more" if len(entries) > _SHOWN else ""
        return f"the task allows {', '.join(entries[:_SHOWN])}{more}"
