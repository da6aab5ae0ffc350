"""What a container may do: limits, network and hardening. All of it together costs no measurable time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_rlenv.errors import Unsupported
from pytest_rlenv.sandboxes.confinement import CAPABILITIES, PIDS_LIMIT, SHM_BYTES
from pytest_rlenv.sandboxes.protocol import NO_NETWORK, PUBLIC, BoxSpec

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
