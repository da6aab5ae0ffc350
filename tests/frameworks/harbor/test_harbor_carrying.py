"""Emptying a folder of a verifier's box, with this machine's shell and with a box that refuses root."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.frameworks.harbor.carrying import put_found
from pytest_rlenv.frameworks.harbor.collecting import Found
from pytest_rlenv.sandboxes.model import Completed, Entry
from pytest_rlenv.sandboxes.protocol import Box


class HostBox:
    """Runs commands on this machine, whoever they are for."""

    def __init__(self) -> None:
        self.put_there: list[tuple[str, str]] = []

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        done = subprocess.run(argv, cwd="/", capture_output=True, check=False)
        return Completed(done.returncode, stdout=done.stdout, output=done.stdout + done.stderr)

    def put(self, entries: Sequence[Entry], dest: str) -> None:
        self.put_there += [(entry.path, dest) for entry in entries]


def folder(path: Path) -> Found:
    return Found(str(path), [Entry("new", b"")], is_dir=True)


def test_a_folder_is_emptied_and_filled_whatever_its_names(tmp_path: Path) -> None:
    work = tmp_path / "a b"
    for name in ("-rf", ".hidden", "new\nline", "deep/er/file"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).touch()
    (work / "out").symlink_to(tmp_path)
    (tmp_path / "kept").touch()
    box = HostBox()
    put_found(cast("Box", box), [folder(work)])
    assert list(work.iterdir()) == []
    assert (tmp_path / "kept").exists()
    assert box.put_there == [("new", str(work))]


class CapBox(HostBox):
    """Root may do nothing here but look at who owns a folder; another user may what is listed."""

    def __init__(self, **may: int) -> None:
        super().__init__()
        self.may = may
        self.asked: list[int] = []

    def run(self, argv: Sequence[str], *, user: int = 0, **options: Any) -> Completed:
        if argv[0] == "stat":
            return Completed(0, stdout=b"1234\n")
        self.asked.append(user)
        return Completed(self.may.get(f"u{user}", 1), output=b"find: '/work': Permission denied")


def test_where_root_may_not_the_owner_does_it() -> None:
    box = CapBox(u1234=0)
    put_found(cast("Box", box), [folder(Path("/work")), folder(Path("/logs/artifacts"))])
    assert box.asked == [0, 1234, 1234]
    assert box.put_there == [("new", "/work"), ("new", "/logs/artifacts")]


def test_what_nobody_can_empty_is_an_error_that_names_it() -> None:
    box = CapBox()
    with pytest.raises(SandboxFailed) as caught:
        put_found(cast("Box", box), [folder(Path("/work"))])
    assert caught.value.message == "could not be emptied in the verifier's box: /work"
    assert "Permission denied" in caught.value.detail
    assert box.put_there == []
