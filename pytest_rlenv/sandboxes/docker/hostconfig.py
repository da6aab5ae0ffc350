"""What a container may do: limits, network and hardening. All of it together costs no measurable time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pytest_rlenv.errors import Unsupported
from pytest_rlenv.sandboxes.confinement import CAPABILITIES, PIDS_LIMIT, SHM_BYTES
from pytest_rlenv.sandboxes.docker.networks import BRIDGE, NONE
from pytest_rlenv.sandboxes.model import PUBLIC, BoxSpec

LOG_CAP = "1m"
"""Most that the engine keeps of what PID 1 prints; without a cap a box can fill the host's disk."""

_MIB = 1024 * 1024


def host_config(
    spec: BoxSpec, *, keep_output: bool, as_root: bool = True, mounts: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Return the engine's HostConfig for a box.

    No host folders are bound in, but for the empty one of a gate; no privileges are granted, and no
    namespaces shared.

    Args:
        spec: limits and network.
        as_root: False for an image that starts as another user.
        mounts: the engine's description of a gate's folder, if there is one.
        keep_output: keep a little of what PID 1 prints, to show it when the image's ENTRYPOINT fails.
    """
    config: dict[str, Any] = {
        "NetworkMode": BRIDGE if spec.network == PUBLIC else NONE,
        "CapDrop": ["ALL"],
        "CapAdd": list(CAPABILITIES),
        # Where PID 1 is not root it would leave root, such as a verifier, without capabilities.
        "SecurityOpt": ["no-new-privileges"] if as_root else [],
        "PidsLimit": PIDS_LIMIT,
        "IpcMode": "private",
        "ShmSize": SHM_BYTES,
        "LogConfig": {"Type": "none", "Config": {}},
        "Privileged": False,
    }
    if keep_output:
        config["LogConfig"] = {"Type": "json-file", "Config": {"max-size": LOG_CAP, "max-file": "1"}}
    if mounts:
        config["Mounts"] = list(mounts)
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
