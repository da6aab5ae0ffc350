"""Between agent and verifier: bring the task's artifacts here.

Harbor 0.26 does so with its best effort: one that is not there is noted. What is collected is a copy: on this
machine it is regular files only, whatever the box has; a verifier in a box of its own is given it as it was
(see ``carrying.py``).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_rlenv.errors import BoxUnfit
from pytest_rlenv.frameworks.harbor.artifact_places import (
    MANIFEST,
    is_published,
    overlap,
    place_of,
    service_of,
    source_of,
    with_published,
)
from pytest_rlenv.frameworks.harbor.artifacts import MAIN_SERVICE, Artifact
from pytest_rlenv.frameworks.harbor.collect_hooks import no_service
from pytest_rlenv.frameworks.harbor.logs import some
from pytest_rlenv.frameworks.harbor.tar_exclude import excluder
from pytest_rlenv.rollout import StepRecord
from pytest_rlenv.sandboxes.model import Entry, Extracted
from pytest_rlenv.sandboxes.protocol import Box

MAX_BYTES = 1 << 30
"""Bytes of artifacts of one step that are brought here."""
MAX_FILES = 50_000
"""How many files that may be."""

_MAX_LINKS = 10


@dataclass(frozen=True)
class Found:
    """An artifact that is here.

    Attributes:
        source: its absolute path in the box.
        entries: what it is, ready to be put elsewhere: below ``source`` for a folder, else beside it.
        is_dir: True for a folder.
    """

    source: str
    entries: Sequence[Entry]
    is_dir: bool


@dataclass
class Collection:
    """What was collected.

    Attributes:
        found: what is here, in the order of the declaration.
        manifest: what was looked for and what became of it, in Harbor's words.
        over_cap: True if something was left out for its size.
    """

    found: list[Found] = field(default_factory=list)
    manifest: list[dict[str, Any]] = field(default_factory=list)
    over_cap: bool = False


def collect(
    artifacts: Sequence[Artifact],
    services: Mapping[str, Box],
    folder: Path,
    record: StepRecord,
    *,
    before_services: Callable[[], None] = lambda: None,
) -> Collection:
    """Bring the artifacts here, with ``/logs/artifacts`` whether it is declared or not; write the manifest.

    Args:
        artifacts: those that are declared.
        services: the boxes by the names of their services; the agent's is ``main``.
        folder: the step's folder ``artifacts`` on this machine.
        record: where it is noted what is missing.
        before_services: called between the artifacts of ``main`` and those of services beside it.

    Raises:
        SandboxFailed: a box died. DiskFull: no space left here.
    """
    everything = with_published(artifacts)
    collector = _Collector(services, folder, record)
    for artifact in everything:
        if service_of(artifact) == MAIN_SERVICE:
            collector.take(artifact)
    before_services()
    for artifact in everything:
        if service_of(artifact) != MAIN_SERVICE:
            collector.take(artifact)
    return collector.finish()


class _Collector:
    """One collection under way."""

    def __init__(self, services: Mapping[str, Box], folder: Path, record: StepRecord) -> None:
        self._services = services
        self._folder = folder
        self._record = record
        self._taken = [PurePosixPath(MANIFEST)]
        self._refused: list[str] = []
        self._bytes, self._files = MAX_BYTES, MAX_FILES
        self._done = Collection()

    def take(self, artifact: Artifact) -> None:
        """Bring one artifact here, if its place is free."""
        place, service = place_of(artifact), service_of(artifact)
        found: Found | None = None
        if any(overlap(place, other) for other in self._taken):
            self._done.manifest.append(_row(artifact, "skipped", None))
            return
        self._taken.append(place)
        if service in self._services:
            found = self._bring(artifact, self._services[service], self._folder / place)
        else:
            self._miss(artifact, no_service(service, self._services))
        if found is not None:
            self._done.found.append(found)
        self._done.manifest.append(_row(artifact, _status(found), found))

    def finish(self) -> Collection:
        """Write the manifest and return what was collected."""
        if self._refused:
            self._record.note("artifacts-refused", f"left out of the artifacts: {some(self._refused)}")
        self._folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self._done.manifest, indent=2)
        (self._folder / MANIFEST).write_text(f"{text}\n", encoding="utf-8")
        return self._done

    def _miss(self, artifact: Artifact, why: str) -> None:
        self._record.note("artifact-missing", f"artifact {artifact.source}: {why}")

    def _bring(self, artifact: Artifact, box: Box, target: Path) -> Found | None:
        source = source_of(artifact)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".artifact-") as scratch:
            here = Path(scratch) / "it"
            try:
                got = self._get(box, source, here, excluder(artifact.exclude))
            except BoxUnfit as error:
                self._miss(artifact, error.message)
                return None
            self._done.over_cap |= got.over_cap
            self._refused += [line for line in got.refused if ": a link to " not in line]
            is_dir = any(entry.path == "" for entry in got.entries)
            files = [entry for entry in got.entries if entry.source is not None]
            if is_dir:
                here.rename(target)
                moved = [
                    replace(entry, source=target / entry.path) if entry.source else entry
                    for entry in got.entries
                ]
                return Found(source, moved, is_dir=True)
            if files and files[0].source:
                files[0].source.rename(target)
                only = replace(files[0], path=PurePosixPath(source).name, source=target)
                return Found(source, [only], is_dir=False)
        if not got.refused and not is_published(artifact):
            self._miss(artifact, "not there after the agent")
        return None

    def _note_link(self, asked: str, path: str, got: Extracted) -> None:
        """Note a link to a file, of which Harbor has nothing but the link."""
        if not any(entry.path == "" for entry in got.entries):
            self._record.note(
                "artifact-link", f"artifact {asked}: a link; what it leads to, {path}, was taken"
            )

    def _get(self, box: Box, path: str, dest: Path, skip: Callable[[str], bool] | None) -> Extracted:
        """Copy what is at a path, or where a link there leads within the box."""
        asked = path
        for _ in range(_MAX_LINKS):
            got = box.get_tree(path, dest, cap=self._bytes, max_files=self._files, skip=skip)
            link = next((e.link for e in got.entries if e.path == PurePosixPath(path).name), None)
            if link is None or any(entry.path == "" for entry in got.entries):
                self._bytes -= got.bytes
                self._files -= got.files
                if path != asked and got.files:
                    self._note_link(asked, path, got)
                return got
            path = str(PurePosixPath(path).parent / link)
        return Extracted()


def _status(found: Found | None) -> str:
    if found is None:
        return "failed"
    return "ok" if any(not entry.is_dir for entry in found.entries) else "empty"


def _row(artifact: Artifact, status: str, found: Found | None) -> dict[str, Any]:
    """Return an artifact's entry in the manifest."""
    # what was not found is what its name looks like, as in Harbor
    is_dir = found.is_dir if found else not PurePosixPath(artifact.source).suffix
    return {
        "source": artifact.source,
        "destination": f"artifacts/{place_of(artifact)}",
        "type": "directory" if is_dir else "file",
        "status": status,
        "service": artifact.service,
        "exclude": list(artifact.exclude) if is_dir else [],
    }
