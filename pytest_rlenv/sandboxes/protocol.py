"""What every sandbox looks like to its callers: five verbs on a box, and what the box can promise.

Sandboxes know nothing of tasks. A caller asks :class:`Capabilities` first: what a sandbox cannot do is
refused before it starts, never done weaker in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from pytest_rlenv.disk import MIN_FREE

PUBLIC = "public"
NO_NETWORK = "no-network"
ALLOWLIST = "allowlist"
"""No network but for HTTP and HTTPS to the hosts of a list, through a proxy that the box's variables name."""

DEFAULT_OUTPUT_CAP = 4 * 1024 * 1024
"""Bytes kept of one stream of one command: the first half and the last half of the cap."""


@dataclass(frozen=True)
class Capabilities:
    """What a sandbox can hold. Absent means that a task which asks for it is skipped."""

    network_modes: frozenset[str] = frozenset()
    switches_network: frozenset[str] = frozenset()
    """The modes between which a running box can be switched; empty if it keeps its first one."""
    missing_networks: Mapping[str, str] = field(default_factory=dict)
    """Why a network mode that others have is not there, where there is more to say than that."""
    builds_images: bool = False
    prepares_ahead: bool = False
    """Images may be prepared by a thread of their own while boxes run."""
    services: bool = False
    """Whether a Compose file's services can be run beside a box."""
    users: bool = False
    gpus: int = 0
    cpus: float | None = None
    """Cores of the machine that runs the boxes; ``None`` where that is not known."""
    memory_mb: int | None = None
    """Memory of the machine that runs the boxes, in MiB; ``None`` where that is not known."""


@dataclass(frozen=True)
class BuildOptions:
    """How to build from a context, where it is not simply by its ``Dockerfile``.

    Attributes:
        dockerfile: another file of the context, relative to it.
        text: the Dockerfile itself; then none is read from the context.
        args: build arguments.
        target: the stage to build; empty is the last.
    """

    dockerfile: str = ""
    text: str = ""
    args: tuple[tuple[str, str], ...] = ()
    target: str = ""


LEFT_OUT = Path("/.rlenv-left-out")
"""A folder of no machine: what a Compose file would mount from it is not mounted."""


@dataclass(frozen=True)
class ComposeSpec:
    """Services beside a box, as a Compose file describes them.

    Attributes:
        file: the Compose file; its folder is the project's.
        root: the folder that nothing of it may leave.
        env: variables that it is filled in with.
        main: the service that is the box.
    """

    file: Path
    root: Path
    env: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    main: str = "main"


@dataclass(frozen=True)
class ImageSpec:
    """An image to prepare: either the name of a prebuilt one, or a folder to build.

    Attributes:
        name: a prebuilt image's reference; then nothing is built.
        context: the build context, with a ``Dockerfile`` in it.
        slug: a readable word for the tag of a built image.
        options: how it is built.
        compose: the services to prepare with it; the image is what their box is made from where their file
            does not say so.
    """

    name: str | None = None
    context: Path | None = None
    slug: str = "task"
    options: BuildOptions = BuildOptions()
    compose: ComposeSpec | None = None


@dataclass(frozen=True)
class ImageRef:
    """An image that is here and can be started.

    Attributes:
        name: how people know it: the prebuilt reference or our tag.
        id: the engine's content id, ``sha256:...``.
        built: True when this call built it, False when it was there or pulled.
        sandbox: what records call the sandbox of boxes on it, where its own name would be wrong.
        digest: the registry's digest of a prebuilt image, ``sha256:...``, by which anyone can pull it;
            empty where there is none.
        services: what the sandbox keeps of the services that it has prepared with it; ``None`` for none.
        notes: what was left out of these, one line each.
    """

    name: str
    id: str
    built: bool = False
    sandbox: str = ""
    digest: str = ""
    services: object | None = field(default=None, compare=False, repr=False)
    notes: tuple[str, ...] = ()

    @property
    def pinned(self) -> str:
        """The name with what it stood for: the registry's digest where there is one, else the engine's id."""
        return self.name if "@" in self.name else f"{self.name}@{self.digest or self.id}"


@dataclass(frozen=True)
class BoxSpec:
    """How to start a box.

    Attributes:
        network: :data:`PUBLIC`, :data:`NO_NETWORK` or :data:`ALLOWLIST`.
        allowed_hosts: what an allowlist allows at first: names, ``*.`` wildcards, addresses and ranges, as
            :class:`pytest_rlenv.sandboxes.network.hosts.HostList` reads them.
        later_networks: the modes that :meth:`Box.set_network` will be asked for: a box may need to be made
            ready for them.
        cpus: cores; ``None`` is no limit.
        memory_mb: MiB; ``None`` is no limit.
        env: variables that every command in the box sees.
        workdir: working directory of every command; ``None`` keeps the image's.
        start_timeout: seconds that services beside the box have to be up and healthy; ``None`` for those that
            the sandbox gives them.
        lifetime: seconds after which a forgotten box may be removed by anyone.
        labels: words to find the box by, such as the task's name.
    """

    network: str = PUBLIC
    allowed_hosts: tuple[str, ...] = ()
    later_networks: frozenset[str] = frozenset()
    cpus: float | None = None
    memory_mb: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    start_timeout: float | None = None
    lifetime: float = 24 * 3600.0
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One file, folder or symlink to put into a box.

    Attributes:
        path: where, relative to the destination, with ``/`` between parts.
        content: the bytes; ``None`` makes a folder.
        mode: permission bits.
        source: a file on this machine to read instead of ``content``.
        link: where a symlink points; then there are no bytes.
        uid, gid: the owner, by number.
        mtime: seconds since 1970 of a file's last change; fixed, so that equal inputs give equal boxes.
    """

    path: str
    content: bytes | None = None
    mode: int = 0o644
    source: Path | None = None
    link: str | None = None
    uid: int = 0
    gid: int = 0
    mtime: int = 1_000_000_000

    @property
    def is_dir(self) -> bool:
        """True for a folder."""
        return self.content is None and self.source is None and self.link is None


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
        target: where a symlink points; an engine tells that of a relative one as an absolute path.
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
        over_cap: True if something was left out for its size or number.
        entries: what was found, as entries that put it elsewhere as it was: with owners, modes and times,
            symlinks too, though none was made on this machine. The folder asked for has an empty path.
    """

    files: int = 0
    bytes: int = 0
    refused: list[str] = field(default_factory=list)
    over_cap: bool = False
    entries: list[Entry] = field(default_factory=list, compare=False)


@runtime_checkable
class Box(Protocol):
    """One running sandbox. Paths are absolute paths inside it. Nothing in it is trusted or followed."""

    @property
    def id(self) -> str:
        """How the engine knows it."""
        ...

    def put(self, entries: Iterable[Entry], dest: str = "/") -> None:
        """Write files and folders below ``dest`` as root; parents are made, owners are root.

        Whatever is at a path is replaced, but for a folder that is to be one. Links among the parents are
        followed inside the box.

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
            SandboxFailed: the box died, or there was nothing left to start the command with.
            BoxUnfit: it cannot be started for what it, or the image, says.
            Unsupported: these boxes have no such user.
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

    def get_tree(
        self,
        path: str,
        dest: Path,
        *,
        cap: int,
        max_files: int = 10_000,
        skip: Callable[[str], bool] | None = None,
    ) -> Extracted:
        """Copy the regular files below ``path`` into ``dest``, up to ``cap`` bytes; works when stopped too.

        Links, devices and names that leave ``dest`` are refused and listed. A missing ``path`` is empty. What
        ``skip`` is true for, by its name below ``path``, is left out with all below it, and listed nowhere.
        """
        ...

    def set_network(self, mode: str, allowed_hosts: Iterable[str] = ()) -> None:
        """Change what the box may reach, from now on: existing connections that are not allowed are dead.

        Commands started afterwards see the environment variables that go with the mode; what is running
        already keeps its own.

        Args:
            mode: the box's own, or one that its :class:`BoxSpec` has announced.
            allowed_hosts: for an allowlist, as in :class:`BoxSpec`.

        Raises:
            Unsupported: the box was not made ready for the mode.
            SandboxFailed: the box is gone, or the change could not be made; it is not to be used any more.
            ValueError: an allowed host cannot be read.
        """
        ...

    def take_denied(self) -> dict[str, int]:
        """Return what an allowlist has refused since last asked, as ``host:port``, and how often."""
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
class BoxWithServices(Box, Protocol):
    """A box with services beside it: stopping it leaves them up, destroying it takes them along."""

    @property
    def services(self) -> tuple[str, ...]:
        """The names of all services; the box itself is ``main``."""
        ...

    def service(self, name: str) -> Box:
        """Return the box of a service, which need not have a shell, nor a user's name, nor anything else.

        Raises:
            SandboxFailed: there is none of that name.
        """
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
        """Let go of everything that this process holds: boxes still up are removed.

        Threads may be about to start one: such a :meth:`start`, and any later one, raises SandboxFailed and
        leaves nothing. A call on a box that is removed meanwhile raises too, so that its thread can end.
        """
        ...


@dataclass(frozen=True)
class SandboxContext:
    """What a sandbox is told of the run that makes it.

    Attributes:
        session: id of the whole run, the same in all its workers: everything made carries it.
        worker: name of this process in the run, ``main`` or ``gw0`` ...
        cache_dir: where locks and caches that outlive the run belong.
        run_dir: folder of this run, shared by its workers.
        min_free: bytes that must be free where an image goes before it is made; 0 for no such check.
        notify: told in one line when something makes everybody wait, such as a long pull.
        allow_unsafe_compose: let Compose files ask for what reaches out of their containers.
    """

    session: str
    worker: str
    cache_dir: Path
    run_dir: Path
    min_free: int = MIN_FREE
    notify: Callable[[str], None] | None = None
    allow_unsafe_compose: bool = False
