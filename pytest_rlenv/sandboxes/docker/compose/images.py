"""The images of services: each is found, pulled or built like that of any other box."""

from __future__ import annotations

import time
from collections.abc import Mapping

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.sandboxes.docker.builds import remaining
from pytest_rlenv.sandboxes.docker.compose.builds import image_of
from pytest_rlenv.sandboxes.docker.compose.model import MAIN, Model
from pytest_rlenv.sandboxes.docker.images import ImageStore
from pytest_rlenv.sandboxes.model import ImageRef, ImageSpec


def image_specs(model: Model, slug: str, environ: Mapping[str, str]) -> dict[str, ImageSpec]:
    """Return what image each service starts from.

    A service whose ``image`` is the name that another one gives to what it builds starts from that.

    Args:
        model: a checked model.
        slug: a readable word for the tags of images that are built.
        environ: where build arguments without a value get theirs.

    Raises:
        TaskInvalid: a service has neither image nor build.
    """
    services: dict[str, Model] = model["services"]
    specs: dict[str, ImageSpec] = {}
    named: dict[str, ImageSpec] = {}
    for name, service in services.items():
        if service.get("build"):
            specs[name] = image_of(service["build"], slug if name == MAIN else f"{slug}-{name}", environ)
            if service.get("image"):
                named[service["image"]] = specs[name]
    for name, service in services.items():
        if name in specs:
            continue
        image = service.get("image")
        if not image:
            raise TaskInvalid(f"services.{name} has neither an image nor anything to build one from")
        specs[name] = named.get(image) or ImageSpec(name=image)
    return specs


def prepare_images(
    images: ImageStore, specs: Mapping[str, ImageSpec], *, timeout: float | None
) -> dict[str, ImageRef]:
    """Prepare the images of all services, each once.

    Args:
        images: of the engine.
        specs: what to prepare, by service.
        timeout: seconds for all of them.

    Raises:
        As :meth:`pytest_rlenv.sandboxes.protocol.Sandbox.prepare`.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    ready: dict[ImageSpec, ImageRef] = {}
    for spec in specs.values():
        if spec not in ready:
            ready[spec] = images.prepare(spec, timeout=remaining(deadline))
    return {name: ready[spec] for name, spec in specs.items()}
