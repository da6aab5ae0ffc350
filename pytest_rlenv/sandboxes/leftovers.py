"""What a sandbox has left on a machine: what was removed of it, or would be, and what had to stay."""

from __future__ import annotations

from dataclasses import dataclass, field

IMAGE, CONTAINER, ROOTFS, BOX = "image", "container", "root file system", "box"
NETWORK, VOLUME = "network", "volume"


@dataclass(frozen=True)
class Leftover:
    """One thing.

    Attributes:
        kind: one of the words above.
        name: how people know it.
        size: bytes that nothing else shares.
    """

    kind: str
    name: str
    size: int = 0


@dataclass
class Pruned:
    """What became of everything.

    Attributes:
        removed: what was removed, or would have been.
        in_use: how many things stayed because something uses them.
        recent: how many stayed because they were used lately.
        problems: why something could not be removed, one line each.
        freed: bytes that the disk has got back.
        held: bytes that the removed things took, and that something else holds on to.
    """

    removed: list[Leftover] = field(default_factory=list)
    in_use: int = 0
    recent: int = 0
    problems: list[str] = field(default_factory=list)
    freed: int = 0
    held: int = 0
