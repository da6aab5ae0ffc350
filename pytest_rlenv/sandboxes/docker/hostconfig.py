"""What a container may do: limits, network and hardening. All of it together costs no measurable time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_rlenv.errors import Unsupported
from pytest_rlenv.sandboxes.protocol import NO_NETWORK, PUBLIC, BoxSpec, Capabilities

CAPABILITIES = (
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETUID",
    "SYS_CHROOT",
)
"""What root keeps: enough for apt, useradd, su and a server on port 80."""
PIDS_LIMIT = 1024
SHM_BYTES = 64 * 1024 * 1024
LOG_CAP = "1m"
"""Most that the engine keeps of what PID 1 prints; without a cap a box can fill the host's disk."""

_NETWORKS = {PUBLIC: "bridge", NO_NETWORK: "none"}
_MIB = 1024 * 1024


def host_config(spec: BoxSpec, *, keep_output: bool) -> dict[str, Any]:
    """Return the engine's HostConfig for a box.

    No host folders are ever bound in, no privileges granted, and no namespaces shared.

    Args:
        spec: limits and network.
        keep_output: keep a little of what PID 1 prints, to show it when the image's ENTRYPOINT fails.
    """
    config: dict[str, Any] = {
        "NetworkMode": _NETWORKS[spec.network],
        "CapDrop": ["ALL"],
        "CapAdd": list(CAPABILITIES),
        "SecurityOpt": ["no-new-privileges"],
        "PidsLimit": PIDS_LIMIT,
        "IpcMode": "private",
        "ShmSize": SHM_BYTES,
        "LogConfig": {"Type": "none", "Config": {}},
        "Privileged": False,
    }
    if keep_output:
        config["LogConfig"] = {"Type": "json-file", "Config": {"max-size": LOG_CAP, "max-file": "1"}}
    if spec.memory_mb is not None:
        config["Memory"] = config["MemorySwap"] = spec.memory_mb * _MIB  # equal: no swap beside it
    if spec.cpus is not None:
        config["NanoCpus"] = int(spec.cpus * 1_000_000_000)
    return config


def check_spec(spec: BoxSpec, capabilities: Capabilities) -> None:
    """Refuse a box that this engine cannot hold as asked.

    Raises:
        Unsupported: naming what is asked for and what there is.
    """
    if spec.network not in capabilities.network_modes:
        have = ", ".join(sorted(capabilities.network_modes))
        raise Unsupported(f"task asks for network mode {spec.network!r}, this engine has {have}")
    if spec.cpus is not None and capabilities.cpus is not None and spec.cpus > capabilities.cpus:
        raise Unsupported(f"task asks for {spec.cpus:g} cpus, this engine has {capabilities.cpus:g}")
    if spec.memory_mb is not None and capabilities.memory_mb is not None:
        asked, have_mb = spec.memory_mb, capabilities.memory_mb
        if asked > have_mb:
            raise Unsupported(f"task asks for {asked} MiB of memory, this engine has {have_mb} MiB")


def check_warnings(spec: BoxSpec, warnings: Iterable[str]) -> None:
    """Refuse a box whose limits the engine has left out, which it says only in a warning.

    Raises:
        Unsupported: a limit that was asked for does not hold, as on a rootless engine without cgroup v2.
    """
    for warning in warnings:
        low = warning.lower()
        asked = ("memory" in low and spec.memory_mb is not None) or ("cpu" in low and spec.cpus is not None)
        if "discarded" in low and asked:
            raise Unsupported(f"this engine cannot limit a box as the task asks: {warning}")
