"""What a sandbox can hold, the modes of networks among it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PUBLIC = "public"
NO_NETWORK = "no-network"
ALLOWLIST = "allowlist"
"""No network but for HTTP and HTTPS to the hosts of a list, through a proxy that the box's variables name."""


@dataclass(frozen=True)
class Capabilities:
    """What a sandbox can hold. Absent means that a task which asks for it is skipped."""

    network_modes: frozenset[str] = frozenset()
    switches_network: frozenset[str] = frozenset()
    """The modes between which a running box can be switched; empty if it keeps its first one."""
    missing_networks: Mapping[str, str] = field(default_factory=dict)
    """Why a network mode that others have is not there, where there is more to say than that."""
    listeners: bool = False
    """Whether a box hands over a listening socket, as :attr:`BoxSpec.take_listener` asks."""
    missing_listeners: str = ""
    """Why it does not, where there is more to say than that."""
    builds_images: bool = False
    extends_images: bool = False
    """Whether a script can be run into an image once, instead of in each box on it."""
    prepares_ahead: bool = False
    """Images may be prepared by a thread of their own while boxes run."""
    services: bool = False
    """Whether a Compose file's services can be run beside a box."""
    servers: bool = False
    """Whether an image's own command can be run as a server that this machine reaches."""
    users: bool = False
    gpus: int = 0
    cpus: float | None = None
    """Cores of the machine that runs the boxes; ``None`` where that is not known."""
    memory_mb: int | None = None
    """Memory of the machine that runs the boxes, in MiB; ``None`` where that is not known."""
