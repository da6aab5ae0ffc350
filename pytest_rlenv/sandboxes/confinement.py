"""What boxes of every kind are held to, and the refusal of those that a sandbox cannot hold as asked."""

from __future__ import annotations

from pytest_rlenv.errors import BoxUnfit, Unsupported
from pytest_rlenv.sandboxes.commands import check_variables
from pytest_rlenv.sandboxes.model import BoxSpec, Capabilities

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
LEAST_CPUS = 0.01
"""The smallest share of a core that the kernel measures out."""


def check_spec(spec: BoxSpec, capabilities: Capabilities, *, where: str) -> None:
    """Refuse a box that cannot be held as asked.

    Args:
        spec: what is asked for.
        capabilities: what there is.
        where: whose these are, for messages: ``this engine``, ``this machine``.

    Raises:
        Unsupported: naming what is asked for and what there is.
        BoxUnfit: an environment variable cannot be passed on, or a limit is none that anything could run in.
    """
    check_variables(spec.env)
    _check_limits(spec)
    modes = {spec.network, *spec.later_networks}
    for mode in sorted(modes - capabilities.network_modes):
        have = ", ".join(sorted(capabilities.network_modes))
        why = capabilities.missing_networks.get(mode)
        because = f": {why}" if why else ""
        raise Unsupported(f"task asks for network mode {mode!r}, {where} has {have}{because}")
    if len(modes) > 1 and not modes <= capabilities.switches_network:
        raise Unsupported(
            f"task changes its network between {' and '.join(sorted(modes))}, which {where} cannot do "
            "in a running box"
        )
    if spec.take_listener is not None and not capabilities.listeners:
        why = capabilities.missing_listeners
        raise Unsupported(
            f"what runs in the box must reach a server of this process, which {where} cannot offer"
            + (f": {why}" if why else "")
        )
    if spec.cpus is not None and capabilities.cpus is not None and spec.cpus > capabilities.cpus:
        raise Unsupported(f"task asks for {spec.cpus:g} cpus, {where} has {capabilities.cpus:g}")
    if spec.memory_mb is not None and capabilities.memory_mb is not None:
        asked, have_mb = spec.memory_mb, capabilities.memory_mb
        if asked > have_mb:
            raise Unsupported(f"task asks for {asked} MiB of memory, {where} has {have_mb} MiB")


def _check_limits(spec: BoxSpec) -> None:
    """Refuse limits that an engine would take for no limit, or for another one."""
    if spec.cpus is not None and not spec.cpus >= LEAST_CPUS:
        raise BoxUnfit(
            f"task asks for {spec.cpus:g} cpus, a box needs {LEAST_CPUS:g} at least",
            hint="leave the limit out for none",
        )
    if spec.memory_mb is not None and spec.memory_mb <= 0:
        raise BoxUnfit(
            f"task asks for {spec.memory_mb} MiB of memory, a box needs more than none",
            hint="leave the limit out for none",
        )
