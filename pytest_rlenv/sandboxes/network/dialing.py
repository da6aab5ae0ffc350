"""From a target to a connection: what its name leads to is looked at, and exactly that is connected to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from pytest_rlenv.sandboxes.network.hosts import Address, HostList, plain
from pytest_rlenv.sandboxes.network.targets import Target

CONNECT_TIMEOUT = 10.0
"""Seconds for one address of a host to answer."""
DIAL_TIMEOUT = 30.0
"""Seconds for a host's name to be resolved and one of its addresses to answer."""

Resolver = Callable[[str], Awaitable[list[Address]]]

# Where clouds tell a machine its secrets, beside the link-local addresses that most of them use.
_METADATA = frozenset(
    ip_address(each) for each in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254")
)
_TRANSLATED = ip_network("64:ff9b::/96")


class NotReached(Exception):
    """A host does not answer.

    Args:
        status: HTTP status and reason for the answer.
        reason: what went wrong.
    """

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Forbidden(Exception):
    """A host that is on the list, but at an address that needs more than that."""


async def resolve(name: str) -> list[Address]:
    """Return the addresses of a name, as this machine knows them; none for an unknown one."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(ip_address(str(entry[4][0]).partition("%")[0]) for entry in found))


async def dial(target: Target, hosts: HostList, resolver: Resolver = resolve) -> socket.socket:
    """Return a connection to an allowed target.

    A name is resolved once, and what was looked at is what is connected to.

    Raises:
        Forbidden: every address of the target is one that must be listed by itself, and is not.
        NotReached: nothing answers there.
    """
    try:
        return await asyncio.wait_for(_dial(target, hosts, resolver), DIAL_TIMEOUT)
    except asyncio.TimeoutError:
        raise NotReached("504 Gateway Timeout", f"{target.authority} does not answer") from None


async def _dial(target: Target, hosts: HostList, resolver: Resolver) -> socket.socket:
    addresses = await resolver(target.host) if isinstance(target.host, str) else [target.host]
    if not addresses:
        raise NotReached("502 Bad Gateway", f"the name {target.host} cannot be resolved")
    refusals = {address: refusal(address, hosts) for address in addresses}
    fit = [address for address, reason in refusals.items() if not reason]
    if not fit:
        raise Forbidden("; ".join(dict.fromkeys(refusals.values())))
    problem = ""
    for address in fit:
        try:
            return await _connect(address, target.port)
        except (OSError, asyncio.TimeoutError) as error:
            problem = f"{address}: {str(error) or 'no answer'}"
    raise NotReached("502 Bad Gateway", f"{target.authority} cannot be reached ({problem})")


async def _connect(address: Address, port: int) -> socket.socket:
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.setblocking(False)
    connecting = asyncio.get_running_loop().sock_connect(connection, (str(address), port))
    try:
        await asyncio.wait_for(connecting, CONNECT_TIMEOUT)
    except BaseException:
        connection.close()
        raise
    return connection


def refusal(address: Address, hosts: HostList) -> str:
    """Return why an address is not connected to, whatever leads to it; empty for an ordinary one.

    A box's loopback is its own and not this machine's, so that one is never reached. This machine's other
    addresses, and those at which a cloud tells its secrets, must be listed by themselves: no name and no
    range is meant to include them.
    """
    real = _untranslated(plain(address))
    if real.is_loopback or real.is_unspecified or real.is_multicast or _is_this_network(real):
        return f"{real} is not a host that can be reached from a box"
    if hosts.lists_address(real):
        return ""
    if real.is_link_local or real in _METADATA:
        return f"{real} is a link-local or metadata address: list it by itself to allow it"
    if is_own(real):
        return f"{real} is the machine that runs the boxes: list the address by itself to allow it"
    return ""


def is_own(address: Address) -> bool:
    """Return True for an address of this machine: the kernel would talk to it from that same address."""
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return ip_address(probe.getsockname()[0].partition("%")[0]) == address
    except OSError:
        return False  # there is no way there at all


def _is_this_network(address: Address) -> bool:
    return isinstance(address, IPv4Address) and (address.packed[0] == 0 or address.packed == b"\xff" * 4)


def _untranslated(address: Address) -> Address:
    """Return the IPv4 address that a translator (NAT64) makes of an IPv6 one."""
    if isinstance(address, IPv6Address) and address in _TRANSLATED:
        return IPv4Address(address.packed[-4:])
    return address
