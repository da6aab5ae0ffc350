from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.environments import Resolve
from support.fake_hub import FakeHub

from pytest_rlenv.environments.model import Environment
from pytest_rlenv.environments.resolve import resolve
from pytest_rlenv.environments.selection import Selection

# Read when huggingface_hub is imported, which the tests below do in this process; a child gets hub.environ().
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the tests off the real Hub, and away from the login and the cache of who runs them."""
    from huggingface_hub import constants

    for name, value in FakeHub().environ(tmp_path).items():
        monkeypatch.setenv(name, value)
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr(constants, "HF_STORED_TOKENS_PATH", str(tmp_path / "no-tokens"))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, no_hub: None) -> Iterator[FakeHub]:
    with FakeHub() as fake:
        monkeypatch.setenv("HF_ENDPOINT", fake.endpoint)
        yield fake


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Take no pause that the code under test, or the client, asks for; return those that were asked."""
    asked: list[float] = []
    sleep = time.sleep

    def nap(seconds: float) -> None:
        if seconds >= 0.5:
            asked.append(seconds)
        else:
            sleep(seconds)

    monkeypatch.setattr(time, "sleep", nap)
    return asked


@pytest.fixture
def cache_dir(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def resolve_one(tmp_path: Path, cache_dir: Path) -> Resolve:
    """Resolve one spec with all of its tasks."""

    def run(
        spec: str, *, dataset: str | None = None, notify: Callable[[str], None] | None = None
    ) -> Environment:
        (environment,) = resolve(
            [spec],
            base=tmp_path,
            rootdir=tmp_path,
            cache_dir=cache_dir,
            selection=Selection(),
            dataset=dataset,
            notify=notify,
        )
        return environment

    return run
