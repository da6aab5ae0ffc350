"""What goes into a sandbox and what comes out of it: specs, limits, files, and how a command ended.

Plain data: :mod:`pytest_rlenv.sandboxes.protocol` says what is done with it. All of it is imported from here,
also what two modules of their own hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_rlenv.disk import MIN_FREE
from pytest_rlenv.sandboxes.capabilities import ALLOWLIST, NO_NETWORK, PUBLIC, Capabilities
from pytest_rlenv.sandboxes.image_model import (
    LEFT_OUT,
    BuildOptions,
    ComposeSpec,
    ImageLayer,
    ImageRef,
    ImageSpec,
)

if TYPE_CHECKING:
    import socket

__all__ = [
    "ALLOWLIST",
    "DEFAULT_OUTPUT_CAP",
    "LEFT_OUT",
    "NO_NETWORK",
    "PUBLIC",
    "BoxSpec",
    "BuildOptions",
    "Capabilities",
    "Completed",
    "ComposeSpec",
    "Entry",
    "Extracted",
    "ImageLayer",
    "ImageRef",
    "ImageSpec",
    "SandboxContext",
    "ServerSpec",
    "Stat",
    "TakeListener",
]

TakeListener = Callable[["socket.socket"], None]

DEFAULT_OUTPUT_CAP = 4 * 1024 * 1024
"""Bytes kept of one stream of one command: the first half and the last half of the cap."""


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
