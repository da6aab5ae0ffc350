"""A list of allowed hosts, with the meaning that Harbor 0.26 gives to its entries.

============================  ==========================================================================
``example.com``               this name, not the names below it
``*.example.com``             every name below it at any depth, not ``example.com`` itself
``192.0.2.1``, ``2001:db8::1``  this address
``192.0.2.0/24``              every address of the range
============================  ==========================================================================

Entries say nothing of ports: every port of an allowed host is allowed. A name is judged by names and an
address by addresses: a list of addresses does not allow the names that lead there, nor the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class HostList:
    """Allowed hosts.

    Args:
        entries: as above; letter case and a final dot do not count.

    Raises:
        ValueError: an entry with a slash is not a range of addresses.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self.entries = tuple(entries)
        self._names: set[str] = set()
        self._suffixes: set[str] = set()
        self._addresses: set[Address] = set()
        self._networks: list[Network] = []
        for entry in self.entries:
            self._add(entry.strip().lower().rstrip("."))

    def __repr__(self) -> str:
        return f"HostList({list(self.entries)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostList) and set(self.entries) == set(other.entries)

    def __hash__(self) -> int:
        return hash(frozenset(self.entries))

    def allows_name(self, name: str) -> bool:
        """Return True for the name of an allowed host; it is in lower case, without a final dot."""
        if name in self._names:
            return True
        labels = name.split(".")
        return any(".".join(labels[start:]) in self._suffixes for start in range(1, len(labels)))

    def allows_address(self, address: Address) -> bool:
        """Return True for an address that is listed, by itself or in a range."""
        return self.lists_address(address) or any(address in network for network in self._networks)

    def lists_address(self, address: Address) -> bool:
        """Return True for an address that is listed by itself."""
        return address in self._addresses

    def _add(self, entry: str) -> None:
        if "/" in entry:
            network = _range(entry)
            if network.num_addresses == 1:
                self._addresses.add(plain(network.network_address))
            else:
                self._networks.append(network)
        elif entry.startswith("*."):
            self._suffixes.add(entry[2:])
        else:
            try:
                self._addresses.add(plain(ip_address(entry)))
            except ValueError:
                self._names.add(entry)


def _range(entry: str) -> Network:
    try:
        return ip_network(entry, strict=True)
    except ValueError as error:
        raise ValueError(f"{entry!r} is not a range of addresses: {error}") from None


def plain(address: Address) -> Address:
    """Return an IPv4 address that is written as an IPv6 one (``::ffff:192.0.2.1``) as what it is."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
