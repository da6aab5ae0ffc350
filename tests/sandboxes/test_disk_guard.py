"""Space on the engine's disk: looked at before an image is made, and blamed only where it is what is full."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fake_engine import INFO, Answer, FakeEngine, connected
from support.tiny_disk import fill, needs_mounts, tiny_disk

from pytest_rlenv.errors import BoxUnfit, DiskFull, ImageUnavailable, Kind, SandboxFailed, Stage
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.docker.storage import data_root
from pytest_rlenv.sandboxes.model import BoxSpec, Entry, ImageRef, ImageSpec, SandboxContext

ID = "sha256:" + "1" * 64
ABSENT = Answer({"message": "No such image"}, status=404)
FULL = Answer({"message": "write /a: no space left on device"}, status=500)
BUILT = Answer(lines=[{"aux": {"ID": ID}}])
PULLED = Answer(lines=[{"status": "Downloaded"}])


@pytest.fixture
def fake() -> FakeEngine:
    fake = FakeEngine()
    fake.answer("GET .*/images/.*/json", ABSENT)
    fake.answer("POST .*/build", BUILT)
    fake.answer("POST .*/images/create", PULLED)
    fake.answer("POST .*/containers/create", Answer({"Id": "c1"}))
    fake.answer("PUT .*/archive", Answer({}))
    fake.answer("POST .*/(start|kill)", Answer({}))
    fake.answer("GET .*/containers/c1/json", Answer({"State": {"Running": True}, "Config": {}}))
    fake.answer("DELETE .*/containers/", Answer({}))
    return fake


@pytest.fixture
def engine(fake: FakeEngine) -> Iterator[Engine]:
    with connected(fake) as engine:
        yield engine


def of_this_machine(root: Path, **other: Any) -> Answer:
    here = os.uname()
    facts = {"Name": here.nodename, "KernelVersion": here.release, "DockerRootDir": str(root)}
    return Answer(INFO | facts | other)


def sandbox_of(engine: Engine, tmp_path: Path, **options: Any) -> DockerSandbox:
    return DockerSandbox(SandboxContext("s", "gw0", tmp_path / "c", tmp_path / "r", **options), engine)


@pytest.fixture
def specs(tmp_path: Path) -> list[ImageSpec]:
    (tmp_path / "ctx").mkdir()
    (tmp_path / "ctx" / "Dockerfile").write_text("FROM scratch\n")
    return [ImageSpec(context=tmp_path / "ctx"), ImageSpec(name="some/image:1")]


@pytest.mark.parametrize(
    ("other", "seen"),
    [
        ({}, True),
        ({"Name": "another-machine"}, False),
        ({"KernelVersion": "of a virtual machine"}, False),
        ({"DockerRootDir": "/nowhere/to/be/seen"}, False),
    ],
)
def test_only_a_disk_of_this_machine_is_looked_at(
    other: dict[str, Any], seen: bool, engine: Engine, fake: FakeEngine, tmp_path: Path
) -> None:
    fake.answer("GET .*/info$", of_this_machine(tmp_path, **other))
    assert data_root(engine) == (tmp_path if seen else None)


@needs_mounts
@pytest.mark.parametrize("which", [0, 1], ids=["build", "pull"])
def test_no_image_is_made_where_there_is_too_little_space(
    which: int, engine: Engine, fake: FakeEngine, specs: list[ImageSpec], tmp_path: Path
) -> None:
    with tiny_disk(tmp_path / "docker", 1 << 20) as root:
        fake.answer("GET .*/info$", of_this_machine(root))
        with pytest.raises(DiskFull) as caught:
            sandbox_of(engine, tmp_path).prepare(specs[which])
        assert f"no space left at {root}: 1.0 MiB free, 1.0 GiB needed" in caught.value.message
        assert caught.value.stage is Stage.BUILD
        assert fake.count("POST") == 0
        for enough in (0, 1 << 19):
            with suppress(ImageUnavailable):  # the engine has it no more than before
                sandbox_of(engine, tmp_path, min_free=enough).prepare(specs[which])
        assert fake.count("POST .*/(build|images/create)") == 2


@needs_mounts
def test_an_image_that_is_there_needs_no_space(
    engine: Engine, fake: FakeEngine, specs: list[ImageSpec], tmp_path: Path
) -> None:
    fake.answer("GET .*/images/.*/json", Answer({"Id": ID, "Config": {}}))
    with tiny_disk(tmp_path / "docker", 1 << 20) as root:
        fake.answer("GET .*/info$", of_this_machine(root))
        for spec in specs:
            assert sandbox_of(engine, tmp_path).prepare(spec).id == ID


def full_box(engine: Engine, fake: FakeEngine, tmp_path: Path) -> SandboxFailed:
    fake.answer("GET .*/images/.*/json", Answer({"Id": ID, "Config": {}}))
    box = sandbox_of(engine, tmp_path).start(ImageRef("x", ID), BoxSpec())
    fake.answer("PUT .*/archive", FULL)
    with pytest.raises(SandboxFailed) as caught:
        box.put([Entry("/a", b"x")])
    return caught.value


def test_a_box_that_is_full_on_a_disk_that_is_not_has_a_limit_of_its_own(
    engine: Engine, fake: FakeEngine, tmp_path: Path
) -> None:
    fake.answer("GET .*/info$", of_this_machine(tmp_path))
    error = full_box(engine, fake, tmp_path)
    assert isinstance(error, BoxUnfit)
    assert error.message == f"cannot put files into the box: the box is full, though {tmp_path} is not"
    assert error.kind is Kind.TASK


def test_a_box_that_is_full_on_a_disk_that_cannot_be_seen_is_the_disks_fault(
    engine: Engine, fake: FakeEngine, tmp_path: Path
) -> None:
    assert isinstance(full_box(engine, fake, tmp_path), DiskFull)


@needs_mounts
def test_a_box_that_is_full_on_a_full_disk_is_the_disks_fault(
    engine: Engine, fake: FakeEngine, tmp_path: Path
) -> None:
    with tiny_disk(tmp_path / "docker", 1 << 20) as root:
        fill(root)
        fake.answer("GET .*/info$", of_this_machine(root))
        assert isinstance(full_box(engine, fake, tmp_path), DiskFull)


@needs_mounts
def test_a_cache_in_which_no_lock_can_be_made_is_a_full_disk(
    engine: Engine, fake: FakeEngine, specs: list[ImageSpec], tmp_path: Path
) -> None:
    with tiny_disk(tmp_path / "c", 1 << 20, files=1), pytest.raises(DiskFull, match="cannot make a lock"):
        sandbox_of(engine, tmp_path).prepare(specs[0])
    assert fake.count("POST .*/build") == 0
