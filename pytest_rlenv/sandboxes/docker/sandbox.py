"""The Docker sandbox: boxes are containers of one engine, local or remote, with no host folder in them."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pytest_rlenv.errors import Unsupported
from pytest_rlenv.sandboxes.confinement import check_spec
from pytest_rlenv.sandboxes.docker import archive
from pytest_rlenv.sandboxes.docker.box import DockerBox
from pytest_rlenv.sandboxes.docker.client import Engine, shared_engine
from pytest_rlenv.sandboxes.docker.failures import EngineRefused, refusals_as_errors
from pytest_rlenv.sandboxes.docker.handover import impediment, not_shared
from pytest_rlenv.sandboxes.docker.health import wait_healthy
from pytest_rlenv.sandboxes.docker.hostconfig import check_warnings, host_config
from pytest_rlenv.sandboxes.docker.labels import box_labels
from pytest_rlenv.sandboxes.docker.networks import BoxNetwork, sweep_folders
from pytest_rlenv.sandboxes.docker.parts import Parts
from pytest_rlenv.sandboxes.docker.postmortem import ImageFacts, cause_of_death, start_refused
from pytest_rlenv.sandboxes.docker.reaper import dismiss_reaper, start_reaper
from pytest_rlenv.sandboxes.docker.removal import remove_container
from pytest_rlenv.sandboxes.docker.servers import DockerServer, start_server
from pytest_rlenv.sandboxes.docker.stamps import Stamps
from pytest_rlenv.sandboxes.docker.sweep import sweep_stale
from pytest_rlenv.sandboxes.keeper import keeper_command
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
    ServerSpec,
)
from pytest_rlenv.sandboxes.starts import Starts

if TYPE_CHECKING:
    from pytest_rlenv.sandboxes.docker.compose.services import Prepared

_MIB = 1024 * 1024
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.-]+")


class DockerSandbox:
    """Makes boxes in the engine that the ``docker`` command line would use.

    Nothing is asked of the engine before it is needed. Safe to use from several threads.

    Args:
        context: session, worker and folders of the run.
        engine: a connected engine; by default this process's shared one.
    """

    name = "docker"

    def __init__(self, context: SandboxContext, engine: Engine | None = None) -> None:
        self._context = context
        self._given = engine
        self._lock = threading.Lock()
        self._ready: Parts | None = None
        self._starts = Starts()

    def describe(self) -> str:
        """Return the engine and its version, such as ``docker 20.10.24``.

        Raises:
            EngineUnavailable: there is no engine.
        """
        with refusals_as_errors():
            engine = self._parts().engine
            note = " (its GPUs are not used: their number is not known)" if _has_nvidia(engine) else ""
            return f"docker {engine.version()}{note}"

    @property
    def capabilities(self) -> Capabilities:
        """What boxes of this engine can hold; raises EngineUnavailable if there is no engine.

        No GPUs: an engine with an nvidia runtime does not say how many it has, so none are promised.
        """
        with refusals_as_errors():
            engine = self._parts().engine
            info, no_allowlists = engine.info(), impediment(engine)
        modes = {PUBLIC, NO_NETWORK} if no_allowlists else {PUBLIC, NO_NETWORK, ALLOWLIST}
        return Capabilities(
            network_modes=frozenset(modes),
            switches_network=frozenset(modes),
            missing_networks={ALLOWLIST: no_allowlists} if no_allowlists else {},
            listeners=not no_allowlists,
            missing_listeners=no_allowlists,
            builds_images=True,
            extends_images=True,
            prepares_ahead=True,
            services=True,
            servers=True,
            users=True,
            gpus=0,
            cpus=float(info["NCPU"]) if info.get("NCPU") else None,
            memory_mb=int(info["MemTotal"]) // _MIB if info.get("MemTotal") else None,
        )

    def check(self) -> None:
        """Raise EngineUnavailable, with what was tried and the fix, if no box can be started at all.

        If one can, boxes that dead runs have left are removed first.
        """
        with refusals_as_errors():
            engine = self._parts().engine
            engine.request("GET", "/_ping", doing="ping the engine")
            sweep_stale(engine=engine)
            sweep_folders(self._context.cache_dir)

    def prepare(self, image: ImageSpec, *, timeout: float | None = None) -> ImageRef:
        """Build, pull or find the image; however many workers ask, one does it.

        A build that failed for its Dockerfile's sake is not tried again in this run.

        Raises:
            BuildFailed, ImageUnavailable, StageTimeout (stage build), DiskFull, EngineUnavailable.
            TaskInvalid: the build context has no Dockerfile or cannot be read.
        """
        with refusals_as_errors():
            if image.compose is not None:
                return self._parts().services.prepare(image, image.compose, timeout=timeout)
            return self._parts().images.prepare(image, timeout=timeout)

    def extend(self, image: ImageRef, layer: ImageLayer, *, timeout: float | None = None) -> ImageRef:
        """Return an image with a layer on it; however many workers ask, one makes it.

        Raises:
            BuildFailed, StageTimeout (stage build), SandboxFailed, DiskFull, EngineUnavailable.
            Unsupported: the image has services beside it.
        """
        if image.services is not None:
            raise Unsupported("an image with services beside it is not extended")
        with refusals_as_errors():
            return self._parts().images.extend(image, layer, timeout=timeout)

    def start(self, image: ImageRef, spec: BoxSpec, entries: Iterable[Entry] = ()) -> DockerBox:
        """Start a box; ``entries`` are there (at absolute paths, below ``/``) before its first process.

        The image's ENTRYPOINT runs and is given the box's keeper as its command. An image with a
        HEALTHCHECK is waited for until it is healthy. ``spec.workdir`` is not created.

        Raises:
            Unsupported: this engine lacks what the spec asks for.
            EntrypointExited: the image's ENTRYPOINT has ended already.
            SandboxFailed, DiskFull, EngineUnavailable, ImageUnavailable (it was removed meanwhile).
        """
        check_spec(spec, self.capabilities, where="this engine")
        with self._starts.one(), refusals_as_errors():
            parts = self._parts()
            start_reaper(self._context, parts.engine.endpoint)
            if image.services is not None:
                prepared = cast("Prepared", image.services)
                return parts.services.start(prepared, spec, tuple(entries), self._starts.check)
            facts = parts.images.facts(image)
            if spec.memory_mb is not None:
                parts.oom.start()
            return self._start(parts, image, facts, spec, tuple(entries))

    def serve(self, image: ImageRef, spec: ServerSpec) -> DockerServer:
        """Start a server from an image, reached by this machine only; it may not be ready yet.

        Raises:
            Unsupported: this engine lacks what the spec asks for. BoxUnfit: the image has nothing to start.
            SandboxFailed, DiskFull, EngineUnavailable.
        """
        with self._starts.one(), refusals_as_errors():
            parts = self._parts()
            start_reaper(self._context, parts.engine.endpoint)
            return start_server(parts, self._context, self._starts, image, spec)

    def close(self) -> None:
        """Remove all boxes that are still up, start none any more, and let go of the engine's events."""
        self._starts.close()
        with self._lock:
            parts = self._ready
        if parts is not None:
            parts.remove_boxes()
        none_under_way = self._starts.wait()
        parts = self._ready
        if parts is not None:
            parts.close()
            if none_under_way and not parts.boxes and not parts.has_services:
                dismiss_reaper(self._context)

    def _start(
        self, parts: Parts, image: ImageRef, facts: ImageFacts, spec: BoxSpec, entries: tuple[Entry, ...]
    ) -> DockerBox:
        for last in (False, True):
            stamps = Stamps()
            try:
                container, network = self._boot(parts, image, facts, spec, entries, stamps)
                break
            except EngineRefused as refused:
                # seen about once in a thousand starts on a loaded machine; a new container does it
                transient = (
                    "OCI runtime create failed" in refused.message and "reset by peer" in refused.message
                )
                if last or not transient:
                    raise not_shared(refused) or start_refused(refused) from refused
        return DockerBox(
            parts.engine, container, spec, facts, parts.oom, parts.disposal.discard, network, stamps
        )

    def _boot(
        self,
        parts: Parts,
        image: ImageRef,
        facts: ImageFacts,
        spec: BoxSpec,
        entries: tuple[Entry, ...],
        stamps: Stamps,
    ) -> tuple[str, BoxNetwork]:
        """Create, fill and start a container; nothing is left of one that fails."""
        engine = parts.engine
        owner = _NOT_IN_NAMES.sub("-", f"{self._context.session[:8]}-{self._context.worker}")
        name = f"rlenv-{owner}-{secrets.token_hex(6)}"
        parts.boxes.add(name)
        container = name  # until the engine tells its id
        network = BoxNetwork(engine, spec, self._context.cache_dir)

        def look() -> None:
            died = cause_of_death(engine, container, facts)
            if died:
                raise died

        try:
            body = self._body(image, facts, spec, network)
            with parts.slots.take(self._starts.check):
                created = engine.request(
                    "POST", "/containers/create", params={"name": name}, body=body, doing="create the box"
                )
                container = str(created.json()["Id"])
                parts.boxes.add(container)
                self._starts.check()
                check_warnings(spec, created.json().get("Warnings") or ())
                parts.networks[container] = network
                stamped = stamps.stamp(entries, partial(parts.images.lacks, image, container))
                archive.put(engine, container, (*stamped, *network.entries))
                network.start(container, look)
                look()
            if facts.healthcheck:
                wait_healthy(engine, container, facts)
        except BaseException:
            # also on Ctrl-C, when the engine may have made the container without our knowing its id
            remove_container(engine, container)
            parts.forget(container)
            network.close()
            raise
        finally:
            parts.forget(name)
        return container, network

    def _body(self, image: ImageRef, facts: ImageFacts, spec: BoxSpec, network: BoxNetwork) -> dict[str, Any]:
        return {
            "Image": image.id,
            "Cmd": keeper_command(spec.lifetime),
            **network.entrypoint(facts.entrypoint),
            "Env": [f"{name}={value}" for name, value in {**network.variables(), **spec.env}.items()],
            "Labels": box_labels(self._context, spec),
            "StopSignal": "SIGKILL",
            "HostConfig": host_config(
                spec, keep_output=bool(facts.entrypoint), as_root=facts.as_root, mounts=network.mounts
            ),
        }

    def _parts(self) -> Parts:
        with self._lock:
            if self._ready is None:
                self._ready = Parts(self._given or shared_engine(), self._context)
            return self._ready


def _has_nvidia(engine: Engine) -> bool:
    return "nvidia" in (engine.info().get("Runtimes") or {})
