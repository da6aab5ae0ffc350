"""Pulls by a real engine from a real registry, if a small one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.engine import remove_image
from support.registry import Registry

from pytest_rlenv.errors import ImageUnavailable, Kind
from pytest_rlenv.sandboxes.docker import pull
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.model import ImageSpec, SandboxContext

pytestmark = pytest.mark.docker


@pytest.fixture
def registry(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setattr(pull, "FIRST_PAUSE", 0.01)
    with Registry() as registry:
        yield registry
        remove_image(engine, registry.image)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def puller(engine: Engine, told: list[str], tmp_path: Path) -> Iterator[DockerSandbox]:
    context = SandboxContext("pulls", "gw0", tmp_path / "cache", tmp_path / "run", notify=told.append)
    sandbox = DockerSandbox(context)
    yield sandbox
    sandbox.close()


def test_a_pulled_image_is_known_by_the_registrys_digest(
    puller: DockerSandbox, registry: Registry, engine: Engine
) -> None:
    image = puller.prepare(ImageSpec(name=registry.image))
    assert image.pinned == f"{registry.image}@{registry.digest}"
    assert image.id != registry.digest
    again = puller.prepare(ImageSpec(name=registry.image))
    assert (again.id, again.digest) == (image.id, image.digest)
    by_digest = f"{registry.image.removesuffix(':1')}@{registry.digest}"
    assert puller.prepare(ImageSpec(name=by_digest)).pinned == by_digest
    assert registry.pulls == 1


def test_a_busy_registry_is_asked_again(puller: DockerSandbox, registry: Registry, told: list[str]) -> None:
    registry.faults = [429, 503]
    assert puller.prepare(ImageSpec(name=registry.image)).digest == registry.digest
    assert [line.split(" failed ")[0] for line in told[:2]] == [f"pulling {registry.image}"] * 2
    assert "try 2 of 4" in told[0]
    assert "try 3 of 4" in told[1]
    assert told[2].startswith(f"pulled {registry.image} in ")


def test_a_used_up_rate_limit_is_waited_for_once(
    puller: DockerSandbox, registry: Registry, told: list[str]
) -> None:
    registry.faults = [429] * 5
    for tries in (4, 1):
        before = registry.pulls
        with pytest.raises(ImageUnavailable, match="rate limit") as caught:
            puller.prepare(ImageSpec(name=registry.image))
        assert registry.pulls - before == tries
        assert caught.value.kind is Kind.INFRA
        assert "docker login" in caught.value.hint
    assert len(told) == 3
    assert puller.prepare(ImageSpec(name=registry.image)).digest == registry.digest


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "docker login"), (403, "docker login"), (404, "spelled right")]
)
def test_a_refusal_is_not_repeated(
    status: int, hint: str, puller: DockerSandbox, registry: Registry, told: list[str]
) -> None:
    registry.faults = [status] * 100
    with pytest.raises(ImageUnavailable, match="cannot be pulled") as caught:
        puller.prepare(ImageSpec(name=registry.image))
    assert hint in caught.value.hint
    assert told == []
