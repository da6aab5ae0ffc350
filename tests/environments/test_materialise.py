from __future__ import annotations

from pathlib import Path

import pytest

from pytest_rlenv.environments.materialise import materialise
from pytest_rlenv.errors import FetchFailed

SHA256 = "sha256:" + "a" * 64
HEAD = b"version https://git-lfs.github.com/spec/v1\n"


def make(tmp_path: Path, **files: bytes) -> Path:
    sources = {}
    for i, (name, content) in enumerate(files.items()):
        blob = tmp_path / f"blob{i}"
        blob.write_bytes(content)
        link = tmp_path / f"link{i}"
        link.symlink_to(blob.name)
        sources[name] = link
    materialise(sources, tmp_path / "deep/task", tmp_path / "scratch")
    return tmp_path / "deep/task"


@pytest.mark.parametrize(
    ("name", "content", "mode"),
    [
        ("run.sh", b"echo", 0o755),
        ("empty.sh", b"", 0o755),
        ("run", b"#!/usr/bin/env python3\n", 0o755),
        ("run", b"# !no", 0o644),
        ("data.bin", bytes(range(256)) * 9, 0o644),
        ("run.sh.txt", b"echo", 0o644),
    ],
)
def test_modes_and_contents(name: str, content: bytes, mode: int, tmp_path: Path) -> None:
    file = make(tmp_path, **{name: content}) / name
    assert not file.is_symlink()
    assert file.read_bytes() == content
    assert file.stat().st_mode & 0o777 == mode
    assert not (tmp_path / "scratch").exists()


@pytest.mark.parametrize(
    "content",
    [
        HEAD + f"oid {SHA256}\nsize 5\n".encode(),
        HEAD + f"oid {SHA256}\nsize 5".encode(),
        (HEAD + f"oid {SHA256}\nsize 5\n".encode()).replace(b"\n", b"\r\n"),
        HEAD + f"ext-0-foo {SHA256}\noid {SHA256}\nsize 5\n".encode(),
    ],
)
def test_pointers(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(FetchFailed, match=r"^model\.bin is a Git LFS pointer"):
        make(tmp_path, **{"a.txt": b"fine", "model.bin": content})
    assert not (tmp_path / "deep/task").exists()
    assert not (tmp_path / "scratch").exists()


@pytest.mark.parametrize(
    "content",
    [
        HEAD,
        b"# see version https://git-lfs.github.com/spec/v1",
        HEAD + f"oid {SHA256}\nsize 5\nmore".encode(),
    ],
)
def test_what_only_looks_like_a_pointer(content: bytes, tmp_path: Path) -> None:
    assert (make(tmp_path, **{"doc.md": content}) / "doc.md").read_bytes() == content


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/x"])
def test_paths_stay_inside(path: str, tmp_path: Path) -> None:
    with pytest.raises(FetchFailed, match="leaves the task's folder"):
        make(tmp_path, **{path: b"x"})


def test_a_scratch_folder_left_by_a_killed_run_is_not_mixed_in(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch/old").touch()
    assert sorted(p.name for p in make(tmp_path, new=b"").iterdir()) == ["new"]


def test_a_source_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(FetchFailed, match="cannot be written: No such file"):
        materialise({"a": tmp_path / "gone"}, tmp_path / "task", tmp_path / "scratch")
    assert not (tmp_path / "task").exists()
