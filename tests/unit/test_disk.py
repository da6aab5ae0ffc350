"""Free space: what is refused beforehand, and what a full disk is called."""

from __future__ import annotations

import errno
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.tiny_disk import fill, needs_mounts, tiny_disk

from pytest_rlenv import disk
from pytest_rlenv.errors import DiskFull, Stage
from pytest_rlenv.sandboxes.local.extract import extract
from pytest_rlenv.stop_flag import NO_WORDS, StopFlag


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    with tiny_disk(tmp_path / "tiny", 256 * 1024) as folder:
        yield folder


def test_free_space_of_what_is_not_there_yet(tmp_path: Path) -> None:
    assert disk.free(tmp_path / "a" / "b") == pytest.approx(disk.free(tmp_path), rel=0.1)


@needs_mounts
def test_too_little_space_is_refused_with_all_that_one_needs_to_know(tiny: Path) -> None:
    disk.require_free(tiny / "new", 0, doing="x")
    disk.require_free(tiny / "new", 128 * 1024, doing="x")
    with pytest.raises(DiskFull) as caught:
        disk.require_free(tiny / "new", 1 << 30, doing="build it", stage=Stage.BUILD)
    assert caught.value.message == (
        f"cannot build it: no space left at {tiny}/new: 256 KiB free, 1.0 GiB needed"
    )
    assert all(
        words in caught.value.hint
        for words in ("python -m pytest_rlenv prune", "docker system df", "--rlenv-min-free")
    )
    assert caught.value.stage is Stage.BUILD


@needs_mounts
def test_a_full_disk_is_told_from_other_errors(tiny: Path, tmp_path: Path) -> None:
    fill(tiny)
    with (
        pytest.raises(DiskFull, match=rf"cannot write: no space left at {tiny}.* \(0 B free\)"),
        disk.full_as_error("write", tiny),
        (tiny / "x").open("wb", buffering=0) as file,
    ):
        file.write(b"x" * 10_000)
    with pytest.raises(FileNotFoundError), disk.full_as_error("write", tiny):
        (tmp_path / "nowhere" / "x").write_bytes(b"")
    assert not disk.has_room(tiny)
    assert disk.has_room(tmp_path)


@pytest.mark.parametrize(
    ("number", "full"),
    [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False), (errno.EACCES, False)],
)
def test_numbers(number: int, full: bool) -> None:
    assert disk.is_full(OSError(number, "x")) is full


@needs_mounts
def test_an_image_that_does_not_fit_is_not_extracted(tiny: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        info = tarfile.TarInfo("large")
        info.size = 1 << 20
        tar.addfile(info, io.BytesIO(bytes(info.size)))
    packed.seek(0)
    with pytest.raises(DiskFull, match=f"cannot extract the image: no space left at {tiny}") as caught:
        extract(packed, tiny / "root", owners=False)
    assert "RLENV_CACHE" in caught.value.hint


# ---- the flag that stops a run


def test_all_see_the_first_reason(tmp_path: Path) -> None:
    flags = [StopFlag(tmp_path / "shared") for _ in range(2)]
    assert [flag.get() for flag in flags] == [None, None]
    flags[0].set("first")
    flags[1].set("second")
    assert [flag.get() for flag in flags] == ["first", "first"]
    assert [file.name for file in (tmp_path / "shared").iterdir()] == ["stop"]


@needs_mounts
def test_a_full_disk_does_not_keep_others_from_stopping(tiny: Path) -> None:
    (tiny / "shared").mkdir()
    fill(tiny)
    flag = StopFlag(tiny / "shared")
    flag.set("no space left: x")
    assert flag.get() == "no space left: x"
    assert StopFlag(tiny / "shared").get() == NO_WORDS
    assert [file.name for file in (tiny / "shared").iterdir()] == ["stop"]


def test_a_folder_that_cannot_be_made_stops_this_process_at_least(tmp_path: Path) -> None:
    (tmp_path / "shared").write_text("a file where the folder should be")
    flag = StopFlag(tmp_path / "shared")
    flag.set("why")
    assert flag.get() == "why"
