"""What a local box costs, by count: time says nothing on a machine where others are at work."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_rlenv.sandboxes.local import _launcher, transfer, users
from pytest_rlenv.sandboxes.local.root import BoxRoot
from pytest_rlenv.sandboxes.local.rootfs import RootfsCache
from pytest_rlenv.sandboxes.model import Entry, ImageRef


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[object, str], list[object]]:
    """Count the calls of a function by what it was called with."""

    def count(module: object, name: str) -> list[object]:
        calls: list[object] = []
        function = getattr(module, name)

        def call(*args: object, **keywords: object) -> object:
            calls.append(args)
            return function(*args, **keywords)

        monkeypatch.setattr(module, name, call)
        return calls

    return count


@pytest.fixture
def root(tmp_path: Path) -> Iterator[BoxRoot]:
    """A folder that stands for a box's root."""
    found = BoxRoot(os.open(tmp_path, os.O_PATH), owned=True)
    yield found
    found.close()


def test_nothing_is_looked_at_before_what_is_new_is_put(
    root: BoxRoot, tmp_path: Path, counted: Callable[[object, str], list[object]]
) -> None:
    looked = counted(transfer, "_make_way")
    new = [Entry("logs", mode=0o755), Entry("logs/a", b"1"), Entry("b/c", b"2"), Entry("l", link="b")]
    transfer.put(root, new, "/")
    assert not looked
    over = [Entry("logs", b"3"), Entry("b", mode=0o700), Entry("b/c", b"4"), Entry("l", mode=0o755)]
    transfer.put(root, over, "/")
    assert len(looked) == 3  # a folder that is to be one is not in the way
    assert (tmp_path / "logs").read_bytes() == b"3"
    assert (tmp_path / "b/c").read_bytes() == b"4"
    assert (tmp_path / "l").is_dir()
    assert not (tmp_path / "l").is_symlink()


def test_a_user_is_looked_up_once_in_equal_files(counted: Callable[[object, str], list[object]]) -> None:
    parsed = counted(users, "_lines")
    files = {"/etc/passwd": b"cost:x:7:8::/home/cost:/bin/sh\n", "/etc/group": b"cost:x:8:\n"}
    first = users.find_user("cost", files.get)
    seen = len(parsed)
    assert users.find_user("cost", files.get) == first
    assert len(parsed) == seen
    files["/etc/passwd"] = b"cost:x:9:8::/home/cost:/bin/sh\n"  # as an agent may do
    assert users.find_user("cost", files.get).uid == 9


def test_tasks_of_equal_contexts_make_one_note(tmp_path: Path) -> None:
    cache = RootfsCache(tmp_path, owners=True)
    cache.remember("context:1", ImageRef("rlenv/one:k", "sha256:1"))
    (note,) = tmp_path.rglob("names/*")
    before = note.stat().st_ino
    cache.remember("context:1", ImageRef("rlenv/two:k", "sha256:1"))
    assert note.stat().st_ino == before
    cache.remember("context:1", ImageRef("rlenv/two:k", "sha256:2"))
    assert "sha256:2" in note.read_text()


def test_the_launcher_and_its_attendants_are_small() -> None:
    """They are forked for each box, and up before the first one is."""
    folder = str(Path(_launcher.__file__).parent)
    program = (
        f"import sys; sys.path.insert(0, {folder!r}); import _launcher\n"
        "import _attendant, _drain\nprint(sorted({'typing', 're', 'pathlib', 'subprocess'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
