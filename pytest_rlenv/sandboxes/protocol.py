"""What every sandbox looks like to its callers: five verbs on a box, and how boxes are made.

Sandboxes know nothing of tasks. A caller asks first for a sandbox's
:class:`~pytest_rlenv.sandboxes.model.Capabilities`: what it cannot do is refused before it starts, never
done weaker in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from pytest_rlenv.sandboxes.model import (
    DEFAULT_OUTPUT_CAP,
    BoxSpec,
    Capabilities,
    Completed,
    Entry,
    Extracted,
    ImageLayer,
    ImageRef,
    ImageSpec,
    ServerSpec,
    Stat,
)


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


@runtime_checkable
class SandboxWithLayers(Sandbox, Protocol):
    """A sandbox whose capabilities say that it :attr:`~.Capabilities.extends_images`."""

    def extend(self, image: ImageRef, layer: ImageLayer, *, timeout: float | None = None) -> ImageRef:
        """Return an image with a layer on it, made once however many workers ask.

        What the image starts, its user and its working directory stay as they are.

        Raises:
            BuildFailed: the script failed. StageTimeout (stage build), DiskFull, EngineUnavailable.
            SandboxFailed: the image's name stands for another one by now.
            Unsupported: the image has services beside it, which come with images of their own.
        """
        ...


@runtime_checkable
class ServerBox(Protocol):
    """A container that is a server."""

    @property
    def id(self) -> str:
        """How the engine knows it."""
        ...

    @property
    def address(self) -> tuple[str, int]:
        """Host and port by which this machine, and no other, reaches it."""
        ...

    def ended(self) -> str | None:
        """Return how it ended, such as ``exit code 1``; ``None`` while it runs."""
        ...

    def tail(self) -> str:
        """Return the last lines that it printed."""
        ...

    def put(self, entries: Sequence[Entry], dest: str = "/") -> None:
        """Write files below ``dest`` as root; raises as :meth:`Box.put` does."""
        ...

    def run(self, argv: Sequence[str], *, timeout: float, env: Mapping[str, str] | None = None) -> Completed:
        """Run a command as root beside the server; one that times out is left to run.

        Raises:
            SandboxFailed: it cannot be started, or the container died.
        """
        ...

    def close(self) -> None:
        """Remove it; never raises, and may be called twice."""
        ...


@runtime_checkable
class SandboxWithServers(Sandbox, Protocol):
    """A sandbox whose capabilities say that it has :attr:`~.Capabilities.servers`."""

    def serve(self, image: ImageRef, spec: ServerSpec) -> ServerBox:
        """Start a server from an image; it may not be ready yet, and need not stay up.

        Raises:
            Unsupported: the engine lacks what the spec asks for. BoxUnfit: the image has nothing to start.
            SandboxFailed, DiskFull, EngineUnavailable.
        """
        ...
