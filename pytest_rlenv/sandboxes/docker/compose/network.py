"""What the services of a project reach: each other by name, and of the world what the box's network allows.

Where that is less than everything, now or later, services that ask for no network of their own share one
namespace, as in Harbor 0.26: they reach each other on ``localhost``, and here by name as well. It belongs to
a container that only keeps it, as it must be there before the first service and outlive them all; its network
is a box's, so an allowlist's gate and a change of mode hold for all who share it. Without any network,
networks that the file asks for are kept, cut off: no gateway, no name server, no address of the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_rlenv.errors import Unsupported
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.compose.model import Model
from pytest_rlenv.sandboxes.docker.networks import BoxNetwork
from pytest_rlenv.sandboxes.model import NO_NETWORK, PUBLIC, BoxSpec

HOLDER = "rlenv-network"
"""The service that keeps the namespace without a network."""

NO_PROXY = ("no_proxy", "NO_PROXY")
_DEFAULT = "default"
_LOOPBACK = "127.0.0.1"
_CONFLICTING = (
    *("networks", "hostname", "domainname", "mac_address"),
    *("dns", "dns_opt", "dns_search", "extra_hosts"),
)
_NO_HOST_ADDRESS = "com.docker.network.bridge.inhibit_ipv4"
_FIXED = ("ipv4_address", "ipv6_address", "link_local_ips")


class SharedNetwork(BoxNetwork):
    """The network of a box that shares another container's: that one's, but for the start.

    Args:
        engine: where the box is.
        spec: how the box was asked for.
        holder: the network of the container whose namespace it is.
        names: of those who share it.
    """

    def __init__(self, engine: Engine, spec: BoxSpec, holder: BoxNetwork, names: Iterable[str]) -> None:
        super().__init__(engine, spec, None)
        self._holder = holder
        self._names = tuple(names)

    def variables(self) -> dict[str, str]:
        """Return what a command needs to see now, but for what the box's own variables say."""
        return past_the_gate(self._holder.variables(), self._names)

    def set(self, mode: str, allowed_hosts: Iterable[str]) -> None:
        """Change what all who share it may reach."""
        self._holder.set(mode, allowed_hosts)

    def take_denied(self) -> dict[str, int]:
        """Return what the gate has refused since last asked."""
        return self._holder.take_denied()

    def close(self) -> None:
        """Close the gate."""
        self._holder.close()


def past_the_gate(variables: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return a gate's variables so that what is near is not asked for there.

    Args:
        variables: those of a box; there may be none.
        names: of what is near.
    """
    near = {word: ",".join([variables[word], *names]) for word in NO_PROXY if variables.get(word)}
    return {**variables, **near}


def modes_of(spec: BoxSpec) -> frozenset[str]:
    """Return all the network modes that a box will have."""
    return frozenset({spec.network, *spec.later_networks})


def check_networks(model: Model, spec: BoxSpec) -> None:
    """Refuse networks that cannot be held to what the box's network allows.

    Raises:
        Unsupported: naming the field.
    """
    modes = modes_of(spec)
    if modes == {PUBLIC}:
        return
    what = " or ".join(sorted(modes))
    for name, network in (model.get("networks") or {}).items():
        if (network or {}).get("external"):
            raise Unsupported(f"networks.{name}.external: a network of others cannot be held to {what}")
    for name, service in model["services"].items():
        mode = str(service.get("network_mode") or "")
        if mode == "host" or mode.startswith("container:"):
            raise Unsupported(f"services.{name}.network_mode: {mode} cannot be held to {what}")
        if modes != {NO_NETWORK} and _has_own_network(service):
            raise Unsupported(f"services.{name}.networks: networks of its own cannot be held to {what}")


def arrange_networks(model: Model, project: str, spec: BoxSpec) -> dict[str, str]:
    """Give a model's networks names of the project, and no more of the world than the box's network allows.

    Args:
        model: a checked model; changed in place.
        project: the project's name.
        spec: how the box is started.

    Returns:
        The names, with addresses, by which services that share a namespace know each other; empty if none do.
    """
    services: dict[str, Model] = model["services"]
    hosts: dict[str, str] = {}
    restricted, cut_off = modes_of(spec) != {PUBLIC}, modes_of(spec) == {NO_NETWORK}
    for name, service in services.items():
        _keep_name(service)
        service.pop("ports", None)
        service.pop("expose", None)
        if restricted and not _has_own_network(service) and not _follows_another(service):
            _share(service, name, hosts)
        elif cut_off and service.get("networks"):
            service["dns"] = [_LOOPBACK]  # else old engines pass questions on to the host's name server
    model["networks"] = {
        name: _network(network or {}, f"{project}_{name}", cut_off=cut_off, fixed=_is_fixed(name, services))
        for name, network in (model.get("networks") or {}).items()
        if any(name in (service.get("networks") or {}) for service in services.values())
    }
    return hosts


def published_ports(model: Model) -> Iterator[str]:
    """Yield the services, as fields of the file, that would be reached through ports of this machine."""
    for name, service in model["services"].items():
        if any(port.get("published") for port in service.get("ports") or ()):
            yield f"services.{name}.ports"


def _keep_name(service: Model) -> None:
    """Take a fixed name off a container, which all runs would share, but keep it as a name to reach it by."""
    name = service.pop("container_name", None)
    networks = service.get("networks")
    if name and networks:
        for key, use in networks.items():
            networks[key] = {**(use or {}), "aliases": [*((use or {}).get("aliases") or ()), name]}


def _has_own_network(service: Model) -> bool:
    return bool(set(service.get("networks") or {}) - {_DEFAULT})


def _follows_another(service: Model) -> bool:
    """True for a service that has no network of its own to speak of: none at all, or another service's."""
    mode = str(service.get("network_mode") or "")
    return mode == "none" or mode.startswith("service:")


def _share(service: Model, name: str, hosts: dict[str, str]) -> None:
    """Put a service into the namespace of the holder, whose hosts file has the names of all."""
    aliases = ((service.get("networks") or {}).get(_DEFAULT) or {}).get("aliases") or ()
    links = [str(link).partition(":")[2] for link in service.pop("links", None) or ()]
    for each in (name, service.get("hostname"), *aliases, *links):
        if each:
            hosts[str(each)] = _LOOPBACK
    for host, address in _hosts(service.get("extra_hosts")):
        if address != "host-gateway":
            hosts.setdefault(host, address)
    for field in _CONFLICTING:
        service.pop(field, None)
    service["network_mode"] = f"service:{HOLDER}"


def _hosts(found: Any) -> Iterator[tuple[str, str]]:
    for entry in found or ():
        host, _, address = str(entry).partition("=") if "=" in str(entry) else str(entry).partition(":")
        yield host, address


def _network(network: Model, name: str, *, cut_off: bool, fixed: bool) -> Model:
    options = {k: v for k, v in (network.get("driver_opts") or {}).items() if not k.endswith("bridge.name")}
    found: dict[str, Any] = {"name": name}
    if cut_off:
        options[_NO_HOST_ADDRESS] = "true"
    if cut_off or network.get("internal"):
        found["internal"] = True
    if options:
        found["driver_opts"] = options
    if fixed and network.get("ipam"):
        found["ipam"] = network["ipam"]  # else any range will do, and two runs cannot have the same one
    for field in ("enable_ipv4", "enable_ipv6", "external", "driver"):
        if network.get(field) is not None:
            found[field] = network[field]
    if network.get("external"):
        found["name"] = network.get("name", name)
    return found


def _is_fixed(name: str, services: dict[str, Model]) -> bool:
    uses = ((service.get("networks") or {}).get(name) or {} for service in services.values())
    return any(use.get(field) for use in uses for field in _FIXED)
