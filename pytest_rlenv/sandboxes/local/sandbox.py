"""The local sandbox: boxes are namespaces of this machine, on extracted images or its own userland."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import ClassVar

from pytest_rlenv.errors import EngineUnavailable, Unsupported
from pytest_rlenv.sandboxes.confinement import check_spec
from pytest_rlenv.sandboxes.local.box import LocalBox
from pytest_rlenv.sandboxes.local.boxes import Boxes
from pytest_rlenv.sandboxes.local.images import HOST_NAME, IMAGES_NAME, LocalImages
from pytest_rlenv.sandboxes.local.limits import describe_limits
from pytest_rlenv.sandboxes.local.setup import find_setup
from pytest_rlenv.sandboxes.model import (
    ALLOWLIST,
    NO_NETWORK,
    PUBLIC,
    BoxSpec,
    Capabilities,
    Entry,
    ImageLayer,
    ImageRef,
    ImageSpec,
    SandboxContext,
)

_MIB = 1024 * 1024


class LocalSandbox:
    """Makes boxes of Linux namespaces, through bubblewrap.

    With Docker at hand, or an image that was extracted before, boxes have the image's files; otherwise this
    machine's userland, for Dockerfiles that need no more. Nothing is tried out before it is needed. Safe to
    use from several threads.

    Args:
        context: session, worker and folders of the run.
    """

    host_only: ClassVar[bool] = False
    """True where images are not used, even if they could be."""

    def __init__(self, context: SandboxContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._ready: _Ready | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """``local``, or ``local (host userland)`` where images are not used, as results may differ."""
        try:
            uses_host = self._parts().images.uses_host
        except EngineUnavailable:
            uses_host = self.host_only
        return HOST_NAME if uses_host else IMAGES_NAME

    def describe(self) -> str:
        """Return the mode, bubblewrap's version, and what is held less than in a container.

        Raises:
            EngineUnavailable: no box can be started at all.
        """
        parts = self._parts()
        mode = parts.images.describe()
        who = "root" if parts.setup.privileged else "a plain user"
        limits = describe_limits(parts.boxes.cgroups, privileged=parts.setup.privileged)
        facts = [f"bubblewrap {parts.setup.binary.version} as {who}", "public network is this machine's"]
        if parts.setup.no_overlay and not self.host_only:
            facts.append(f"no images: {parts.setup.no_overlay}")
        return f"local ({mode}; {', '.join([*facts, *limits])})"

    @property
    def capabilities(self) -> Capabilities:
        """What boxes can hold; raises EngineUnavailable if none can be started.

        Without root there is no other user in a box. Images are "built" in both modes: over the host's
        userland, a Dockerfile that cannot be followed is refused when it is prepared, by its line.
        """
        return Capabilities(
            network_modes=frozenset({PUBLIC, NO_NETWORK, ALLOWLIST}),
            switches_network=frozenset({NO_NETWORK, ALLOWLIST}),
            listeners=True,
            builds_images=True,
            extends_images=not self._parts().images.uses_host,
            prepares_ahead=True,
            users=self._parts().setup.privileged,
            gpus=0,
            cpus=float(len(os.sched_getaffinity(0))),
            memory_mb=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _MIB,
        )

    def check(self) -> None:
        """Raise EngineUnavailable, with what was tried and the fix, if no box can be started at all."""
        self._parts()

    def prepare(self, image: ImageSpec, *, timeout: float | None = None) -> ImageRef:
        """Build, pull, extract or find the image; however many workers ask, one does it.

        Raises:
            Unsupported: there are no images here, and the task needs one.
            BuildFailed, ImageUnavailable, StageTimeout (stage build), DiskFull, EngineUnavailable.
            TaskInvalid: the build context has no Dockerfile or cannot be read.
        """
        if image.compose is not None:
            raise Unsupported(f"{image.compose.file.name}: this sandbox runs no services beside a box")
        return self._parts().images.prepare(image, timeout)

    def extend(self, image: ImageRef, layer: ImageLayer, *, timeout: float | None = None) -> ImageRef:
        """Return an image with a layer on it; however many workers ask, one makes it.

        Raises:
            BuildFailed, StageTimeout (stage build), SandboxFailed, DiskFull, EngineUnavailable.
            Unsupported: there are no images here.
        """
        return self._parts().images.extend(image, layer, timeout)

    def start(self, image: ImageRef, spec: BoxSpec, entries: Iterable[Entry] = ()) -> LocalBox:
        """Start a box; ``entries`` are there (at absolute paths, below ``/``) before its first process.

        The image's ENTRYPOINT runs and is given a keeper as its command; commands wait until it has started
        that. An image with a HEALTHCHECK is waited for until it is healthy. ``spec.workdir`` is not created.

        Raises:
            Unsupported: the box cannot be held as asked.
            EntrypointExited: the image's ENTRYPOINT ended.
            SandboxFailed, DiskFull, EngineUnavailable, ImageUnavailable (it was removed meanwhile).
        """
        parts = self._parts()
        check_spec(spec, self.capabilities, where="this machine")
        return parts.boxes.start(parts.images.source(image), spec, tuple(entries))

    def close(self) -> None:
        """Remove all boxes that are still up, start none any more, and let go of everything."""
        with self._lock:
            parts = self._ready
            self._closed = True
        if parts is not None:
            parts.boxes.close()
            parts.images.close()

    def _parts(self) -> _Ready:
        with self._lock:
            if self._ready is None:
                self._ready = _Ready(self._context, host_only=self.host_only)
                if self._closed:
                    self._ready.boxes.close()
            return self._ready


class HostSandbox(LocalSandbox):
    """A local sandbox that uses this machine's userland, whether or not images could be had."""

    host_only = True


class _Ready:
    """What a sandbox has once it was needed."""

    def __init__(self, context: SandboxContext, *, host_only: bool) -> None:
        self.setup = find_setup(context.cache_dir)
        self.boxes = Boxes(self.setup)
        self.images = LocalImages(
            context, owners=self.setup.privileged, no_overlay=self.setup.no_overlay, host_only=host_only
        )
