"""What of a Compose file's model is refused: what reaches out of the containers, and what cannot be done.

The model is looked at, not the file: what comes by a variable, ``extends`` or ``include`` is in it. A field
that is not known here is refused, as nobody can say what it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_rlenv.sandboxes.confinement import CAPABILITIES
from pytest_rlenv.sandboxes.docker.compose.builds import check_build
from pytest_rlenv.sandboxes.docker.compose.findings import Finding, is_inside
from pytest_rlenv.sandboxes.docker.compose.model import Model
from pytest_rlenv.sandboxes.model import LEFT_OUT

HARMLESS = frozenset(
    (
        *("image", "build", "platform", "pull_policy", "pull_refresh_after", "profiles", "scale", "deploy"),
        *(
            "command",
            "entrypoint",
            "working_dir",
            "user",
            "group_add",
            "environment",
            "init",
            "tty",
            "stdin_open",
        ),
        *(
            "healthcheck",
            "depends_on",
            "restart",
            "stop_signal",
            "stop_grace_period",
            "post_start",
            "pre_stop",
        ),
        *("container_name", "hostname", "domainname", "labels", "attach", "logging", "develop"),
        *("networks", "network_mode", "links", "ports", "expose", "mac_address", "extra_hosts"),
        *("dns", "dns_opt", "dns_search", "sysctls"),
        *("volumes", "volumes_from", "tmpfs", "configs", "secrets", "read_only", "shm_size", "storage_opt"),
        *("cpus", "cpu_count", "cpu_percent", "cpu_period", "cpu_quota", "cpu_shares", "cpuset"),
        *("mem_limit", "mem_reservation", "mem_swappiness", "memswap_limit", "pids_limit", "ulimits"),
        *("blkio_config", "oom_kill_disable", "oom_score_adj"),
        *("cap_add", "cap_drop", "security_opt", "pid", "ipc", "uts", "cgroup", "userns_mode"),
    )
)
"""Fields of a service that may be there; the values of some are looked at below."""

_REFUSED = {
    "privileged": "gives the container the host's powers",
    "devices": "brings devices of the host in",
    "device_cgroup_rules": "brings devices of the host in",
    "gpus": "brings devices of the host in",
    "runtime": "runs the container by another runtime",
    "annotations": "may change how the container is run",
    "cgroup_parent": "leaves the container's own control group",
    "external_links": "reaches containers of others",
    "use_api_socket": "gives the container the engine",
    "cpu_rt_period": "may starve the host",
    "cpu_rt_runtime": "may starve the host",
}
_UNKNOWN = {
    "provider": "services that are run by programs of the host are not supported",
    "models": "models are not supported",
    "credential_spec": "only Linux containers are supported",
    "isolation": "only Linux containers are supported",
}
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_NAMESPACES = ("pid", "ipc", "uts", "cgroup", "userns_mode", "network_mode")
_OWN_NAMESPACE = ("", "private", "none", "shareable", "bridge", "default")
_OF_THE_NETWORK = frozenset(
    (
        *("name", "driver", "driver_opts", "ipam", "external", "internal"),
        *("enable_ipv4", "enable_ipv6", "attachable", "labels"),
    )
)
_OF_THE_VOLUME = frozenset(("name", "driver", "driver_opts", "external", "labels"))
_OF_THE_MODEL = frozenset(("name", "services", "networks", "volumes", "configs", "secrets", "version"))
_HARMLESS_NETWORK_OPTIONS = frozenset(
    f"com.docker.network.{name}"
    for name in ("driver.mtu", "bridge.name", "bridge.enable_icc", "bridge.enable_ip_masquerade")
)


def check_model(model: Model, root: Path, architecture: str) -> list[Finding]:
    """Return what is wrong with a model.

    Args:
        model: as from :func:`~pytest_rlenv.sandboxes.docker.compose.model.read_model`.
        root: the folder that nothing of it may leave.
        architecture: the engine's, as it says itself.
    """
    return list(_check(model, root, architecture))


def _check(model: Model, root: Path, architecture: str) -> Iterator[Finding]:
    yield from _unknown(model, _OF_THE_MODEL, "")
    for name, service in model["services"].items():
        yield from _check_service(f"services.{name}", service, root)
        yield from _check_platform(f"services.{name}.platform", service, architecture)
    for name, network in (model.get("networks") or {}).items():
        yield from _check_network(f"networks.{name}", network or {})
    for name, volume in (model.get("volumes") or {}).items():
        yield from _check_volume(f"volumes.{name}", volume or {})
    for kind in ("configs", "secrets"):
        for name, entry in (model.get(kind) or {}).items():
            yield from _check_file(f"{kind}.{name}", entry, root)


def _check_service(where: str, service: Model, root: Path) -> Iterator[Finding]:
    count = service.get("scale", _deploy(service).get("replicas", 1))
    if count != 1:
        yield Finding(f"{where}.scale", f"{count} containers of one service are not supported", unsafe=False)
    yield from _refused_fields(where, service)
    yield from _check_powers(where, service)
    for field in _NAMESPACES:
        value = str(service.get(field) or "")
        if not (value in _OWN_NAMESPACE or value.startswith("service:")):
            yield Finding(f"{where}.{field}", f"{value!r} is not the container's own")
    for number, mount in enumerate(service.get("volumes") or ()):
        yield from _check_mount(f"{where}.volumes[{number}]", mount, root)
    for other in service.get("volumes_from") or ():
        if str(other).startswith("container:"):
            yield Finding(f"{where}.volumes_from", f"{other!r} is a container of others")
    for field in ("post_start", "pre_stop"):
        for hook in service.get(field) or ():
            if hook.get("privileged"):
                yield Finding(f"{where}.{field}.privileged", _REFUSED["privileged"])
    if service.get("build"):
        yield from check_build(f"{where}.build", service["build"], root)


def _check_platform(where: str, service: Model, architecture: str) -> Iterator[Finding]:
    asked = str(service.get("platform") or "")
    own = _ARCHITECTURES.get(architecture, architecture)
    if asked and asked.split("/")[:2] != ["linux", own]:
        yield Finding(where, f"{asked!r} is not the engine's, linux/{own}", unsafe=False)


def _refused_fields(where: str, service: Model) -> Iterator[Finding]:
    for field, value in service.items():
        if field in _REFUSED:
            if value:
                yield Finding(f"{where}.{field}", _REFUSED[field])
        elif field in _UNKNOWN:
            yield Finding(f"{where}.{field}", _UNKNOWN[field], unsafe=False)
    known = HARMLESS | _REFUSED.keys() | _UNKNOWN.keys()
    yield from _unknown(service, known, f"{where}.")


def _check_powers(where: str, service: Model) -> Iterator[Finding]:
    more = sorted({_capability(each) for each in service.get("cap_add") or ()} - set(CAPABILITIES))
    if more:
        yield Finding(f"{where}.cap_add", f"{', '.join(more)} is more than a box has")
    for option in service.get("security_opt") or ():
        if str(option).replace("=", ":") not in ("no-new-privileges", "no-new-privileges:true"):
            yield Finding(f"{where}.security_opt", f"{option!r} changes what holds a container")
    if service.get("oom_kill_disable"):
        yield Finding(f"{where}.oom_kill_disable", "may hang the host")
    if float(service.get("oom_score_adj") or 0) < 0:
        yield Finding(f"{where}.oom_score_adj", "lets the host run out of memory first")
    reservations = (_deploy(service).get("resources") or {}).get("reservations") or {}
    for field in ("devices", "generic_resources"):
        if reservations.get(field):
            yield Finding(f"{where}.deploy.resources.reservations.{field}", _REFUSED["devices"])


def _check_mount(where: str, mount: Model, root: Path) -> Iterator[Finding]:
    kind = mount.get("type")
    if kind == "bind":
        source = Path(str(mount.get("source")))
        if not (source.is_relative_to(LEFT_OUT) or is_inside(root, source)):
            yield Finding(where, f"{str(source)!r} is a place on the host outside the task's folder")
    elif kind not in ("volume", "tmpfs"):
        yield Finding(where, f"mounts of type {kind!r} are not supported", unsafe=False)


def _check_network(where: str, network: Model) -> Iterator[Finding]:
    yield from _unknown(network, _OF_THE_NETWORK, f"{where}.")
    if network.get("external"):
        yield Finding(f"{where}.external", "a network of others")
    driver = network.get("driver") or "bridge"
    if driver != "bridge":
        yield Finding(f"{where}.driver", f"{driver!r} is not a network of its own")
    for option in sorted(set(network.get("driver_opts") or {}) - _HARMLESS_NETWORK_OPTIONS):
        yield Finding(f"{where}.driver_opts", f"{option} is not known to be harmless")


def _check_volume(where: str, volume: Model) -> Iterator[Finding]:
    yield from _unknown(volume, _OF_THE_VOLUME, f"{where}.")
    if volume.get("external"):
        yield Finding(f"{where}.external", "a volume of others")
    driver = volume.get("driver") or "local"
    if driver != "local":
        yield Finding(f"{where}.driver", f"{driver!r} is not the engine's own")
    options = volume.get("driver_opts") or {}
    if options and options.get("type") != "tmpfs":
        yield Finding(f"{where}.driver_opts", "mounts a place on the host or in its network")


def _check_file(where: str, entry: Model, root: Path) -> Iterator[Finding]:
    if entry.get("external") or entry.get("driver") or entry.get("template_driver"):
        yield Finding(where, "only an orchestrator can provide it", unsafe=False)
    elif entry.get("file") and not is_inside(root, Path(entry["file"])):
        yield Finding(f"{where}.file", f"{entry['file']!r} is outside the task's folder")


def _unknown(found: Mapping[str, Any], known: frozenset[str] | set[str], where: str) -> Iterator[Finding]:
    for field, value in found.items():
        if field not in known and not field.startswith("x-") and value not in (None, {}, [], "", False):
            yield Finding(f"{where}{field}", "not known here, so not to be trusted")


def _deploy(service: Model) -> Model:
    deploy: Model = service.get("deploy") or {}
    return deploy


def _capability(name: Any) -> str:
    return str(name).upper().removeprefix("CAP_")
