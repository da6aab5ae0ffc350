"""What goes into a sandbox and what comes out of it: specs, limits, files, and how a command ended.

Plain data: :mod:`pytest_rlenv.sandboxes.protocol` says what is done with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_rlenv.disk import MIN_FREE

if TYPE_CHECKING:
    import socket

TakeListener = Callable[["socket.socket"], None]

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
class ImageLayer:
    """What is added to an image by running a script in it, once for all boxes that are to have it.

    Attributes:
        name: a readable word for the tag, such as an agent's name.
        script: for ``sh``, run as root, in ``/``, with the engine's own network. The same text on the same
            image is taken to make the same, so it names the versions of what it fetches. Where the variable
            ``RLENV_LAYER_CACHE`` is set, it is a folder for downloads that layers of other images find again.
        passing: found in the output of a script that failed, it says that another try may succeed. Any other
            failure is kept in mind for the run.
    """

    name: str
    script: str
    passing: re.Pattern[str] | None = None


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
        idle: True where it is known that nothing of the image's own (an ENTRYPOINT, a HEALTHCHECK) runs in a
            box on it: what is put there before the first command may as well be there from the start.
    """

    name: str
    id: str
    built: bool = False
    sandbox: str = ""
    digest: str = ""
    services: object | None = field(default=None, compare=False, repr=False)
    notes: tuple[str, ...] = ()
    idle: bool = field(default=False, compare=False)

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
        take_listener: called with a socket that listens on the box's loopback, whatever its network, once the
            box is up and each time it had to be started again. The socket belongs to whoever is called.
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
    take_listener: TakeListener | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ServerSpec:
    """How to start a server from its image.

    Attributes:
        port: where it listens in its container; ``None`` is the only one that the image exposes.
        default_port: where it listens if neither says.
        command: in place of the image's own CMD; empty keeps that.
        env: variables of its own.
        cpus: cores; ``None`` is no limit.
        memory_mb: MiB; ``None`` is no limit.
        lifetime: seconds after which a forgotten one may be removed by anyone.
        labels: words to find it by.
        log: the file that gets what it printed when it is closed.
    """

    port: int | None = None
    default_port: int = 8000
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cpus: float | None = None
    memory_mb: int | None = None
    lifetime: float = 24 * 3600.0
    labels: Mapping[str, str] = field(default_factory=dict)
    log: Path | None = None


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
        watched: of a folder that a box has from its start: where the image has none there, a sandbox may
            spare itself reading it while its time says that nothing was made in it. Whoever is root in the
            box can make that a lie, so it is for logs alone.
    """

    path: str
    content: bytes | None = None
    mode: int = 0o644
    source: Path | None = None
    link: str | None = None
    uid: int = 0
    gid: int = 0
    mtime: int = 1_000_000_000
    watched: bool = False

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
        mtime: when it was last changed, in whole seconds since 1970; ``None`` where that is not known.
    """

    kind: str
    size: int
    mode: int
    target: str = ""
    mtime: int | None = field(default=None, compare=False)


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
