"""What the Docker sandbox has once it is connected: images, places to start in, and the boxes that are up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.disposal import Disposal
from pytest_rlenv.sandboxes.docker.images import ImageStore
from pytest_rlenv.sandboxes.docker.networks import BoxNetwork
from pytest_rlenv.sandboxes.docker.oom import OomWatch
from pytest_rlenv.sandboxes.model import SandboxContext
from pytest_rlenv.sandboxes.slots import Slots

if TYPE_CHECKING:
    from pytest_rlenv.sandboxes.docker.compose.services import Services

STARTS_PER_CORE = 4
"""Boxes that start at once for each core of the engine's machine; more than that only wait for each other."""


class Parts:
    """What a sandbox of one engine works with.

    Args:
        engine: a connected engine.
        context: of the run.
    """

    def __init__(self, engine: Engine, context: SandboxContext) -> None:
        self.engine = engine
        self.images = ImageStore(engine, context)
        starts = STARTS_PER_CORE * int(engine.info().get("NCPU") or 1)
        self.slots = Slots(context.cache_dir / "start-slots" / engine.fingerprint(), starts)
        self.oom = OomWatch(engine, context.session)
        self.boxes: set[str] = set()
        self.networks: dict[str, BoxNetwork] = {}
        self.disposal = Disposal(engine, self.forget)
        self._context = context
        self._services: Services | None = None
        self._services_lock = threading.Lock()

    @property
    def services(self) -> Services:
        """What makes boxes with services beside them, made when the first one is asked for."""
        with self._services_lock:
            if self._services is None:
                from pytest_rlenv.sandboxes.docker.compose.services import Services

                self._services = Services(self.engine, self._context, self.images, self.oom)
            return self._services

    @property
    def has_services(self) -> bool:
        """True while a box with services is up."""
        return self._services is not None and bool(self._services.up)

    def forget(self, container: str) -> None:
        """Take note that a container is gone."""
        self.boxes.discard(container)
        network = self.networks.pop(container, None)
        if network is not None:
            network.close()

    def remove_boxes(self) -> None:
        """Have removed what is up."""
        for container in list(self.boxes):
            self.disposal.discard(container)
        if self._services is not None:
            self._services.remove_all()

    def close(self) -> None:
        """Remove what is up, and wait for it."""
        self.remove_boxes()
        if self._services is not None:
            self._services.close()
        self.disposal.close()
        self.images.close()
        self.oom.close()
