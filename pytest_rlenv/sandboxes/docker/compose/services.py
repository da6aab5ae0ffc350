"""From a Compose file to a running box with services beside it, and its end."""

from __future__ import annotations

import copy
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import quote

from pytest_rlenv.sandboxes.docker import archive
from pytest_rlenv.sandboxes.docker.builds import remaining
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.compose.box import ServicesBox
from pytest_rlenv.sandboxes.docker.compose.files import Files, take_files
from pytest_rlenv.sandboxes.docker.compose.findings import refuse, relative_name
from pytest_rlenv.sandboxes.docker.compose.hooks import run_start_hooks
from pytest_rlenv.sandboxes.docker.compose.images import image_specs, prepare_images
from pytest_rlenv.sandboxes.docker.compose.memory_mounts import MemoryMounts
from pytest_rlenv.sandboxes.docker.compose.model import MAIN, Model, has_keeper, read_model
from pytest_rlenv.sandboxes.docker.compose.network import (
    HOLDER,
    SharedNetwork,
    check_networks,
    published_ports,
)
from pytest_rlenv.sandboxes.docker.compose.override import final_model
from pytest_rlenv.sandboxes.docker.compose.program import compose_program
from pytest_rlenv.sandboxes.docker.compose.project import create_project, fill_volumes, remove_project
from pytest_rlenv.sandboxes.docker.compose.renaming import with_main
from pytest_rlenv.sandboxes.docker.compose.safety import check_model
from pytest_rlenv.sandboxes.docker.compose.sources import check_sources
from pytest_rlenv.sandboxes.docker.compose.startup import Startup
from pytest_rlenv.sandboxes.docker.disposal import Disposal
from pytest_rlenv.sandboxes.docker.images import ImageStore
from pytest_rlenv.sandboxes.docker.labels import box_labels
from pytest_rlenv.sandboxes.docker.networks import BoxNetwork
from pytest_rlenv.sandboxes.docker.oom import OomWatch
from pytest_rlenv.sandboxes.docker.postmortem import ImageFacts, cause_of_death, inspect
from pytest_rlenv.sandboxes.model import BoxSpec, ComposeSpec, Entry, ImageRef, ImageSpec, SandboxContext

START_LIMIT = 600.0
"""Seconds that services have to be up and healthy, where nobody says otherwise."""

_MIB = 1024 * 1024
_NOT_IN_PROJECTS = re.compile(r"[^a-z0-9_-]+")


@dataclass(frozen=True)
class Prepared:
    """Services whose images are here.

    Attributes:
        program: the ``docker compose`` that has read their file.
        model: the checked model, without files.
        images: the image of each service.
        files: what is brought in.
        as_root: False if the image of ``main`` starts as another user.
    """

    program: Path
    model: Model
    images: Mapping[str, ImageRef]
    files: Files
    as_root: bool = True


class Services:
    """Makes boxes with services beside them. Safe to use from several threads.

    Args:
        engine: where.
        context: of the run.
        images: of the engine.
        oom: who knows which box ran out of memory.
    """

    def __init__(self, engine: Engine, context: SandboxContext, images: ImageStore, oom: OomWatch) -> None:
        self._engine = engine
        self._context = context
        self._images = images
        self._oom = oom
        self._disposal = Disposal(engine, self._forget, remove_project)
        self._networks: dict[str, BoxNetwork] = {}
        self.up: set[str] = set()
        """The names of the projects that are up."""

    def prepare(self, image: ImageSpec, compose: ComposeSpec, *, timeout: float | None) -> ImageRef:
        """Read a Compose file and prepare the images of all its services.

        Raises:
            Unsupported: there is no ``docker compose``, or the file asks for what a box may not have.
            TaskInvalid: the file is wrong.
            As :meth:`pytest_rlenv.sandboxes.protocol.Sandbox.prepare` beside these.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        name = relative_name(compose.root, compose.file)
        program = compose_program(compose.env)
        model = self._read(program, image, compose, name, remaining(deadline))
        specs = image_specs(model, image.slug, compose.env)
        images = prepare_images(self._images, specs, timeout=remaining(deadline))
        notes = tuple(
            f"{name}: {field}: no port of this machine is given" for field in published_ports(model)
        )
        files = take_files(model, compose.root, compose.env)
        prepared = Prepared(program, model, images, files, self._starts_as_root(images[MAIN]))
        return replace(images[MAIN], services=prepared, notes=notes)

    def start(
        self, prepared: Prepared, spec: BoxSpec, entries: Iterable[Entry], check: Callable[[], None]
    ) -> ServicesBox:
        """Start services, and return the box that is ``main``; nothing is left of a start that fails.

        Args:
            prepared: as kept in an :class:`~pytest_rlenv.sandboxes.protocol.ImageRef`.
            spec: how ``main`` is started.
            entries: files for ``main``.
            check: raises if no more boxes are to be started; asked once everything has been created.

        Raises:
            Unsupported: the network, or a limit, is not to be had.
            BoxUnfit: a service ended, or is not healthy, or not in time.
            SandboxFailed, DiskFull, EngineUnavailable.
        """
        check_networks(prepared.model, spec)
        entries = tuple(entries)
        MemoryMounts.of(prepared.model["services"][MAIN]).check(f"/{entry.path}" for entry in entries)
        owner = f"{self._context.session[:8]}-{self._context.worker}".lower()
        project = f"rlenv-{_NOT_IN_PROJECTS.sub('-', owner)}-{secrets.token_hex(6)}"
        deadline = time.monotonic() + (spec.start_timeout or START_LIMIT)
        self.up.add(project)
        try:
            network = self._networks[project] = BoxNetwork(self._engine, spec, self._context.cache_dir)
            services, containers = self._create(project, prepared, spec, network, deadline)
            check()
            self._bring_files(project, prepared, spec, containers, {MAIN: entries, HOLDER: network.entries})
            box = self._box(project, prepared.model, spec, containers, self._reach(services, spec, network))
            start = partial(self._start_one, box, containers, prepared.model["services"], network, deadline)
            steady = {HOLDER, MAIN} if has_keeper(prepared.model["services"][MAIN]) else {HOLDER}
            Startup(self._engine, services, containers, start, steady=steady, deadline=deadline).run()
        except BaseException:
            # also on Ctrl-C, when docker compose may have made some of it
            remove_project(self._engine, project)
            self._forget(project)
            raise
        return box

    def remove_all(self) -> None:
        """Have removed what is up."""
        for project in list(self.up):
            self._disposal.discard(project)

    def close(self) -> None:
        """Remove what is up, and wait for it."""
        self.remove_all()
        self._disposal.close()

    def _read(
        self, program: Path, image: ImageSpec, compose: ComposeSpec, name: str, timeout: float | None
    ) -> Model:
        unsafe = self._context.allow_unsafe_compose
        refuse(name, check_sources(compose.file, compose.root), allow_unsafe=unsafe)
        with _scratch() as scratch:
            model = read_model(program, compose, image, scratch, timeout=timeout)
        architecture = str(self._engine.info().get("Architecture", ""))
        refuse(name, check_model(model, compose.root, architecture), allow_unsafe=unsafe)
        return with_main(model, compose.main)

    def _starts_as_root(self, image: ImageRef) -> bool:
        path = f"/images/{quote(image.id, safe='/:@')}/json"
        return ImageFacts.of(self._engine.find(path, doing=f"look at image {image.name}") or {}).as_root

    def _create(
        self, project: str, prepared: Prepared, spec: BoxSpec, network: BoxNetwork, deadline: float
    ) -> tuple[Model, dict[str, str]]:
        """Create everything; return the services as they are run, and their containers."""
        labels = box_labels(self._context, spec)
        model = copy.deepcopy(prepared.model)
        final = final_model(
            model,
            prepared.images,
            spec,
            project=project,
            labels=labels,
            network=network,
            as_root=prepared.as_root,
        )
        with _scratch() as scratch:
            containers = create_project(
                self._engine, prepared.program, final, spec, scratch, deadline=deadline
            )
        return final["services"], containers

    def _bring_files(
        self,
        project: str,
        prepared: Prepared,
        spec: BoxSpec,
        containers: Mapping[str, str],
        own: Mapping[str, Iterable[Entry]],
    ) -> None:
        labels = box_labels(self._context, spec)
        fill_volumes(self._engine, project, prepared.images[MAIN].id, prepared.files.volumes, labels)
        for entries in (prepared.files.entries, own):
            for name, files in entries.items():
                if name in containers:
                    archive.put(self._engine, containers[name], files)

    def _reach(self, services: Model, spec: BoxSpec, network: BoxNetwork) -> BoxNetwork:
        """Return what ``main`` reaches: what the holder does, or its own networks, which never change."""
        if services[MAIN].get("network_mode") == f"service:{HOLDER}":
            return SharedNetwork(self._engine, spec, network, services[HOLDER]["extra_hosts"])
        return BoxNetwork(self._engine, spec, None)

    def _box(
        self, project: str, model: Model, spec: BoxSpec, containers: Mapping[str, str], network: BoxNetwork
    ) -> ServicesBox:
        found = inspect(self._engine, containers[MAIN]) or {}
        memory = int((found.get("HostConfig") or {}).get("Memory") or 0)
        if memory:
            self._oom.start()
        entrypoint = tuple((found.get("Config") or {}).get("Entrypoint") or ())
        kept = has_keeper(model["services"][MAIN])
        facts = ImageFacts(entrypoint) if kept else ImageFacts(service=MAIN)
        spec = replace(spec, memory_mb=memory // _MIB or None)
        beside = {name: container for name, container in containers.items() if name != HOLDER}
        discard = partial(self._disposal.discard, project)
        mounts = {name: MemoryMounts.of(model["services"][name]) for name in beside}
        return ServicesBox(self._engine, beside, spec, facts, self._oom, discard, network, mounts)

    def _start_one(
        self,
        box: ServicesBox,
        containers: Mapping[str, str],
        services: Mapping[str, Model],
        network: BoxNetwork,
        deadline: float,
        name: str,
    ) -> None:
        """Start one service, or the holder, which opens the gate if there is one."""
        container = containers[name]
        if name == HOLDER:
            network.start(container, partial(self._look_at_holder, container))
            return
        self._engine.request("POST", f"/containers/{container}/start", doing=f"start service {name!r}")
        run_start_hooks(box.service(name), name, services[name].get("post_start") or (), deadline=deadline)

    def _look_at_holder(self, container: str) -> None:
        died = cause_of_death(self._engine, container, ImageFacts(service=HOLDER))
        if died:
            raise died

    def _forget(self, project: str) -> None:
        self.up.discard(project)
        network = self._networks.pop(project, None)
        if network is not None:
            network.close()


@contextmanager
def _scratch() -> Iterator[Path]:
    """Give a folder that only we can read."""
    with tempfile.TemporaryDirectory(prefix="rlenv-compose-") as folder:
        yield Path(folder)
