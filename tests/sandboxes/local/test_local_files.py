"""Files into and out of a box, whose inhabitants may be hostile."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from support.local_boxes import needs_users, sh

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.local import LocalBox
from pytest_rlenv.sandboxes.protocol import Entry, Stat

Start = Callable[..., LocalBox]

SECRET = "secret of this machine"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of this machine that links in a box point at, by its path here."""
    file = tmp_path / "host" / "secret"
    file.parent.mkdir()
    file.write_text(SECRET)
    return file


def test_put_and_get(lbox: LocalBox, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"from a file" * 1000)
    entries = [
        Entry("deep/er/file", b"bytes", 0o640),
        Entry("deep/script", b"#!/bin/sh\n", 0o755),
        Entry("folder", mode=0o1777),
        Entry("./dotted", source=source, mode=0o600),
    ]
    lbox.put(entries, "/new/place")
    assert lbox.get("/new/place/deep/er/file", cap=5) == b"bytes"
    assert lbox.get("/new/place/dotted", cap=100_000) == source.read_bytes()
    listed = sh(
        lbox, "cd /new; stat -c '%n %a %u:%g' place place/deep place/deep/* place/folder place/dotted"
    )
    assert listed.stdout.decode().splitlines() == [
        "place 755 0:0",
        "place/deep 755 0:0",
        "place/deep/er 755 0:0",
        "place/deep/script 755 0:0",
        "place/folder 1777 0:0",
        "place/dotted 600 0:0",
    ]


def test_entries_are_there_before_the_first_command(start_local: Start) -> None:
    box = start_local(entries=(Entry("logs/agent", mode=0o777), Entry("app/x", b"1")))
    assert sh(box, "stat -c %a /logs/agent; cat /app/x").stdout == b"777\n1"


def test_put_replaces_what_is_there(lbox: LocalBox) -> None:
    sh(
        lbox,
        "mkdir /t; ln -s /etc /t/link; echo old >/t/file; mkfifo /t/fifo; ln -s /etc/hostname /t/to-file",
    )
    before = lbox.get("/etc/hostname", cap=1000)
    lbox.put([Entry("link/x", b"in etc"), Entry("file", b"new"), Entry("fifo", b"no pipe")], "/t")
    lbox.put([Entry("to-file", b"no link"), Entry("link", mode=0o700)], "/t")
    assert lbox.get("/etc/x", cap=10) == b"in etc"  # parents are followed, inside
    assert lbox.get("/t/file", cap=10) == b"new"
    assert lbox.get("/t/fifo", cap=10) == b"no pipe"
    assert lbox.get("/t/to-file", cap=10) == b"no link"
    assert lbox.stat("/t/link") == Stat("directory", lbox.stat("/t/link").size, 0o700)  # type: ignore[union-attr]
    assert lbox.get("/etc/hostname", cap=1000) == before


@pytest.mark.parametrize(
    ("path", "dest"), [("../x", "/t"), ("a/../../x", "/t"), ("x", "/t/.."), ("a\0b", "/t")]
)
def test_put_stays_below_its_destination(path: str, dest: str, lbox: LocalBox) -> None:
    with pytest.raises(SandboxFailed, match="refusing to write"):
        lbox.put([Entry(path, b"")], dest)


def test_put_from_a_missing_source(lbox: LocalBox, tmp_path: Path) -> None:
    with pytest.raises(SandboxFailed, match=r"cannot read .*gone"):
        lbox.put([Entry("x", source=tmp_path / "gone")])


def test_put_where_a_file_is_in_the_way(lbox: LocalBox) -> None:
    sh(lbox, "echo >/file")
    with pytest.raises(SandboxFailed, match="cannot write /file/x in the box"):
        lbox.put([Entry("x", b"")], "/file")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 123 >/t/x", Stat("file", 4, 0o644)),
        ("ln -s /etc/passwd /t/x", Stat("symlink", 11, 0o777, "/etc/passwd")),
        ("ln -s x /t/x", Stat("symlink", 1, 0o777, "x")),
        ("mkfifo /t/x", Stat("fifo", 0, 0o644)),
        ("true", None),
        ("echo >/t/x; mkdir /t/y; mv /t/x /t/y/", None),
    ],
)
def test_stat(script: str, expected: Stat | None, lbox: LocalBox) -> None:
    assert sh(lbox, f"umask 022; mkdir /t; {script}").exit_code == 0
    assert lbox.stat("/t/x") == expected
    lbox.stop()
    assert lbox.stat("/t/x") == expected


def test_stat_of_odd_paths(lbox: LocalBox) -> None:
    sh(lbox, "echo >/file; ln -s loop /loop; ln -s /etc /link")
    root = lbox.stat("/")
    assert root is not None
    assert root.kind == "directory"
    assert lbox.stat("/file/below") is None
    assert lbox.stat("/loop/below") is None
    assert lbox.stat("/" + "n" * 300) is None
    assert lbox.stat("/link/").kind == "symlink"  # type: ignore[union-attr]
    assert lbox.stat("/link/hostname").kind == "file"  # type: ignore[union-attr]
    assert lbox.stat("/dev/null").kind == "device"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("true", "there is no /x in the box"),
        ("mkdir /x", "/x in the box is a directory, not a regular file"),
        ("mkfifo /x", "/x in the box is a fifo, not a regular file"),
        ("ln -s /etc/passwd /x", "/x in the box is a symlink, not a regular file"),
        ("head -c 101 /dev/zero >/x", "/x in the box has 101 bytes, more than the 100 that are accepted"),
        ("truncate -s 10G /x", "has 10737418240 bytes"),
    ],
)
def test_get_refuses(script: str, message: str, lbox: LocalBox) -> None:
    assert sh(lbox, script).exit_code == 0
    for _ in range(2):
        with pytest.raises(SandboxFailed, match=message):
            lbox.get("/x", cap=100)
        lbox.stop()


@pytest.mark.parametrize("link", ["{path}", "/proc/1/root{path}", "../../../../../../../../../..{path}"])
def test_links_lead_nowhere_out_of_the_box(link: str, lbox: LocalBox, secret: Path, tmp_path: Path) -> None:
    """Neither as the thing itself nor as one of its parents, in either direction."""
    target = link.format(path=secret)
    folder = link.format(path=secret.parent)
    assert sh(lbox, f"mkdir /t; ln -s {target} /t/file; ln -s {folder} /t/folder").exit_code == 0
    for path in ("/t/file", "/t/folder/secret"):
        with pytest.raises(SandboxFailed):
            lbox.get(path, cap=1000)
    assert lbox.stat("/t/folder/secret") is None
    lbox.put([Entry("file", b"mine"), Entry("folder", mode=0o700)], "/t")
    sh(lbox, f"rm -r /t/folder; ln -s {folder} /t/folder")
    # it may refuse: there is no such folder in the box, and none is made through a link of /proc
    with contextlib.suppress(SandboxFailed):
        lbox.put([Entry("folder/secret", b"overwritten"), Entry("folder/planted", b"x")], "/t")
    assert secret.read_text() == SECRET
    assert [each.name for each in secret.parent.iterdir()] == ["secret"]
    dest = tmp_path / "dest"
    extracted = lbox.get_tree("/t", dest, cap=10_000)
    assert SECRET not in "".join(each.read_text() for each in dest.rglob("*") if each.is_file())
    assert any(line.startswith("folder: a link to") for line in extracted.refused)


def test_tree(lbox: LocalBox, tmp_path: Path) -> None:
    script = """
        mkdir -p /t/a/b /t/empty; echo 1 >/t/one; echo 22 >/t/a/b/two; chmod 755 /t/a/b/two
        mkfifo /t/fifo; ln -s /etc /t/link; ln -s one /t/inner; printf x >"/t/odd
name"
    """
    assert sh(lbox, script).exit_code == 0
    dest = tmp_path / "dest"
    extracted = lbox.get_tree("/t", dest, cap=1000)
    found = {str(each.relative_to(dest)): each for each in dest.rglob("*") if each.is_file()}
    assert {name: each.read_text() for name, each in found.items()} == {
        "one": "1\n",
        "a/b/two": "22\n",
        "odd\nname": "x",
    }
    assert stat.S_IMODE(found["a/b/two"].stat().st_mode) & 0o100
    assert (dest / "empty").is_dir()
    assert (extracted.files, extracted.bytes) == (3, 6)
    assert sorted(extracted.refused) == [
        "fifo: a fifo, neither a file nor a folder",
        "inner: a link to one",
        "link: a link to /etc",
    ]


@pytest.mark.parametrize(
    ("path", "files", "refused"),
    [("/t/one", 1, []), ("/missing", 0, []), ("/t/link", 0, ["link: a link to /etc"])],
)
def test_tree_of_what_is_no_folder(
    path: str, files: int, refused: list[str], lbox: LocalBox, tmp_path: Path
) -> None:
    sh(lbox, "mkdir /t; echo 1 >/t/one; ln -s /etc /t/link")
    extracted = lbox.get_tree(path, tmp_path / "dest", cap=1000)
    assert (extracted.files, extracted.refused) == (files, refused)


def test_tree_within_its_limits(lbox: LocalBox, tmp_path: Path) -> None:
    sh(lbox, "mkdir -p /big /many /deep; truncate -s 10G /big/sparse; echo 1 >/big/small")
    sh(lbox, "cd /many; for i in $(seq 30); do echo >$i; done")
    sh(lbox, "cd /deep; for i in $(seq 80); do mkdir d; cd d; done; echo >x")
    big = lbox.get_tree("/big", tmp_path / "big", cap=1000)
    assert (big.files, big.bytes) == (1, 2)
    assert big.refused == ["sparse: 10737418240 bytes go over the cap of 1000"]
    many = lbox.get_tree("/many", tmp_path / "many", cap=1000, max_files=10)
    assert many.files == 10
    assert "more than 10 files; the rest is left out" in many.refused[-1]
    deep = lbox.get_tree("/deep", tmp_path / "deep", cap=1000)
    assert deep.files == 0
    assert "deeper than 64 folders" in deep.refused[0]


def test_what_root_locked_away(lbox: LocalBox, tmp_path: Path) -> None:
    """Modes do not keep root out in a box, so they must not keep us out either, whoever we are."""
    sh(
        lbox,
        "mkdir -p /t/in/ner; echo 1 >/t/in/ner/x; echo 2 >/t/y; chmod 0 /t/in/ner/x /t/in/ner /t/in /t/y /t",
    )
    assert lbox.stat("/t/in/ner/x") is not None
    assert lbox.get("/t/in/ner/x", cap=10) == b"1\n"
    lbox.put([Entry("t/in/new", b"3"), Entry("t/y", b"4")])
    assert sh(lbox, "cat /t/in/new /t/y").stdout == b"34"
    sh(lbox, "chmod 0 /t/in/ner/x /t/in/ner /t/in /t/y /t")
    lbox.stop()
    assert lbox.get_tree("/t", tmp_path / "dest", cap=100).files == 3


@needs_users
def test_files_of_another_user(lbox: LocalBox) -> None:
    lbox.put([Entry("shared", mode=0o777)], "/")
    assert sh(lbox, "umask 077; mkdir /shared/own; echo 1 >/shared/own/x", user="nobody").exit_code == 0
    assert lbox.get("/shared/own/x", cap=10) == b"1\n"
    lbox.put([Entry("shared/own/y", b"2")])
    assert sh(lbox, "stat -c %u:%g /shared/own/x /shared/own/y").stdout == b"65534:65534\n0:0\n"


def test_socket_in_a_box(lbox: LocalBox) -> None:
    """A socket file is neither opened nor connected to."""
    if sh(lbox, "command -v python3").exit_code != 0:
        pytest.skip("nothing in this box can make a socket")
    code = "import socket; socket.socket(socket.AF_UNIX).bind('/sock')"
    assert lbox.run(["python3", "-c", code]).exit_code == 0
    assert lbox.stat("/sock").kind == "socket"  # type: ignore[union-attr]
    with pytest.raises(SandboxFailed, match="is a socket"):
        lbox.get("/sock", cap=10)
