"""Folders of a service that are in memory (``tmpfs``): no file can be put there, or fetched, from outside.

The engine looks at what is below such a mount: files put there vanish, and what a service wrote there is not
found. So either is refused: a verdict must not hang on a file that silently is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pytest_rlenv.errors import BoxUnfit


@dataclass(frozen=True)
class MemoryMounts:
    """The mounts of one service, by their paths in it.

    Attributes:
        memory: those in memory.
        others: volumes and files, which the engine does reach.
    """

    memory: frozenset[PurePosixPath] = frozenset()
    others: frozenset[PurePosixPath] = frozenset()

    @classmethod
    def of(cls, service: Mapping[str, Any]) -> MemoryMounts:
        """Read them from a service of a Compose file in its long form."""
        volumes = service.get("volumes") or ()
        memory = {each["target"] for each in volumes if each.get("type") == "tmpfs"}
        others = {each["target"] for each in volumes} - memory
        memory |= {str(each).partition(":")[0] for each in service.get("tmpfs") or ()}
        return cls(frozenset(map(PurePosixPath, memory)), frozenset(map(PurePosixPath, others)))

    def check(self, paths: Iterable[str]) -> None:
        """Refuse absolute paths that are in one; those in a volume that is mounted in one are fine.

        Raises:
            BoxUnfit: naming the mount.
        """
        if not self.memory:
            return
        for path in map(PurePosixPath, paths):
            holding = [mount for mount in self.memory | self.others if path.is_relative_to(mount)]
            nearest = max(holding, key=lambda mount: len(mount.parts), default=None)
            if nearest in self.memory:
                raise BoxUnfit(
                    f"{path} is in a tmpfs, {nearest}: files can be neither put there nor fetched",
                    hint="use a volume, or another place",
                )
