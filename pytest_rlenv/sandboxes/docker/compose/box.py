"""The service ``main`` as a box, with the services beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pytest_rlenv.errors import BoxUnfit
from pytest_rlenv.sandboxes.docker.box import DockerBox
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.compose.model import MAIN
from pytest_rlenv.sandboxes.docker.networks import BoxNetwork
from pytest_rlenv.sandboxes.docker.oom import OomWatch
from pytest_rlenv.sandboxes.docker.postmortem import ImageFacts
from pytest_rlenv.sandboxes.protocol import BoxSpec


class ServicesBox(DockerBox):
    """A box with services beside it: stopping it leaves them up, destroying it takes them along.

    Args:
        engine: where it runs.
        containers: ids by service; one is ``main``.
        spec: how ``main`` was asked for.
        image: what ``main`` is run by.
        oom: who knows whether it ran out of memory.
        discard: removes everything.
        network: what ``main`` reaches.
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
    ) -> None:
        super().__init__(engine, containers[MAIN], spec, image, oom, lambda _: discard(), network)
        self._beside = {
            name: DockerBox(engine, container, BoxSpec(), ImageFacts(service=name), oom, lambda _: None)
            for name, container in containers.items()
            if name != MAIN
        }

    @property
    def services(self) -> tuple[str, ...]:
        """The names of all services, ``main`` too."""
        return (MAIN, *sorted(self._beside))

    def service(self, name: str) -> DockerBox:
        """Return the box of a service; it goes with this one, and its own ``destroy`` does nothing.

        Raises:
            BoxUnfit: there is none of that name.
        """
        if name == MAIN:
            return self
        if name not in self._beside:
            raise BoxUnfit(f"there is no service {name!r}; there are {', '.join(self.services)}")
        return self._beside[name]
