"""Where artifacts go on this machine, and which of them get in each other's way.

As in Harbor 0.26: one folder for the artifacts of all services, in which each is at its destination, else at
its path in the box. The first that claims a place keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import PurePosixPath

from pytest_rlenv.frameworks.harbor.artifacts import MAIN_SERVICE, Artifact

PUBLISHED = "/logs/artifacts"
"""The folder of the main box that is collected without being declared."""

MANIFEST = "manifest.json"


def with_published(artifacts: Iterable[Artifact]) -> list[Artifact]:
    """Return the artifacts with :data:`PUBLISHED` first, if no entry speaks of it already."""
    declared = list(artifacts)
    if any(is_published(artifact) for artifact in declared):
        return declared
    return [Artifact(source=PUBLISHED), *declared]


def is_published(artifact: Artifact) -> bool:
    """Return True for the entry of :data:`PUBLISHED`."""
    return artifact.source.rstrip("/") == PUBLISHED and service_of(artifact) == MAIN_SERVICE


def service_of(artifact: Artifact) -> str:
    """Return the service in whose box it is."""
    return artifact.service or MAIN_SERVICE


def source_of(artifact: Artifact) -> str:
    """Return its absolute path in the box; a relative one is below the root, as in Harbor."""
    return f"/{_below(artifact.source)}"


def place_of(artifact: Artifact) -> PurePosixPath:
    """Return its path below the folder of artifacts."""
    return _below(artifact.destination or artifact.source)


def overlap(first: PurePosixPath, second: PurePosixPath) -> bool:
    """Return True if two paths are the same, or one holds the other."""
    return first.is_relative_to(second) or second.is_relative_to(first)


def overlap_warnings(artifacts: Sequence[Artifact], where: str) -> list[str]:
    """Return one line for each pair of artifacts of which the second would be left out.

    Args:
        artifacts: all that are collected in one go.
        where: the field of ``task.toml``, for messages.
    """
    found = []
    for first, second in combinations(with_published(artifacts), 2):
        if overlap(place_of(first), place_of(second)) and not _covers(first, second):
            found.append(
                f"{where}: {second.source!r} would go to {place_of(second)}, where {first.source!r} is: "
                "it is left out"
            )
    return found


def _covers(first: Artifact, second: Artifact) -> bool:
    """Return True if the first brings along what the second names, to the same place."""
    source, inner = PurePosixPath(first.source), PurePosixPath(second.source)
    if service_of(first) != service_of(second) or not inner.is_relative_to(source):
        return False
    if inner == source and place_of(first) == place_of(second):
        return first.exclude == second.exclude
    return not first.exclude and place_of(second) == place_of(first) / inner.relative_to(source)


def _below(path: str) -> PurePosixPath:
    return PurePosixPath(*(part for part in path.split("/") if part not in ("", ".", "..")))
