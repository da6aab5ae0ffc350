"""Services as boxes: ``main`` is the box, with the others beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from pytest_rlenv.errors import BoxUnfit
from pytest_rlenv.sandboxes.docker.archive import member_name
from pytest_rlenv.sandboxes.docker.box import DockerBox
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.compose.memory_mounts import MemoryMounts
from pytest_rlenv.sandboxes.docker.compose.model import MAIN
from pytest_rlenv.sandboxes.docker.networks import BoxNetwork
from pytest_rlenv.sandboxes.docker.oom import OomWatch
from pytest_rlenv.sandboxes.docker.postmortem import ImageFacts
from pytest_rlenv.sandboxes.model import BoxSpec, Entry, Extracted


class ServiceBox(DockerBox):
    """The box of a service, which may have folders in memory."""

    mounts = MemoryMounts()

    def put(self, entries: Iterable[Entry], dest: str = "/") -> None:
        """Write files and folders below ``dest``; see :meth:`.DockerBox.put`.

        Raises:
            BoxUnfit: one would go where the engine cannot put it.
        """
        entries = tuple(entries)
        self.mounts.check(f"/{member_name(dest, entry.path)}" for entry in entries)
        super().put(entries, dest)

    def get(self, path: str, *, cap: int) -> bytes:
        """Return a regular file's bytes; see :meth:`.DockerBox.get`.

        Raises:
            BoxUnfit: it is where the engine cannot see it.
        """
        self.mounts.check([path])
        return super().get(path, cap=cap)

    def get_tree(
        self,
        path: str,
        dest: Path,
        *,
        cap: int,
        max_files: int = 10_000,
        skip: Callable[[str], bool] | None = None,
    ) -> Extracted:
        """Copy the regular files below ``path``; see :meth:`.DockerBox.get_tree`.

        Raises:
            BoxUnfit: they are where the engine cannot see them.
        """
        self.mounts.check([path])
        return super().get_tree(path, dest, cap=cap, max_files=max_files, skip=skip)


class ServicesBox(ServiceBox):
    """A box with services beside it: stopping it leaves them up, destroying it takes them along.

    Args:
        engine: where it runs.
        containers: ids by service; one is ``main``.
        spec: how ``main`` was asked for.
        image: what ``main`` is run by.
        oom: who knows whether it ran out of memory.
        discard: removes everything.
        network: what ``main`` reaches.
        mounts: the mounts of each service.
    """

    def __init__(
        self,
        engine: Engine,
        containers: Mapping[str, str],
        spec: BoxSpec,
        image: ImageFacts,
        oom: OomWatch,
        discard: Callable[[], None],
        network: BoxNetwork,
        mounts: Mapping[str, MemoryMounts],
    ) -> None:
        super().__init__(engine, containers[MAIN], spec, image, oom, lambda *_: discard(), network)
        self.mounts = mounts[MAIN]
        self._beside = {
            name: ServiceBox(engine, container, BoxSpec(), ImageFacts(service=name), oom, lambda *_: None)
            for name, container in containers.items()
            if name != MAIN
        }
        for name, box in self._beside.items():
            box.mounts = mounts[name]

    @property
    def services(self) -> tuple[str, ...]:
        """The names of all services, ``main`` too."""
        return (MAIN, *sorted(self._beside))

    def service(self, name: str) -> ServiceBox:
        """Return the box of a service; it goes with this one, and its own ``destroy`` does nothing.

        Raises:
            BoxUnfit: there is none of that name.
        """
        if name == MAIN:
            return self
        if name not in self._beside:
            raise BoxUnfit(f"there is no service {name!r}; there are {', '.join(self.services)}")
        return self._beside[name]
