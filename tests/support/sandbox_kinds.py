"""The kinds of sandbox that must all behave the same, and what differs in handling them from outside.

``docker`` needs an engine. ``local-image`` runs on a root file system that was put where extracted images
are, as after an earlier run with an engine: so it needs none. ``local-host`` has no images at all.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from support.engine import BASE, remove_all, remove_image, write_context
from support.no_engine import hide_engine
from support.small_image import write_small_image

from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.sandboxes.docker.box import DockerBox
from pytest_rlenv.sandboxes.docker.client import shared_engine
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.loading import create
from pytest_rlenv.sandboxes.local import LocalBox, LocalSandbox
from pytest_rlenv.sandboxes.local.bwrap import is_privileged
from pytest_rlenv.sandboxes.local.imageconfig import DEFAULT_PATH, HealthCheck, ImageConfig
from pytest_rlenv.sandboxes.local.rootfs import RootfsCache
from pytest_rlenv.sandboxes.model import ImageRef, ImageSpec, SandboxContext
from pytest_rlenv.sandboxes.protocol import Box, Sandbox

DOCKER, LOCAL_IMAGE, LOCAL_HOST = "docker", "local-image", "local-host"
KINDS = (pytest.param(DOCKER, marks=pytest.mark.docker), LOCAL_IMAGE, LOCAL_HOST)
WITH_IMAGES = KINDS[:2]


@dataclass(frozen=True)
class Image:
    """An image that every kind of sandbox can be given: as a Dockerfile, or as what an engine tells of it.

    Attributes:
        name: a word for it.
        env, workdir, user, entrypoint, healthcheck: what it says of itself.
        files: texts by path; all may be executed.
        without: paths that are removed from the base image.
    """

    name: str
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = ""
    entrypoint: tuple[str, ...] = ()
    healthcheck: HealthCheck | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()

    def dockerfile(self) -> str:
        lines = [f"FROM {BASE}"]
        lines += [f"COPY {path[1:]} {path}" for path in self.files]
        lines += [f"ENV {name}='{value}'" for name, value in self.env.items()]
        if self.without:
            lines.append(f"RUN rm {' '.join(self.without)}")
        lines.append(f"WORKDIR {self.workdir}")
        if self.healthcheck is not None:
            lines.append(_instruction(self.healthcheck))
        if self.entrypoint:
            lines.append(f"ENTRYPOINT {json.dumps(self.entrypoint)}")
        if self.user:
            lines.append(f"USER {self.user}")
        return "\n".join(lines)

    def config(self) -> ImageConfig:
        env = {"PATH": DEFAULT_PATH, **self.env}
        return ImageConfig(env, self.workdir, self.user, self.entrypoint, self.healthcheck)

    def write_context(self, folder: Path) -> Path:
        folder = write_context(
            folder, self.dockerfile(), {path[1:]: text for path, text in self.files.items()}
        )
        for path in self.files:
            (folder / path[1:]).chmod(0o755)
        return folder


def _instruction(check: HealthCheck) -> str:
    words = [f"--interval={check.interval:g}s", f"--timeout={check.timeout:g}s", f"--retries={check.retries}"]
    return f"HEALTHCHECK {' '.join(words)} CMD {json.dumps(check.argv)}"


PLAIN = Image("plain")


class Kind:
    """A kind of sandbox: makes them and images for them, and ends boxes from outside.

    Args:
        folder: for build contexts.
    """

    name: str

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    @contextmanager
    def opened(self, context: SandboxContext) -> Iterator[Sandbox]:
        """Give a sandbox that is closed in the end; skip the test where there can be none."""
        raise NotImplementedError

    def image(self, sandbox: Sandbox, image: Image) -> ImageRef:
        """Have an image; each kind raises what it raises for those that it cannot have."""
        self._count += 1
        context = image.write_context(self._folder / str(self._count) / "environment")
        return sandbox.prepare(ImageSpec(context=context, slug=f"conformance {image.name}"))

    def kill(self, box: Box) -> None:
        """Kill the box's first process, as the machine might."""
        raise NotImplementedError


class DockerKind(Kind):
    name = DOCKER

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._built: list[ImageRef] = []

    @contextmanager
    def opened(self, context: SandboxContext) -> Iterator[Sandbox]:
        try:
            engine = shared_engine()
        except EngineUnavailable as error:
            pytest.fail(f"these tests need a Docker engine (scripts/setup_engine.sh): {error}", pytrace=False)
        others = len(self._built)
        sandbox = DockerSandbox(context)
        yield sandbox
        sandbox.close()
        left = remove_all(engine, f"rlenv.session={context.session}")
        while len(self._built) > others:
            remove_image(engine, self._built.pop().name)
        assert not left, "boxes were left over after close()"

    def image(self, sandbox: Sandbox, image: Image) -> ImageRef:
        if image == PLAIN:
            return sandbox.prepare(ImageSpec(name=BASE))
        built = super().image(sandbox, image)
        self._built.append(built)
        inspected = shared_engine().get(f"/images/{built.id}/json", doing="look at the image")
        assert ImageConfig.of(inspected) == image.config(), "the other kinds are given what no engine tells"
        return built

    def kill(self, box: Box) -> None:
        assert isinstance(box, DockerBox)
        shared_engine().request("POST", f"/containers/{box.id}/kill", doing="kill the box")


class LocalKind(Kind):
    @contextmanager
    def opened(self, context: SandboxContext) -> Iterator[Sandbox]:
        sandbox = cast("LocalSandbox", create(self.word, context))
        with pytest.MonkeyPatch.context() as patch:
            hide_engine(patch, self._folder / uuid.uuid4().hex)
            try:
                sandbox.describe()
            except EngineUnavailable as error:
                pytest.skip(f"no local boxes on this machine: {error}")
        self._must_do(sandbox)
        yield sandbox
        sandbox.close()
        boxes = context.cache_dir / "boxes"
        assert not boxes.exists() or list(boxes.iterdir()) == [], "boxes were left over after close()"

    word: str
    """What users call it."""

    def _must_do(self, sandbox: LocalSandbox) -> None:
        """Skip where this kind cannot be had."""

    def kill(self, box: Box) -> None:
        assert isinstance(box, LocalBox)
        box._namespace.end()


class LocalHostKind(LocalKind):
    name = LOCAL_HOST
    word = "local-host"


class LocalImageKind(LocalKind):
    name = LOCAL_IMAGE
    word = "local"

    @property
    def _base(self) -> Path:
        """What all images have: nobody writes to an image, so they may share its files."""
        return self._folder / "base"

    def _must_do(self, sandbox: LocalSandbox) -> None:
        if problem := sandbox._parts().setup.no_overlay:
            pytest.skip(f"no images here: {problem}")

    def image(self, sandbox: Sandbox, image: Image) -> ImageRef:
        assert isinstance(sandbox, LocalSandbox)
        cache = RootfsCache(sandbox._context.cache_dir, owners=is_privileged())
        ref = ImageRef(f"conformance-{image.name}", f"sha256:conformance-{image.name}")

        def fill(root: Path) -> ImageConfig:
            if not self._base.exists():
                write_small_image(self._base)
            shutil.copytree(self._base, root, symlinks=True, copy_function=os.link)
            for path in (*image.without, *image.files):
                (root / path[1:]).unlink(missing_ok=True)
            for path, text in image.files.items():
                (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
                (root / path[1:]).write_text(text)
                (root / path[1:]).chmod(0o755)
            return image.config()

        cache.find_or_add(ref.id, fill, timeout=None)
        cache.remember(f"name:{ref.name}", ref)
        cache.close()
        return sandbox.prepare(ImageSpec(name=ref.name))


def make_kind(name: str, folder: Path) -> Kind:
    kinds: dict[str, Any] = {each.name: each for each in (DockerKind, LocalImageKind, LocalHostKind)}
    kind: Kind = kinds[name](folder)
    return kind
