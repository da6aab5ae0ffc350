"""What images take on an engine's disk, and what removing some has given back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.failures import EngineRefused


@dataclass(frozen=True)
class DiskUsage:
    """The engine's account of its disk at one moment.

    Attributes:
        layers: bytes of all layers of all images; ``None`` where the engine does not say.
        own: by image, the bytes that no other image shares.
        cache: bytes of the build cache that no image shares.
    """

    layers: int | None
    own: dict[str, int]
    cache: int

    @classmethod
    def of(cls, engine: Engine) -> DiskUsage:
        """Ask an engine, which may take it some seconds."""
        try:
            found = engine.get("/system/df", doing="ask what takes space")
        except EngineRefused:  # not all that speak this API know it
            found = {}
        layers = found.get("LayersSize")
        cache = [each for each in found.get("BuildCache") or () if not each.get("Shared")]
        return cls(
            layers=None if layers is None else int(layers),
            own={str(each.get("Id")): _own_bytes(each) for each in found.get("Images") or ()},
            cache=sum(_bytes(each, "Size") for each in cache),
        )

    def own_size(self, image: dict[str, Any]) -> int:
        """Return the bytes of an image that no other shares, as well as they are known."""
        return self.own.get(str(image["Id"]), int(image.get("Size") or 0))

    def freed_until(self, later: DiskUsage) -> tuple[int, int]:
        """Return the bytes that the disk has got back, and those that the build cache holds on to."""
        if self.layers is None or later.layers is None:
            gone = sum(size for image, size in self.own.items() if image not in later.own)
        else:
            gone = self.layers - later.layers
        gone = max(0, gone)  # others may have made images meanwhile
        held = min(gone, max(0, later.cache - self.cache))
        return gone - held, held


def _own_bytes(image: dict[str, Any]) -> int:
    return max(0, _bytes(image, "Size") - _bytes(image, "SharedSize"))


def _bytes(described: dict[str, Any], field: str) -> int:
    """Return a size of the engine's, which is absent or -1 where it has not been added up."""
    return max(0, int(described.get(field) or 0))
