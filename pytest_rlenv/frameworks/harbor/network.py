"""The network part of a ``task.toml``: modes, and the entries of an allowlist."""

from __future__ import annotations

import re
from enum import Enum
from ipaddress import ip_address, ip_network

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


class NetworkMode(str, Enum):
    """What the network of a task's container reaches."""

    NO_NETWORK = "no-network"
    PUBLIC = "public"
    ALLOWLIST = "allowlist"


def normalize_host(entry: str) -> str:
    """Return an allowlist entry in the form that Harbor 0.26 compares: lower case, no trailing dot.

    Raises:
        ValueError: it is not a host name, ``*.`` wildcard, IP address or strict CIDR range.
    """
    host = entry.strip().lower().rstrip(".")
    if not host:
        raise ValueError("expected host names, not an empty text")
    if "%" not in host:
        if "/" in host:
            return _network(host)
        if ":" in host:
            return _ipv6(host)
    _check_name(host)
    return host


def check_policy(mode: NetworkMode | None, hosts: list[str] | None) -> None:
    """Refuse allowed hosts without the mode that uses them; an allowlist without hosts is fine.

    Raises:
        ValueError: as said.
    """
    if mode is NetworkMode.ALLOWLIST:
        return
    if hosts or (mode is None and hosts is not None):
        raise ValueError('allowed_hosts needs network_mode = "allowlist"')


def _network(host: str) -> str:
    try:
        return ip_network(host, strict=True).compressed
    except ValueError:
        raise ValueError(f"{host!r} is not a CIDR range; URLs, ports and paths are not allowed") from None


def _ipv6(host: str) -> str:
    try:
        address = ip_address(host)
    except ValueError:
        raise ValueError(f"{host!r} is not an IPv6 address; URLs and ports are not allowed") from None
    return address.compressed


def _check_name(host: str) -> None:
    name = host[2:] if host.startswith("*.") else host
    if "*" in name:
        raise ValueError(f"{host!r}: a wildcard is only allowed as a leading '*.'")
    if name is not host and _is_address(name):
        raise ValueError(f"{host!r}: a wildcard needs a host name, not an IP address")
    if not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise ValueError(f"{host!r} is not a host name, IP address or CIDR range")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
