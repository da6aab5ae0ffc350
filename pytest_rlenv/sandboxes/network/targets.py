"""Whom a client wants to be connected to; what two programs could read in two ways is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from pytest_rlenv.sandboxes.network.hosts import Address, plain

_AUTHORITY = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# `127.1`, `0x7f.1`, `2130706433` and `0177.0.0.1` are addresses to the C library, and to nobody else
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_MAX_NAME = 253


class BadTarget(ValueError):
    """What a client wants to be connected to cannot be read."""


@dataclass(frozen=True)
class Target:
    """A host, by its name or its address, and a port."""

    host: str | Address
    port: int

    @property
    def is_name(self) -> bool:
        """True for a host that is given by its name."""
        return isinstance(self.host, str)

    @property
    def authority(self) -> str:
        """The target as it is written in a URL, with its port."""
        return f"{self.written_host}:{self.port}"

    @property
    def written_host(self) -> str:
        """The host as it is written in a URL."""
        return f"[{self.host}]" if isinstance(self.host, IPv6Address) else str(self.host)


def parse_target(authority: str, default_port: int | None = None) -> Target:
    """Return the target that ``host:port`` names.

    Args:
        authority: what to read.
        default_port: for an authority without one; ``None`` requires one.

    Raises:
        BadTarget: with the reason.
    """
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise BadTarget(f"{authority[:200]!r} is not host:port")
    port = int(match["port"]) if match["port"] else default_port
    if port is None or not 0 < port < 65536:
        raise BadTarget(f"{authority!r} has no port between 1 and 65535")
    return Target(_v6(match["v6"]) if match["v6"] else parse_host(match["host"]), port)


def parse_host(text: str) -> str | Address:
    """Return a host: an IPv4 address, or a name in lower case without a final dot.

    Raises:
        BadTarget: it is neither, or a number that only some programs take for an address.
    """
    try:
        return IPv4Address(text)
    except ValueError:
        return _name(text)


def _name(text: str) -> str:
    name = text.lower()
    name = name[:-1] if name.endswith(".") else name
    labels = name.split(".")
    if len(name) > _MAX_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise BadTarget(f"{text[:300]!r} is not a host name")
    if _NUMBER.fullmatch(labels[-1]):
        raise BadTarget(f"{text!r} is neither a host name nor an address in its usual form")
    return name


def _v6(text: str) -> Address:
    try:
        return plain(IPv6Address(text))
    except ValueError:
        raise BadTarget(f"[{text}] is not an IPv6 address") from None
