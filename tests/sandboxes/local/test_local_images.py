"""Images from a real engine: extracted once, as they are, for everybody, and used without the engine.

What boxes make of an image is in ``conformance/``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.boxes import ok, together
from support.engine import BASE, remove_image, write_context
from support.local_boxes import needs_users, pruned_images

from pytest_rlenv.errors import EngineUnavailable, ImageUnavailable, Unsupported
from pytest_rlenv.sandboxes.docker.client import shared_engine
from pytest_rlenv.sandboxes.local import LocalSandbox
from pytest_rlenv.sandboxes.local.sandbox import HostSandbox
from pytest_rlenv.sandboxes.model import (
    NO_NETWORK,
    BoxSpec,
    BuildOptions,
    ImageLayer,
    ImageRef,
    ImageSpec,
    SandboxContext,
)

pytestmark = pytest.mark.docker

Build = Callable[[str], ImageRef]
SPEC = BoxSpec(network=NO_NETWORK, lifetime=600.0)

PROGRAMS = "sh sleep stat cat pwd"
SMALL = f"""FROM {BASE} AS all
RUN mkdir /small && for p in {PROGRAMS}; do \\
      cp --parents -L /bin/$p $(ldd /bin/$p | grep -o '/lib[^ ]*') /small; done
RUN SCRIPT
FROM scratch
COPY --from=all /small /
"""
"""A few megabytes: extraction takes as long as there are bytes."""


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> SandboxContext:
    base = tmp_path_factory.mktemp("images")
    return SandboxContext(f"t{uuid.uuid4().hex[:12]}", "gw0", base / "cache", base / "run")


@pytest.fixture(scope="module")
def images(context: SandboxContext) -> Iterator[LocalSandbox]:
    """A local sandbox that has an engine to get images from."""
    sandbox = LocalSandbox(context)
    try:
        description = sandbox.describe()
    except EngineUnavailable as error:
        pytest.skip(f"no local boxes on this machine: {error}")
    if "image root file systems" not in description:
        pytest.skip(f"no images here: {description}")
    yield sandbox
    sandbox.close()
    assert list((context.cache_dir / "boxes").iterdir()) == [], "boxes were left over after close()"


@pytest.fixture(scope="module")
def build(images: LocalSandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Build]:
    """Build an image from a Dockerfile's text; it is removed with the module."""
    built: list[ImageRef] = []

    def build(dockerfile: str) -> ImageRef:
        folder = write_context(tmp_path_factory.mktemp("context") / "environment", dockerfile)
        built.append(images.prepare(ImageSpec(context=folder, slug="local images")))
        return built[-1]

    yield build
    images.close()
    for image in built:
        remove_image(shared_engine(), image.name)


@pytest.fixture(scope="module")
def small(build: Build) -> ImageRef:
    script = "mkdir t && touch t/f && chown 1234:77 t/f && chmod 4751 t/f && ln t/f t/g"
    script += " && chmod 1703 t && ln -s f t/l && chown -h 9 t/l"
    settings = "ENV A=1 PATH=/own:/bin\nWORKDIR /app/deep\n"
    return build(SMALL.replace("SCRIPT", f"cd /small; {script}") + settings)


def test_a_built_image(images: LocalSandbox, small: ImageRef) -> None:
    assert small.id.startswith("sha256:")
    box = images.start(small, SPEC)
    assert ok(box, "pwd; echo $A; echo $PATH") == "/app/deep\n1\n/own:/bin\n"
    box.destroy()


@needs_users
def test_owners_and_modes_are_the_images(images: LocalSandbox, small: ImageRef) -> None:
    box = images.start(small, SPEC)
    assert ok(box, "stat -c '%n %a %u:%g %h %F' /t /t/*").splitlines() == [
        "/t 1703 0:0 2 directory",
        "/t/f 4751 1234:77 2 regular empty file",
        "/t/g 4751 1234:77 2 regular empty file",
        "/t/l 777 9:0 1 symbolic link",
    ]
    box.destroy()


def test_a_layer(images: LocalSandbox, small: ImageRef) -> None:
    assert images.capabilities.extends_images
    layered = images.extend(small, ImageLayer("agent-test", "echo made >/made"))
    try:
        box = images.start(layered, SPEC)
        assert ok(box, "cat /made; pwd") == "made\n/app/deep\n"
        box.destroy()
    finally:
        remove_image(shared_engine(), layered.name)


def test_no_layer_on_the_userland(context: SandboxContext, small: ImageRef) -> None:
    sandbox = HostSandbox(context)
    assert not sandbox.capabilities.extends_images
    with pytest.raises(Unsupported, match="no images to extend"):
        sandbox.extend(small, ImageLayer("agent-test", "true"))
    sandbox.close()


def test_missing_image(images: LocalSandbox) -> None:
    with pytest.raises(ImageUnavailable):
        images.prepare(ImageSpec(name="localhost:1/no-such-image:none"))


def test_cached_image_needs_no_engine(
    images: LocalSandbox, context: SandboxContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_context(tmp_path / "context", SMALL.replace("SCRIPT", "touch /small/built"))
    image = images.prepare(ImageSpec(context=folder))
    try:
        monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
        other = LocalSandbox(context)
        assert "host userland" in other.describe()
        assert other.prepare(ImageSpec(context=folder)).id == image.id
        with pytest.raises(Unsupported, match=r"image 'never-seen': .*no Docker engine answers"):
            other.prepare(ImageSpec(name="never-seen"))
        box = other.start(image, SPEC)
        assert box.stat("/built") is not None
        (folder / "Dockerfile").write_text(f"FROM {BASE}\nRUN echo other\n")
        with pytest.raises(Unsupported, match=r"context/Dockerfile line 2: RUN echo other: .* runs no RUN"):
            other.prepare(ImageSpec(context=folder))
        other.close()
    finally:
        monkeypatch.undo()
        remove_image(shared_engine(), image.name)


def test_cached_images_of_one_context_are_told_apart(
    images: LocalSandbox, context: SandboxContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By target, arguments and platform: else a task is given another one's files, without a word."""
    text = "FROM scratch AS one\nARG WHAT=1\nLABEL what=$WHAT\nCOPY a /a\nFROM scratch AS two\nCOPY a /b\n"
    folder = write_context(tmp_path / "context", text, {"a": "content"})
    options = [BuildOptions(target="one"), BuildOptions(), BuildOptions(target="one", args=(("WHAT", "2"),))]
    specs = [ImageSpec(context=folder, options=each) for each in options]
    prepared = [images.prepare(spec) for spec in specs]
    try:
        assert len({image.id for image in prepared}) == len(specs)
        monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
        other = LocalSandbox(context)
        assert [other.prepare(spec).id for spec in specs] == [image.id for image in prepared]
        monkeypatch.setenv("DOCKER_DEFAULT_PLATFORM", "linux/arm64")
        with pytest.raises(Unsupported, match="there are no images"):
            other.prepare(specs[0])
        other.close()
    finally:
        monkeypatch.undo()
        for image in prepared:
            remove_image(shared_engine(), image.name)


def test_one_extraction_however_many_ask(tmp_path: Path, small: ImageRef) -> None:
    """From several threads of several sandboxes; and an image in use is not pruned."""
    context = SandboxContext("s", "gw0", tmp_path / "cache", tmp_path / "run")
    sandboxes = [LocalSandbox(context) for _ in range(3)]
    found: list[ImageRef] = []

    def prepare(sandbox: LocalSandbox) -> None:
        found.append(sandbox.prepare(ImageSpec(name=small.name)))

    together(*(lambda each=each: prepare(each) for each in sandboxes))  # type: ignore[misc]
    assert {image.id for image in found} == {small.id}
    assert len(list((tmp_path / "cache/rootfs").glob("*/config.json"))) == 1
    assert pruned_images(tmp_path / "cache", 0) == 0
    for sandbox in sandboxes:
        sandbox.close()
    assert pruned_images(tmp_path / "cache", 3600) == 0
    assert pruned_images(tmp_path / "cache", 0) == 1
    assert [each.name for each in (tmp_path / "cache/rootfs").iterdir()] == ["names"]
