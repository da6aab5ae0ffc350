"""What every sandbox looks like to its callers: five verbs on a box, and what the box can promise.

Sandboxes know nothing of tasks. A caller asks :class:`Capabilities` first: what a sandbox cannot do is
refused before it starts, never done weaker in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

PUBLIC = "public"
NO_NETWORK = "no-network"

DEFAULT_OUTPUT_CAP = 4 * 1024 * 1024
"""Bytes kept of one stream of one command: the first half and the last half of the cap."""


@dataclass(frozen=True)
class Capabilities:
    """What a sandbox can hold. Absent means that a task which asks for it is skipped."""

    network_modes: frozenset[str] = frozenset()
    builds_images: bool = False
    users: bool = False
    gpus: int = 0
    cpus: float | None = None
    """Cores of the machine that runs the boxes; ``None`` where that is not known."""
    memory_mb: int | None = None
    """Memory of the machine that runs the boxes, in MiB; ``None`` where that is not known."""


@dataclass(frozen=True)
class ImageSpec:
    """An image to prepare: either the name of a prebuilt one, or a folder to build.

    Attributes:
        name: a prebuilt image's reference; then nothing is built.
        context: the build context, with a ``Dockerfile`` in it.
        slug: a readable word for the tag of a built image.
    """

    name: str | None = None
    context: Path | None = None
    slug: str = "task"


@dataclass(frozen=True)
class ImageRef:
    """An image that is here and can be started.

    Attributes:
        name: how people know it: the prebuilt reference or our tag.
        id: the engine's content id, ``sha256:...``.
        built: True when this call built it, False when it was there or pulled.
    """

    name: str
    id: str
    built: bool = False


@dataclass(frozen=True)
class BoxSpec:
    """How to start a box.

    Attributes:
        network: :data:`PUBLIC` or :data:`NO_NETWORK`.
        cpus: cores; ``None`` is no limit.
        memory_mb: MiB; ``None`` is no limit.
        env: variables that every command in the box sees.
        workdir: working directory of every command; ``None`` keeps the image's.
        lifetime: seconds after which a forgotten box may be removed by anyone.
        labels: words to find the box by, such as the task's name.
    """

    network: str = PUBLIC
    cpus: float | None = None
    memory_mb: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    lifetime: float = 24 * 3600.0
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One file or folder to put into a box.

    Attributes:
        path: where, relative to the destination, with ``/`` between parts.
        content: the bytes; ``None`` makes a folder.
        mode: permission bits.
        source: a file on this machine to read instead of ``content``.
    """

    path: str
    content: bytes | None = None
    mode: int = 0o644
    source: Path | None = None

    @property
    def is_dir(self) -> bool:
        """True for a folder."""
        return self.content is None and self.source is None


@dataclass(frozen=True)
class Completed:
    """How a command in a box ended.

    Attributes:
        exit_code: ``None`` when it was killed at its time limit.
        stdout, stderr: what was kept of each stream, bytes as printed.
        output: both streams in the order of arrival, kept likewise.
        output_bytes: how much was printed in all, kept or not.
        timed_out: True when the limit was reached and the box's processes were killed.
        seconds: wall time.
        oom_killed: True when the box ran out of memory meanwhile; ``None`` where that is not known.
    """

    exit_code: int | None
    stdout: bytes = b""
    stderr: bytes = b""
    output: bytes = b""
    output_bytes: int = 0
    timed_out: bool = False
    seconds: float = 0.0
    oom_killed: bool | None = None


@dataclass(frozen=True)
class Stat:
    """What is at a path in a box, looked at without opening it.

    Attributes:
        kind: ``file``, ``directory``, ``symlink``, ``fifo``, ``socket`` or ``device``.
        size: bytes.
        mode: permission bits.
        target: where a symlink points.
    """

    kind: str
    size: int
    mode: int
    target: str = ""


@dataclass
class Extracted:
    """What became of :meth:`Box.get_tree`.

    Attributes:
        files: how many files were written.
        bytes: how many bytes.
        refused: one line for each member that was left out, with the reason (a link, a device, over a cap).
    """

    files: int = 0
    bytes: int = 0
    refused: list[str] = field(default_factory=list)


@runtime_checkable
class Box(Protocol):
    """One running sandbox. Paths are absolute paths inside it. Nothing in it is trusted or followed."""

    @property
    def id(self) -> str:
        """How the engine knows it."""
        ...

    def put(self, entries: Iterable[Entry], dest: str = "/") -> None:
        """Write files and folders below ``dest`` as root; parents are made, owners are root.

        Raises:
            SandboxFailed: the box is gone or refuses. DiskFull: no space left.
        """
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str | int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        cap: int = DEFAULT_OUTPUT_CAP,
    ) -> Completed:
        """Run a command to its end and return how it ended; stdin is empty.

        At ``timeout`` seconds every process in the box but its keeper is killed, whatever it ignores and
        whichever session it moved to.

        Raises:
            SandboxFailed: the box died, or the command could not be started at all.
        """
        ...

    def stat(self, path: str) -> Stat | None:
        """Return what is at ``path`` without following a link there, ``None`` if nothing is."""
        ...

    def get(self, path: str, *, cap: int) -> bytes:
        """Return a regular file's bytes, at most ``cap`` of them; works on a stopped box too.

        Raises:
            SandboxFailed: there is no regular file of at most ``cap`` bytes at ``path``.
        """
        ...

    def get_tree(self, path: str, dest: Path, *, cap: int, max_files: int = 10_000) -> Extracted:
        """Copy the regular files below ``path`` into ``dest``, up to ``cap`` bytes; works when stopped too.

        Links, devices and names that leave ``dest`` are refused and listed. A missing ``path`` is empty.
        """
        ...

    def quiesce(self) -> None:
        """Kill every process in the box but its keeper."""
        ...

    def stop(self) -> None:
        """End all processes at once, keeping the files for :meth:`get`."""
        ...

    def destroy(self) -> None:
        """Remove the box; never raises for a box that is gone, and may be called twice."""
        ...


@runtime_checkable
class Sandbox(Protocol):
    """A maker of boxes.

    Your own is chosen by ``--rlenv-sandbox module:Class`` and made with a :class:`SandboxContext`.
    """

    @property
    def name(self) -> str:
        """The word in headers and records, such as ``docker``."""
        ...

    def describe(self) -> str:
        """Return what it is, with version, for the header."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What its boxes can hold."""
        ...

    def check(self) -> None:
        """Raise EngineUnavailable, with what was tried and the fix, if no box can be started at all."""
        ...

    def prepare(self, image: ImageSpec, *, timeout: float | None = None) -> ImageRef:
        """Build, pull or find the image; however many workers ask, one does it.

        Raises:
            BuildFailed, ImageUnavailable, StageTimeout (stage build), DiskFull, EngineUnavailable.
            Unsupported: this sandbox cannot make the image.
        """
        ...

    def start(self, image: ImageRef, spec: BoxSpec, entries: Iterable[Entry] = ()) -> Box:
        """Start a box; ``entries`` are there (at absolute paths, below ``/``) before its first process.

        Raises:
            SandboxFailed, EntrypointExited, DiskFull, Unsupported (the engine lacks what the spec asks for).
        """
        ...

    def close(self) -> None:
        """Let go of everything that this process holds; boxes still up are removed."""
        ...


@dataclass(frozen=True)
class SandboxContext:
    """What a sandbox is told of the run that makes it.

    Attributes:
        session: id of the whole run, the same in all its workers: everything made carries it.
        worker: name of this process in the run, ``main`` or ``gw0`` ...
        cache_dir: where locks and caches that outlive the run belong.
        run_dir: folder of this run, shared by its workers.
    """

    session: str
    worker: str
    cache_dir: Path
    run_dir: Path
