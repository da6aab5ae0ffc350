"""Folders in memory, which the engine cannot reach: refused with the mount's name, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_rlenv.errors import BoxUnfit
from pytest_rlenv.sandboxes.docker.compose.memory_mounts import MemoryMounts

MOUNTS: dict[str, Any] = {
    "tmpfs": ["/run:mode=755", "/cache"],
    "volumes": [
        {"type": "tmpfs", "target": "/long"},
        {"type": "volume", "target": "/cache/kept", "source": "kept"},
        {"type": "volume", "target": "/data", "source": "data"},
        {"type": "tmpfs", "target": "/data/fast/"},
    ],
}


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        ("/cache", "/cache"),
        ("/cache/a/b", "/cache"),
        ("/run/x", "/run"),
        ("/long/x", "/long"),
        ("/data/fast/x", "/data/fast"),
        ("/cache/kept", None),
        ("/cache/kept/x", None),
        ("/data/x", None),
        ("/cached", None),
        ("/", None),
    ],
)
def test_what_is_in_memory_is_refused(path: str, mount: str | None) -> None:
    mounts = MemoryMounts.of(MOUNTS)
    if mount is None:
        mounts.check(["/app", path])
        return
    with pytest.raises(BoxUnfit) as raised:
        mounts.check(["/app", path])
    assert (
        raised.value.message == f"{path} is in a tmpfs, {mount}: files can be neither put there nor fetched"
    )


def test_a_service_without_mounts_refuses_nothing() -> None:
    MemoryMounts.of({"image": "x"}).check(["/run/x"])
