"""Images for local boxes: through Docker and extracted, or found in the cache, or none at all."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from pytest_rlenv.disk import CACHE_CURE, full_as_error, require_free
from pytest_rlenv.errors import EngineUnavailable, ImageUnavailable, Stage, StageTimeout, Unsupported
from pytest_rlenv.sandboxes.local.boxes import Source
from pytest_rlenv.sandboxes.local.command import overlay
from pytest_rlenv.sandboxes.local.extract import extract
from pytest_rlenv.sandboxes.local.imageconfig import ImageConfig
from pytest_rlenv.sandboxes.local.recipe import BUILT_OTHERWISE, MODE, Recipe, read_recipe
from pytest_rlenv.sandboxes.local.rootfs import RootfsCache
from pytest_rlenv.sandboxes.local.userland import is_writable, make_root
from pytest_rlenv.sandboxes.model import (
    BoxSpec,
    BuildOptions,
    ImageLayer,
    ImageRef,
    ImageSpec,
    SandboxContext,
)

if TYPE_CHECKING:
    from pytest_rlenv.sandboxes.docker.client import Engine
    from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox

HOST = "host:"
"""How the ids of "images" start that are this machine's userland and some files."""

IMAGES_NAME = "local"
HOST_NAME = "local (host userland)"
"""What records call a box on an image's files, and one on this machine's."""

_EXPORT_LIFETIME = 3600.0


class LocalImages:
    """Prepares images. Safe to use from several threads.

    Args:
        context: of the run.
        owners: True where extracted files keep their owners.
        no_overlay: why images cannot be used at all; empty if they can.
        host_only: True to use this machine's userland even so.
    """

    def __init__(
        self, context: SandboxContext, *, owners: bool, no_overlay: str, host_only: bool = False
    ) -> None:
        self._context = context
        self._cache = RootfsCache(context.cache_dir, owners=owners)
        self._no_overlay = no_overlay
        self._host_only = host_only
        self._lock = threading.Lock()
        self._docker: DockerSandbox | None = None
        self._no_engine: EngineUnavailable | None = None
        self._recipes: dict[str, Recipe] = {}
        self._remembered: set[tuple[ImageSpec, str]] = set()

    def no_engine(self) -> EngineUnavailable | None:
        """Return why no Docker engine can be asked, ``None`` if one answers; found out once."""
        from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox

        with self._lock:
            if self._docker is None:
                self._docker = DockerSandbox(self._context)
                try:
                    self._docker.check()
                except EngineUnavailable as error:
                    self._no_engine = error
            return self._no_engine

    @property
    def uses_host(self) -> bool:
        """True if images that are not in the cache cannot be had, so that this machine's userland is used."""
        return self._never_images or self.no_engine() is not None

    def describe(self) -> str:
        """Return in a few words which files boxes see."""
        if not self.uses_host:
            return "image root file systems"
        but = "" if self._never_images else " but where it was extracted before"
        return f"host userland, FROM image not used{but}"

    @property
    def _never_images(self) -> bool:
        return self._host_only or bool(self._no_overlay)

    def prepare(self, spec: ImageSpec, timeout: float | None) -> ImageRef:
        """Return an image that a box can be started from.

        Raises:
            Unsupported: there is no image to be had, and the task needs one.
            BuildFailed, ImageUnavailable, StageTimeout, DiskFull, EngineUnavailable, TaskInvalid.
        """
        if self._never_images:
            return self._prepare_host(spec)
        if self.no_engine() is None:
            return self._prepare_image(spec, timeout)
        found = self._cache.recall(_key(spec))
        return replace(found, sandbox=IMAGES_NAME) if found else self._prepare_host(spec)

    def extend(self, image: ImageRef, layer: ImageLayer, timeout: float | None) -> ImageRef:
        """Put a layer on an image that Docker has, and have that here.

        Raises:
            BuildFailed, StageTimeout (stage build), SandboxFailed, DiskFull, EngineUnavailable.
            Unsupported: there are no images here.
        """
        if self.uses_host:
            raise Unsupported(f"{MODE} has no images to extend{self._because()}")
        deadline = None if timeout is None else time.monotonic() + timeout
        extended = cast("DockerSandbox", self._docker).extend(image, layer, timeout=timeout)
        self._bring(extended, deadline)
        return extended

    def source(self, image: ImageRef) -> Source:
        """Return what boxes are made from, for a reference that :meth:`prepare` gave.

        Raises:
            ImageUnavailable: it is not here any more.
        """
        recipe = self._recipes.get(image.id)
        if recipe is not None:
            return Source(recipe.config, make_root, recipe.entries)
        found = None if image.id.startswith(HOST) else self._cache.find(image.id)
        if found is None:
            raise ImageUnavailable(
                f"image {image.name!r} ({image.id}) is not in {self._context.cache_dir} any more",
                hint="was the cache removed while the run was under way?",
            )
        return Source(found.config, partial(overlay, found.root))

    def close(self) -> None:
        """Let go of Docker and of the extracted images."""
        if self._docker is not None:
            self._docker.close()
        self._cache.close()

    def _prepare_image(self, spec: ImageSpec, timeout: float | None) -> ImageRef:
        deadline = None if timeout is None else time.monotonic() + timeout
        docker = cast("DockerSandbox", self._docker)
        image = docker.prepare(spec, timeout=timeout)
        self._bring(image, deadline)
        if (spec, image.id) not in self._remembered:  # naming a context means reading all of it
            self._cache.remember(_key(spec), image)
            self._remembered.add((spec, image.id))
        return image

    def _bring(self, image: ImageRef, deadline: float | None) -> None:
        """Have an image of the engine's extracted here."""
        import filelock

        def fill(root: Path) -> ImageConfig:
            return self._extract(image, root, deadline)

        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        doing = f"extract {image.name}"
        try:
            with full_as_error(doing, self._context.cache_dir, stage=Stage.BUILD, hint=CACHE_CURE):
                self._cache.find_or_add(image.id, fill, timeout=left)
        except filelock.Timeout:
            raise StageTimeout(
                f"image {image.name!r}: another process did not extract it in time", stage=Stage.BUILD
            ) from None

    def _extract(self, image: ImageRef, root: Path, deadline: float | None) -> ImageConfig:
        """Write an image's files below ``root``, by way of a container that is never started."""
        from pytest_rlenv.sandboxes.docker.client import shared_engine
        from pytest_rlenv.sandboxes.docker.failures import refusals_as_errors
        from pytest_rlenv.sandboxes.docker.labels import box_labels
        from pytest_rlenv.sandboxes.docker.removal import remove_container

        with refusals_as_errors(Stage.BUILD):
            engine = shared_engine()
            inspected = engine.get(f"/images/{quote(image.id, safe='/:@')}/json", doing="look at the image")
            self._require_space(image, int(inspected.get("Size") or 0))
            body = {
                "Image": image.id,
                "Cmd": ["true"],
                "NetworkDisabled": True,
                "Labels": box_labels(self._context, BoxSpec(lifetime=_EXPORT_LIFETIME)),
            }
            created = engine.request("POST", "/containers/create", body=body, doing="export the image")
            container = str(created.json()["Id"])
            try:
                self._export(engine, container, root, deadline)
            finally:
                remove_container(engine, container)
        return ImageConfig.of(inspected)

    def _require_space(self, image: ImageRef, size: int) -> None:
        """Raise DiskFull if an image of ``size`` bytes would leave less free than there should be."""
        floor, place = self._context.min_free, self._context.cache_dir
        needed = floor + size if floor else 0
        require_free(place, needed, doing=f"extract {image.name}", stage=Stage.BUILD, hint=CACHE_CURE)

    def _export(self, engine: Engine, container: str, root: Path, deadline: float | None) -> None:
        from pytest_rlenv.sandboxes.docker.failures import connection_errors

        doing = "export the image"
        path = f"/containers/{container}/export"
        with (
            connection_errors(engine.endpoint, doing),
            engine.request("GET", path, stream=True, doing=doing) as response,
        ):
            raw: Any = response.raw
            extract(raw, root, owners=self._cache.owners, deadline=deadline)

    def _prepare_host(self, spec: ImageSpec) -> ImageRef:
        if spec.context is None:
            raise Unsupported(f"image {spec.name!r}: {MODE} has no images{self._because()}")
        if spec.options != BuildOptions():
            raise Unsupported(f"{BUILT_OTHERWISE}: {MODE} has no images{self._because()}")
        try:
            recipe = read_recipe(spec.context, is_writable)
        except Unsupported as reason:
            raise Unsupported(f"{reason}{self._because()}") from None
        image = ImageRef(f"host userland (for {recipe.base})", f"{HOST}{recipe.digest}")
        self._recipes[image.id] = recipe
        return image

    def _because(self) -> str:
        if self._host_only:
            return ""
        return f" (there are no images: {self._no_overlay or 'no Docker engine answers'})"


def _key(spec: ImageSpec) -> str:
    """Return what names an image when no engine can be asked for its id: one context makes many."""
    from pytest_rlenv.sandboxes.build_context import BuildContext
    from pytest_rlenv.sandboxes.docker.builds import platform

    found = f"name:{spec.name}"
    if spec.context is not None:
        found = f"context:{BuildContext.read(spec.context, spec.options).digest()}"
    if spec.options != BuildOptions():
        found += f" options:{json.dumps(asdict(spec.options), sort_keys=True)}"
    return f"{found} platform:{platform()}" if platform() else found
