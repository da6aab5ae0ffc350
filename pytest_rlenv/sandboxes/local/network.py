"""A box's network: its gate, and the files in it that say who it is and how to find others."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_rlenv.errors import Unsupported
from pytest_rlenv.sandboxes.local.launcher import Attendant
from pytest_rlenv.sandboxes.model import ALLOWLIST, PUBLIC, BoxSpec, Entry
from pytest_rlenv.sandboxes.network.policy import Policy
from pytest_rlenv.sandboxes.network.variables import LISTENER_PORT, PORT, proxy_variables

if TYPE_CHECKING:
    from pytest_rlenv.sandboxes.network.gate import Gate

_HOSTS = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
_NO_SERVERS = "# this box has no network\n"


class LocalNetwork:
    """What one box reaches: this machine's network, or none, perhaps with a gate.

    Args:
        spec: how the box was asked for.
    """

    def __init__(self, spec: BoxSpec) -> None:
        self._announced = {spec.network, *spec.later_networks}
        self._mode = spec.network
        self._policy = Policy.of(spec.network, spec.allowed_hosts)
        self._gate: Gate | None = None
        self._take_listener = spec.take_listener
        # a network that is this machine's has other boxes' listeners, too: any free port will do
        self._port = 0 if spec.network == PUBLIC else LISTENER_PORT

    def open(self, attendant: Attendant) -> None:
        """Open the box's gate, if it may need one, and hand on its listener, if that was asked for.

        Raises:
            SandboxFailed: it cannot be opened.
        """
        if self._take_listener is not None:
            self._take_listener(attendant.listen(self._port))
        if ALLOWLIST in self._announced:
            from pytest_rlenv.sandboxes.network.gate import Gate  # and with it asyncio, which few boxes need

            self._gate = Gate(attendant.listen(PORT), self._policy)

    def variables(self) -> dict[str, str]:
        """Return what a command needs to see now."""
        return proxy_variables(self._mode, self._mode)

    def set(self, mode: str, allowed_hosts: Iterable[str]) -> None:
        """See :meth:`pytest_rlenv.sandboxes.protocol.Box.set_network`.

        Raises:
            Unsupported, ValueError: as there.
        """
        if mode not in self._announced:
            raise Unsupported(f"the box was not made ready for network mode {mode!r}")
        policy = Policy.of(mode, allowed_hosts)
        if self._gate is not None and policy != self._policy:
            self._gate.set_policy(policy)
        self._mode, self._policy = mode, policy

    def take_denied(self) -> dict[str, int]:
        """Return what the gate has refused since last asked."""
        return self._gate.take_denied() if self._gate is not None else {}

    def close(self) -> None:
        """Close the gate; may be called twice."""
        if self._gate is not None:
            self._gate.close()


def network_files(spec: BoxSpec, hostname: str) -> list[Entry]:
    """Return them: with a public network, which is this machine's, they are this machine's."""
    hosts, servers = _HOSTS, _NO_SERVERS
    if spec.network == PUBLIC:
        hosts = _text("/etc/hosts") or hosts
        servers = _text("/etc/resolv.conf")
    if hosts and not hosts.endswith("\n"):
        hosts += "\n"
    texts = {
        "etc/hostname": f"{hostname}\n",
        "etc/hosts": f"{hosts}127.0.0.1\t{hostname}\n",
        "etc/resolv.conf": servers,
    }
    return [Entry(path, text.encode()) for path, text in texts.items()]


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
