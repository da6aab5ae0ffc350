"""``python -m pytest_rlenv prune``: what goes, what stays, and what is said of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_engine import Answer, FakeEngine, serving

from pytest_rlenv.__main__ import COMMANDS, main
from pytest_rlenv.sandboxes.docker.uses import ImageUses
from pytest_rlenv.sandboxes.local import places
from pytest_rlenv.sandboxes.local.imageconfig import ImageConfig
from pytest_rlenv.sandboxes.local.places import Owner
from pytest_rlenv.sandboxes.local.rootfs import RootfsCache
from pytest_rlenv.sandboxes.model import ImageRef

MIB = 1 << 20
NOW = int(time.time())


def image(letter: str, *tags: str, key: str | None = None, **labels: str) -> dict[str, Any]:
    """Describe an image of 5 MiB of which 4 are its base's, made a day ago."""
    key = letter * 64 if key is None else key
    return {
        "Id": f"sha256:{letter * 64}",
        "RepoTags": list(tags) or ["<none>:<none>"],
        "Labels": {"rlenv": "1", "rlenv.key": key} | labels,
        "Size": 5 * MIB,
        "SharedSize": 4 * MIB,
        "Created": NOW - 86400,
    }


def ours(letter: str) -> str:
    return f"rlenv/task-{letter}:{letter * 20}"


def usage(images: list[dict[str, Any]], layers: int, cache: int = 0) -> Answer:
    build_cache = [{"Size": cache, "Shared": False}, {"Size": 99 * MIB, "Shared": True}]
    return Answer({"LayersSize": layers, "Images": images, "BuildCache": build_cache, "Containers": []})


def use_places_of_the_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Leave alone what other programs have on this machine."""
    monkeypatch.setenv("RLENV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(places, "_possible_bases", lambda cache_dir: (cache_dir / "boxes",))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeEngine]:
    fake = FakeEngine()
    fake.answer("GET .*/networks", Answer([]))
    fake.answer("GET .*/volumes", Answer({"Volumes": []}))
    fake.answer("GET .*/containers/json", Answer([]))
    fake.answer("DELETE .*/images/", Answer([]))
    use_places_of_the_test(monkeypatch, tmp_path)
    with serving(fake) as endpoint:
        monkeypatch.setenv("DOCKER_HOST", endpoint.url)
        yield fake


def uses_of(tmp_path: Path) -> ImageUses:
    from pytest_rlenv.sandboxes.docker.client import shared_engine

    return ImageUses(tmp_path / "cache", shared_engine().fingerprint())


def has(fake: FakeEngine, *images: dict[str, Any]) -> None:
    fake.answer("GET .*/images/json", Answer(list(images)))
    fake.answer("GET .*/system/df", usage(list(images), 100 * MIB), usage([], 98 * MIB))


def removed(fake: FakeEngine) -> list[str]:
    paths = [request for request in fake.requests if request.startswith("DELETE")]
    return [path.split("/images/")[-1].split("/containers/")[-1].split("?")[0] for path in paths]


def test_built_images_are_removed_and_nothing_else(
    fake: FakeEngine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    uses_of(tmp_path).claim("z" * 64)  # as a run did that is over, of an image that is gone
    has(
        fake,
        image("a", ours("a")),
        image("b"),
        image("c", ours("c"), "mine:1"),
        image("d", "mine:2"),
        image("e", "rlenv/task-e:another-tag"),
    )
    assert main(["prune", "--images"]) == 0
    assert removed(fake) == [ours("a"), "sha256:" + "b" * 64, ours("c")]
    assert all("force" not in request for request in fake.requests if request.startswith("DELETE"))
    listing = next(request for request in fake.requests if "/images/json" in request)
    assert "rlenv%3D1" in listing
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"removed image {ours('a')}  1.0 MiB"
    assert lines[-1] == "freed 2.0 MiB (3 images)"


def test_what_is_in_use_stays(fake: FakeEngine, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    uses = uses_of(tmp_path)
    uses.claim("a" * 64)
    has(fake, *(image(letter, ours(letter)) for letter in "abc"))
    fake.answer("GET .*/containers/json.*all=1$", Answer([{"Id": "x", "ImageID": "sha256:" + "b" * 64}]))
    words = "conflict: unable to remove repository reference (must force) - container y is using it"
    fake.answer("DELETE .*/images/rlenv/task-c", Answer({"message": words}, status=409))
    assert main(["prune", "--images"]) == 0
    assert removed(fake) == [ours("c")]
    assert capsys.readouterr().out == "freed 2.0 MiB (nothing); kept 3 in use\n"
    uses.close()


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        (["--older-than", "3d"], ["c"]),
        (["--older-than", "12h"], ["b", "c"]),
        (["--older-than", "0"], ["a", "b", "c"]),
        ([], ["a", "b", "c"]),
    ],
)
def test_older_than_means_not_used_for(
    options: list[str], gone: list[str], fake: FakeEngine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """``a`` was used now and ``c`` a year ago; of ``b`` only its making is known, a day ago."""
    uses = uses_of(tmp_path)
    uses.claim("a" * 64)
    uses.claim("c" * 64)
    uses.close()
    (stamp,) = tmp_path.glob(f"cache/docker-images/*/{'c' * 64}")
    os.utime(stamp, (NOW - 365 * 86400, NOW - 365 * 86400))
    has(fake, *(image(letter, ours(letter)) for letter in "abc"))
    assert main(["prune", "--images", *options]) == 0
    assert removed(fake) == [ours(letter) for letter in gone]
    kept = 3 - len(gone)
    said = capsys.readouterr().out
    assert (f"kept {kept} used too lately" in said) is bool(kept)
    assert not stamp.exists()


def test_a_dry_run_removes_nothing(
    fake: FakeEngine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cache = extracted(tmp_path)
    cache.close()
    has(fake, image("a", ours("a")))
    fake.answer("GET .*/containers/json.*size=1", Answer([dead_container(SizeRw=MIB)]))
    assert main(["prune", "--dry-run"]) == 0
    assert removed(fake) == []
    assert (tmp_path / "cache/rootfs/1/root").is_dir()
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["would remove container dead  1.0 MiB", f"would remove image {ours('a')}  1.0 MiB"]
    assert lines[2].startswith("would remove root file system debian:1 (1)  ")
    assert lines[3] == "would free at least 4.0 MiB (1 image, 1 container, 1 root file system)"


def dead_container(**facts: Any) -> dict[str, Any]:
    labels = {"rlenv": "1", "rlenv.deadline": "1"}
    return {"Id": "dead", "Names": ["/dead"], "Labels": labels, "ImageID": "x"} | facts


def test_containers_of_dead_owners_are_removed(fake: FakeEngine, capsys: pytest.CaptureFixture[str]) -> None:
    has(fake)
    alive = {"Id": "alive", "Names": ["/alive"], "Labels": {"rlenv": "1", "rlenv.deadline": "99999999999"}}
    fake.answer("GET .*/containers/json", Answer([dead_container(SizeRw=3 * MIB), alive | {"ImageID": "y"}]))
    fake.answer("POST .*/containers/dead/kill", Answer({}))
    fake.answer("DELETE .*/containers/dead", Answer({}))
    assert main(["prune", "--images"]) == 0
    assert removed(fake) == ["dead"]
    assert "removed container dead  3.0 MiB" in capsys.readouterr().out


def test_what_the_build_cache_holds_is_not_called_free(
    fake: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    images = [image("a", ours("a"))]
    fake.answer("GET .*/images/json", Answer(images))
    fake.answer("GET .*/system/df", usage(images, 100 * MIB), usage([], 40 * MIB, cache=50 * MIB))
    assert main(["prune", "--images"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == "freed 10.0 MiB (1 image)"
    assert lines[-1].startswith("50.0 MiB more are held by the engine's build cache")
    assert "docker builder prune" in lines[-1]


def test_an_engine_that_does_not_tell_what_takes_space(
    fake: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    has(fake, image("a", ours("a")))
    fake.answer("GET .*/system/df", Answer({"message": "not implemented"}, status=501))
    assert main(["prune", "--images"]) == 0
    assert removed(fake) == [ours("a")]
    assert capsys.readouterr().out.splitlines()[0] == f"removed image {ours('a')}  5.0 MiB"


def test_what_cannot_be_removed_is_a_failure(fake: FakeEngine, capsys: pytest.CaptureFixture[str]) -> None:
    has(fake, image("a", ours("a")), image("b", ours("b")))
    fake.answer("DELETE .*/images/rlenv/task-a", Answer({"message": "input/output error"}, status=500))
    assert main(["prune", "--images"]) == 1
    assert removed(fake) == [ours("a"), ours("b")]
    said = capsys.readouterr().out
    assert f"NOT removed: image {ours('a')}: cannot remove image {ours('a')}: input/output error" in said
    assert "(1 image)" in said


# ---- without an engine


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    use_places_of_the_test(monkeypatch, tmp_path)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    return tmp_path


def extracted(tmp_path: Path) -> RootfsCache:
    """Return a cache that holds one image, with 2 MiB in it."""

    def make(root: Path) -> ImageConfig:
        root.mkdir(parents=True)
        (root / "file").write_bytes(bytes(2 * MIB))
        return ImageConfig()

    cache = RootfsCache(tmp_path / "cache", owners=True)
    cache.find_or_add("sha256:1", make, timeout=None)
    cache.remember("name:debian:1", ImageRef("debian:1", "sha256:1"))
    return cache


def test_without_an_engine_root_file_systems_are_removed(
    no_engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extracted(no_engine).close()
    assert main(["prune"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("no engine, so only root file systems: the Docker engine at unix:///nowhere")
    assert lines[1] == "removed root file system debian:1 (1)  2.0 MiB"
    assert lines[2].startswith("freed 2.0 MiB (1 root file system")
    assert [each.name for each in (no_engine / "cache/rootfs").iterdir()] == ["names"]


def test_without_an_engine_its_images_cannot_be_removed(
    no_engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prune", "--images"]) == 1
    assert "error: the Docker engine at unix:///nowhere" in capsys.readouterr().err


def test_a_root_file_system_in_use_stays(no_engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = extracted(no_engine)
    for options in ([], ["--dry-run"]):
        assert main(["prune", "--rootfs", *options]) == 0
        assert "kept 1 in use" in capsys.readouterr().out
    cache.close()
    assert main(["prune", "--rootfs", "--older-than", "1h"]) == 0
    assert "kept 1 used too lately" in capsys.readouterr().out
    assert (no_engine / "cache/rootfs/1/root/file").is_file()


def test_boxes_of_dead_owners_are_removed(no_engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    boxes = no_engine / "cache" / "boxes"
    boxes.mkdir(parents=True, mode=0o700)
    me = Owner.me()
    dead = Owner(me.machine, me.boot, me.namespace, 2**22 + 1, "1").new_name()
    for name in (dead, me.new_name(), "something else"):
        (boxes / name / "1").mkdir(parents=True)
    assert main(["prune", "--rootfs"]) == 0
    assert f"removed box {boxes / dead}" in capsys.readouterr().out
    assert not (boxes / dead).exists()
    assert len(list(boxes.iterdir())) == 2


# ---- the command line


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["prune", "--older-than", "7"], "'7' is not a duration"),
        (["prune", "--older-than"], "expected one argument"),
        (["prune", "everything"], "unrecognized arguments"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
    ],
)
def test_usage_errors(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 4
    assert words in capsys.readouterr().err


def test_no_command_is_a_wish_for_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said = capsys.readouterr().out
    assert all(row.word in said for row in COMMANDS)
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == said
