"""The files of a task's folder: which, with which modes, and what is refused."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.harbor import files as files_module
from pytest_rlenv.frameworks.harbor.files import MAX_INLINE_BYTES, read_folder
from pytest_rlenv.frameworks.harbor.inside import resolve_inside


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    folder = tmp_path / "task" / "tests"
    folder.mkdir(parents=True)
    return folder


def names(tests: Path) -> list[str]:
    return [file.path for file in read_folder(tests.parent, tests).files]


def test_entries(tests: Path) -> None:
    (tests / "test.sh").write_bytes(b"echo")
    (tests / "data" / "empty").mkdir(parents=True)
    (tests / "data" / "x.bin").write_bytes(bytes(range(256)))
    folder = read_folder(tests.parent, tests)
    found = {entry.path: (entry.is_dir, entry.content, entry.mode) for entry in folder.entries()}
    assert found == {
        "data": (True, None, 0o755),
        "data/empty": (True, None, 0o755),
        "data/x.bin": (False, bytes(range(256)), 0o644),
        "test.sh": (False, b"echo", 0o755),
    }
    assert [file.path for file in folder.files].index("data") < [f.path for f in folder.files].index(
        "data/x.bin"
    )
    assert folder.warnings == []


@pytest.mark.parametrize(
    ("name", "content", "mode", "expected"),
    [
        ("test.sh", b"", 0o600, 0o755),
        ("run", b"#!/bin/sh\n", 0o644, 0o755),
        ("run", b"\x7fELF", 0o700, 0o755),
        ("run", b"\x7fELF", 0o644, 0o644),
        ("a.py", b"print()", 0o666, 0o644),
        ("a.py", b"print()", 0o4755, 0o755),
    ],
)
def test_modes(tests: Path, name: str, content: bytes, mode: int, expected: int) -> None:
    (tests / name).write_bytes(content)
    (tests / name).chmod(mode)
    assert [entry.mode for entry in read_folder(tests.parent, tests).entries()] == [expected]


def test_large_files_are_not_read(tests: Path) -> None:
    with (tests / "big").open("wb") as file:
        file.truncate(MAX_INLINE_BYTES + 1)
    (tests / "edge").write_bytes(bytes(MAX_INLINE_BYTES))
    big, edge = read_folder(tests.parent, tests).entries()
    assert (big.content, big.source, big.is_dir) == (None, tests / "big", False)
    assert (len(edge.content or b""), edge.source) == (MAX_INLINE_BYTES, None)


def test_a_missing_folder_has_no_files(tmp_path: Path) -> None:
    assert read_folder(tmp_path, tmp_path / "tests").files == []


def test_links_inside_the_task_become_what_they_point_to(tests: Path) -> None:
    shared = tests.parent / "shared"
    shared.mkdir()
    (shared / "lib.py").write_text("x = 1")
    (tests / "file").symlink_to("../shared/lib.py")
    (tests / "folder").symlink_to("../shared")
    found = {entry.path: entry.content for entry in read_folder(tests.parent, tests).entries()}
    assert found == {"file": b"x = 1", "folder": None, "folder/lib.py": b"x = 1"}


def test_the_folder_itself_may_be_a_link_inside_the_task(tests: Path) -> None:
    (tests / "test.sh").touch()
    alias = tests.parent / "alias"
    alias.symlink_to("tests")
    assert [file.path for file in read_folder(tests.parent, alias).files] == ["test.sh"]


OUTSIDE = {
    "relative": "../../secret",
    "absolute": "/etc/passwd",
    "to a folder": "../..",
    "to nothing outside": "/no/such/path",
}


@pytest.mark.parametrize("target", OUTSIDE.values(), ids=OUTSIDE)
def test_a_link_out_of_the_task(tests: Path, target: str) -> None:
    (tests.parent.parent / "secret").write_text("x")
    (tests / "link").symlink_to(target)
    with pytest.raises(TaskInvalid, match=r"^tests/link: leaves the task \(a link to") as caught:
        read_folder(tests.parent, tests)
    assert "real file" in caught.value.hint


def test_a_hub_snapshot_is_named(tests: Path) -> None:
    blob = tests.parent.parent / "blobs" / "0123"
    blob.parent.mkdir()
    blob.write_text("echo")
    (tests / "test.sh").symlink_to("../../blobs/0123")
    with pytest.raises(TaskInvalid) as caught:
        read_folder(tests.parent, tests)
    assert "Hub cache snapshot" in caught.value.hint


@pytest.mark.parametrize("target", ["loop", ".", "..", "../tests"])
def test_circles(tests: Path, target: str) -> None:
    (tests / "loop").symlink_to(target)
    with pytest.raises(TaskInvalid, match=r"tests/loop.*(circle|above)"):
        read_folder(tests.parent, tests)


def test_links_to_each_other(tests: Path) -> None:
    (tests / "a").symlink_to("b")
    (tests / "b").symlink_to("a")
    with pytest.raises(TaskInvalid, match=r"tests/a: links that lead in a circle"):
        read_folder(tests.parent, tests)


def test_a_link_to_nothing_is_left_out_with_a_warning(tests: Path) -> None:
    (tests / "test.sh").touch()
    (tests / "gone").symlink_to("nowhere")
    folder = read_folder(tests.parent, tests)
    assert [file.path for file in folder.files] == ["test.sh"]
    assert folder.warnings == ["tests/gone: a link to nothing, left out"]


def test_a_web_of_links_is_cut_off(tests: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "MAX_FILES", 500)
    levels = tests.parent / "levels"
    for level in range(12):  # 4096 ways to the end; a path takes 40 links at most
        (levels / str(level)).mkdir(parents=True)
        for side in ("left", "right"):
            (levels / str(level) / side).symlink_to(f"../{level + 1}")
    (levels / "12").mkdir()
    (tests / "in").symlink_to("../levels/0")
    with pytest.raises(TaskInvalid, match=r"tests: more than 500 files"):
        read_folder(tests.parent, tests)


def test_special_files_are_refused_and_do_not_block(tests: Path) -> None:
    os.mkfifo(tests / "pipe")
    with pytest.raises(TaskInvalid, match=r"tests/pipe: neither a file nor a folder"):
        read_folder(tests.parent, tests)


def test_a_socket_is_refused(tests: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tests)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(TaskInvalid, match=r"tests/s: neither a file nor a folder"):
            read_folder(tests.parent, tests)


def test_a_git_lfs_pointer_is_named_with_the_cure(tests: Path) -> None:
    (tests / "model.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
    with pytest.raises(TaskInvalid, match=r"tests/model\.bin: a git-lfs pointer") as caught:
        read_folder(tests.parent, tests)
    assert "git lfs pull" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("test.sh", b"#!/bin/bash\r\necho\r\n", "finds no interpreter"),
        ("test.sh", b"#!/bin/bash\necho\r\n", "part of each command"),
        ("test.sh", b"echo\r\n", "part of each command"),
        ("test.sh", b"#!/x\r", "finds no interpreter"),
        ("check", b"#!/bin/bash\r\n", "finds no interpreter"),
        ("data.csv", b"a\r\nb\r\n", ""),
        ("test.sh", b"#!/bin/bash\necho\n", ""),
    ],
)
def test_crlf_in_scripts_is_a_warning(tests: Path, name: str, content: bytes, words: str) -> None:
    (tests / name).write_bytes(content)
    warnings = read_folder(tests.parent, tests).warnings
    assert [w for w in warnings if w.startswith(f"tests/{name}: its lines end in CR LF")] == warnings
    assert bool(warnings) is bool(words)
    assert words in "".join(warnings)


def test_names_of_any_kind(tests: Path) -> None:
    for name in ("a b", "ü", "-x", "new\nline", "quote'\""):
        (tests / name).touch()
    assert names(tests) == sorted(["a b", "ü", "-x", "new\nline", "quote'\""])


def test_a_name_that_is_not_printable_is_escaped_in_messages(tests: Path) -> None:
    (tests / "evil\x1b[2J").symlink_to("/etc")
    with pytest.raises(TaskInvalid) as caught:
        read_folder(tests.parent, tests)
    assert caught.value.message.isprintable()


class TestHarborignore:
    @pytest.fixture(autouse=True)
    def some_files(self, tests: Path) -> None:
        for name in ("test.sh", "a.txt", "b.log", "data/c.txt", "data/deep/d.txt"):
            (tests / name).parent.mkdir(parents=True, exist_ok=True)
            (tests / name).touch()

    ALL = frozenset({"test.sh", "a.txt", "b.log", "data", "data/c.txt", "data/deep", "data/deep/d.txt"})
    ROWS = (
        ("", frozenset()),
        ("*.txt", {"a.txt", "data/c.txt", "data/deep/d.txt"}),
        ("/*.txt", {"a.txt"}),
        ("data/", {"data", "data/c.txt", "data/deep", "data/deep/d.txt"}),
        ("data/**", {"data", "data/c.txt", "data/deep", "data/deep/d.txt"}),
        ("*.txt\n!c.txt", {"a.txt", "data/deep/d.txt"}),
        ("data/\n!data/c.txt", {"data", "data/c.txt", "data/deep", "data/deep/d.txt"}),
        ("**/deep", {"data/deep", "data/deep/d.txt"}),
        ("# a.txt\n\nb.log  \r\n", {"b.log"}),
        ("tests/a.txt", frozenset()),
    )

    @pytest.mark.parametrize(("rules", "left_out"), ROWS)
    def test_rules(self, tests: Path, rules: str, left_out: set[str]) -> None:
        (tests / ".harborignore").write_text(rules)
        assert set(names(tests)) == self.ALL - left_out

    def test_a_subfolder_adds_to_the_rules_above_it(self, tests: Path) -> None:
        (tests / ".harborignore").write_text("*.txt")
        (tests / "data" / ".harborignore").write_text("!c.txt")
        assert set(names(tests)) == self.ALL - {"a.txt", "data/deep/d.txt"}

    def test_it_applies_to_no_other_folder(self, tests: Path) -> None:
        environment = tests.parent / "environment"
        environment.mkdir()
        (environment / "a.txt").touch()
        (environment / ".harborignore").write_text("*")
        assert [f.path for f in read_folder(tests.parent, environment).files] == ["a.txt"]

    def test_steps_have_their_own(self, tests: Path) -> None:
        step = tests.parent / "steps" / "one" / "tests"
        step.mkdir(parents=True)
        (step / "a.txt").touch()
        (step / ".harborignore").write_text("a.txt")
        assert read_folder(tests.parent, step).files == []

    def test_a_link_is_ignored_when_its_target_is(self, tests: Path) -> None:
        (tests / ".harborignore").write_text("a.txt")
        (tests / "alias").symlink_to("a.txt")
        assert "alias" not in names(tests)

    def test_an_ignored_link_may_lead_anywhere(self, tests: Path) -> None:
        (tests / ".harborignore").write_text("out")
        (tests / "out").symlink_to("/etc/passwd")
        assert set(names(tests)) == self.ALL

    def test_it_must_be_a_file_of_the_task(self, tests: Path) -> None:
        (tests / ".harborignore").symlink_to("/etc/passwd")
        with pytest.raises(TaskInvalid, match=r"tests/\.harborignore: leaves the task"):
            read_folder(tests.parent, tests)

    def test_it_must_be_text(self, tests: Path) -> None:
        (tests / ".harborignore").write_bytes(b"\xff")
        with pytest.raises(TaskInvalid, match=r"tests/\.harborignore: not UTF-8"):
            read_folder(tests.parent, tests)


def test_what_has_no_links_is_not_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To resolve a path looks at every part of it from the file system's root on."""
    root = tmp_path.resolve()
    (root / "tests" / "data").mkdir(parents=True)
    (root / "tests" / "test.sh").write_text("true\n")
    resolved: list[Path] = []
    resolve = Path.resolve

    def noting(path: Path, strict: bool = False) -> Path:
        resolved.append(path)
        return resolve(path, strict)

    monkeypatch.setattr(Path, "resolve", noting)
    assert [file.path for file in read_folder(root, root / "tests").files] == ["data", "test.sh"]
    missing = root / "tests" / "missing" / "deeper"
    assert resolve_inside(root, missing) == missing
    assert resolved == []
    (root / "tests" / "link").symlink_to("test.sh")
    assert resolve_inside(root, root / "tests" / "link") == root / "tests" / "test.sh"
    for outside in (root / "tests" / ".." / ".." / "x", root.parent / "y"):
        with pytest.raises(TaskInvalid, match="leaves the task"):
            resolve_inside(root, outside)
    assert len(resolved) == 3
