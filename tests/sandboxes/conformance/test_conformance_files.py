"""Files into and out of a box, whose inhabitants may be hostile."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.boxes import ok, sh

from pytest_rlenv.errors import DiskFull, SandboxFailed
from pytest_rlenv.sandboxes.model import Entry, Extracted, Stat
from pytest_rlenv.sandboxes.protocol import Box, Sandbox

Start = Callable[..., Box]

SECRET = "secret of this machine"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of this machine that links in a box point at, by its path here."""
    file = tmp_path / "host" / "secret"
    file.parent.mkdir()
    file.write_text(SECRET)
    return file


# ---- in


def test_put_owners_modes_and_parents(box: Box, place: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"from a file" * 1000)
    entries = [
        Entry("deep/er/file", b"bytes", 0o640),
        Entry("deep/run.sh", b"#!/bin/sh\necho ran", 0o755),
        Entry("folder", mode=0o1777),
        Entry("./dotted", source=source, mode=0o600),
        Entry("/rooted", b"", 0o4755),
    ]
    box.put(entries, f"{place}/new")
    assert box.get(f"{place}/new/deep/er/file", cap=5) == b"bytes"
    assert box.get(f"{place}/new/dotted", cap=100_000) == source.read_bytes()
    assert ok(
        box, "stat -c '%n %a %u:%g %F' new new/* new/deep/*; new/deep/run.sh", cwd=place
    ).splitlines() == [
        "new 755 0:0 directory",
        "new/deep 755 0:0 directory",
        "new/dotted 600 0:0 regular file",
        "new/folder 1777 0:0 directory",
        "new/rooted 4755 0:0 regular empty file",
        "new/deep/er 755 0:0 directory",
        "new/deep/run.sh 755 0:0 regular file",
        "ran",
    ]


def test_put_leaves_existing_folders_as_they_are(box: Box, place: str) -> None:
    ok(box, "mkdir -m 701 a; mkdir -m 1777 b", cwd=place)
    box.put([Entry("a/f", b""), Entry("b/f", b"")], place)
    assert ok(box, "stat -c %a a b", cwd=place) == "701\n1777\n"


def test_put_replaces_what_is_there(box: Box, place: str) -> None:
    script = "mkdir e d; echo >d/x; ln -s e link; ln -s e dlink; echo longer >file; chmod 600 file; echo >was"
    ok(box, f"{script}; mkfifo fifo; ln -s /etc/hostname tofile", cwd=place)
    before = box.get("/etc/hostname", cap=1000)
    files = {"link/x": b"in e", "file": b"new", "fifo": b"no pipe", "tofile": b"no link", "d": b"no folder"}
    box.put([*(Entry(name, content) for name, content in files.items())], place)
    box.put([Entry("dlink", mode=0o700), Entry("was", mode=0o755)], place)
    assert {name: box.get(f"{place}/{name}", cap=100) for name in files if "/" not in name} == {
        name: content for name, content in files.items() if "/" not in name
    }
    assert box.get(f"{place}/e/x", cap=100) == b"in e"  # parents are followed, inside
    assert (
        ok(box, "stat -c '%F %a' file dlink was", cwd=place)
        == "regular file 644\ndirectory 700\ndirectory 755\n"
    )
    assert box.get("/etc/hostname", cap=1000) == before


def test_put_over_a_folder_keeps_what_is_in_it(box: Box, place: str) -> None:
    ok(box, "mkdir d; echo kept >d/x", cwd=place)
    box.put([Entry("d", mode=0o700)], place)
    assert ok(box, "stat -c %a d; cat d/x", cwd=place) == "700\nkept\n"


def test_put_of_a_file_and_then_a_folder_leaves_it_with_nothing_else(box: Box, place: str) -> None:
    ok(
        box,
        "mkdir -p d/deep e; echo >d/x; echo >d/deep/.y; ln -s e link; echo kept >e/z; chmod 500 d",
        cwd=place,
    )
    afresh = [Entry(name, b"") for name in ("d", "link", "new")]
    box.put([*afresh, *(Entry(e.path, mode=0o755) for e in afresh), Entry("d/tests/t", b"1")], place)
    assert ok(box, "find d link new | sort; stat -c '%F %a' d link; cat e/z", cwd=place) == (
        "d\nd/tests\nd/tests/t\nlink\nnew\ndirectory 755\ndirectory 755\nkept\n"
    )


def test_a_watched_folder_is_empty_until_something_is_in_it(start: Start, tmp_path: Path) -> None:
    def names(path: str, where: str) -> list[str]:
        return [entry.path for entry in box.get_tree(path, tmp_path / where, cap=100).entries]

    watched = [Entry(f"w/{name}", mode=0o777, watched=True) for name in ("a", "b", "c", "d")]
    box = start(entries=tuple(watched))
    box.put([Entry("c/put", b"x")], "/w")
    assert names("/w/a", "1") == [""]
    ok(box, "echo >b/new; mkdir a/folder; rm -r d; ln -s b d", cwd="/w")
    assert names("/w/a", "2") == ["", "folder"]
    assert names("/w/b", "3") == ["", "new"]
    assert names("/w/c", "4") == ["", "put"]
    assert box.get_tree("/w/d", tmp_path / "5", cap=100).refused  # a link, not followed
    box.put(watched)  # as between the steps of a task: what is in them stays
    assert names("/w/b", "6") == ["", "new"]
    assert sorted(names("/w/a", "7")) == ["", "folder"]


def test_a_watched_folder_of_the_image_is_looked_into(start: Start, tmp_path: Path) -> None:
    box = start(entries=(Entry("etc", mode=0o755, watched=True),))
    assert "passwd" in [entry.path for entry in box.get_tree("/etc", tmp_path, cap=10_000_000).entries]


def test_get_tree_of_links_that_lead_to_each_other(box: Box, place: str, tmp_path: Path) -> None:
    ok(box, "ln -s loop loop", cwd=place)
    found = box.get_tree(f"{place}/loop", tmp_path / "1", cap=100)
    assert len(found.refused) == 1
    assert found.refused[0].startswith("loop: ")
    assert not box.get_tree(f"{place}/loop/below", tmp_path / "2", cap=100).files


def test_put_nothing(box: Box) -> None:
    box.put([], "/nowhere")
    assert box.stat("/nowhere") is None


def test_put_names(box: Box, place: str) -> None:
    names = [
        "ümlaut.txt",
        "with space",
        "n" * 200,
        "/".join(["deep" * 20] * 4),
        "new\nline",
        "-dash",
    ]
    box.put([Entry(name, os.fsencode(name)) for name in names], place)
    for name in names:
        assert box.get(f"{place}/{name}", cap=1000) == os.fsencode(name)


def test_a_name_that_is_no_text(box: Box, place: str, tmp_path: Path) -> None:
    box.put([Entry("a\udcffb", b"x")], place)
    assert box.stat(f"{place}/a\udcffb") == Stat("file", 1, 0o644)
    box.get_tree(place, tmp_path / "out", cap=10)
    assert members(tmp_path / "out") == {"a\udcffb": "x"}


def test_put_many_and_large(box: Box, place: str, tmp_path: Path) -> None:
    source = tmp_path / "large"
    size = 20_000_003
    source.write_bytes(os.urandom(1000) * (size // 1000) + b"end")
    entries = [Entry(f"d/{n}", b"%d" % n * 100) for n in range(1000)]
    box.put([*entries, Entry("large", source=source), Entry("last", b"there")], place)
    assert ok(box, "ls d | wc -l; stat -c %s large; cat last", cwd=place) == f"1000\n{size}\nthere"
    assert box.get(f"{place}/large", cap=size) == source.read_bytes()


def test_put_owner_time_and_link(box: Box, place: str, sandbox: Sandbox) -> None:
    owner = {"uid": 1234, "gid": 77} if sandbox.capabilities.users else {}
    box.put([Entry("f", b"x", mtime=1_234_567_890, **owner), Entry("l", link="../nowhere")], place)
    ids = "1234:77" if owner else "0:0"
    assert ok(box, "stat -c '%u:%g %Y' f; readlink l", cwd=place) == f"{ids} 1234567890\n../nowhere\n"


@pytest.mark.parametrize(
    ("path", "dest"),
    [("../x", "/t"), ("a/../../x", "/t"), ("/../x", "/t"), ("x", "/t/.."), ("a\0b", "/t"), ("x", "/t\0")],
)
def test_put_stays_below_its_destination(path: str, dest: str, box: Box) -> None:
    with pytest.raises(SandboxFailed, match="refusing to write"):
        box.put([Entry(path, b"")], dest)


@pytest.mark.parametrize("source", ["gone", "."])
def test_put_of_a_source_that_cannot_be_read(source: str, box: Box, place: str, tmp_path: Path) -> None:
    with pytest.raises(SandboxFailed, match=f"cannot read {tmp_path}.* to put it into the box: "):
        box.put([Entry("x", source=tmp_path / source)], place)
    assert box.run(["true"]).exit_code == 0


@pytest.mark.parametrize(
    ("script", "path", "why"),
    [
        ("echo >f", "f/x", "not a directory"),
        ("ln -s l l", "l/x", "too many levels of symbolic links"),
        (":", "n" * 300, "file ?name too long"),
    ],
    ids=["file", "loop", "name"],
)
def test_put_where_something_is_in_the_way(script: str, path: str, why: str, box: Box, place: str) -> None:
    ok(box, script, cwd=place)
    with pytest.raises(SandboxFailed, match=f"(?i){why}"):
        box.put([Entry(path, b"")], place)


# ---- a look


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        ("printf 12345 >x; chmod 4640 x", Stat("file", 5, 0o640)),
        ("ln -s /etc/passwd x", Stat("symlink", 11, 0o777, "/etc/passwd")),
        ("ln -s /no/where x", Stat("symlink", 9, 0o777, "/no/where")),
        ("mkfifo x", Stat("fifo", 0, 0o644)),
        ("""perl -e 'socket(S,1,1,0) and bind(S,pack("Sa*",1,"x")) or die $!'""", Stat("socket", 0, 0o755)),
        ("echo >x; ln x y; rm x; mv y x", Stat("file", 1, 0o644)),
        (":", None),
    ],
    ids=["file", "link", "dangling", "fifo", "socket", "moved", "nothing"],
)
def test_stat(make: str, expected: Stat | None, box: Box, place: str) -> None:
    ok(box, make, cwd=place)
    assert box.stat(f"{place}/x") == expected


def test_stat_of_folders_and_devices(box: Box, place: str) -> None:
    ok(box, "mkdir -m 1751 d; ln -s d l", cwd=place)
    folder = box.stat(f"{place}/d")
    assert folder is not None
    assert (folder.kind, folder.mode, folder.target) == ("directory", 0o751, "")
    for path, kind in (("/", "directory"), ("/dev/null", "device"), (f"{place}/l/", "symlink")):
        found = box.stat(path)
        assert found is not None
        assert found.kind == kind


@pytest.mark.parametrize(
    "path", ["/nope", "/nope/deeper", "/etc/passwd/x", "/etc/passwd/x/y", "/" + "n" * 300, "/a\0b", "/link/x"]
)
def test_nothing_is_there(path: str, box: Box, tmp_path: Path) -> None:
    if path.startswith("/link"):
        ok(box, "ln -sf nowhere /link")
    assert box.stat(path) is None
    with pytest.raises(SandboxFailed, match="there is no ") as caught:
        box.get(path, cap=10)
    assert path in caught.value.message
    assert box.get_tree(path, tmp_path / "out", cap=10) == Extracted()


def test_a_link_to_itself(box: Box, place: str) -> None:
    ok(box, "ln -s loop loop", cwd=place)
    found = box.stat(f"{place}/loop")
    assert found is not None
    assert found.kind == "symlink"
    with pytest.raises(SandboxFailed, match="loop in the box is a symlink, not a regular file"):
        box.get(f"{place}/loop", cap=10)


# ---- one file out


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("mkdir x", "/x in the box is a directory, not a regular file"),
        ("mkfifo x", "/x in the box is a fifo, not a regular file"),
        ("ln -s /etc/passwd x", "/x in the box is a symlink, not a regular file"),
        ("head -c 101 /dev/zero >x", "/x in the box has 101 bytes, more than the 100 that are accepted"),
        ("truncate -s 10G x", "/x in the box has 10737418240 bytes"),
    ],
    ids=["directory", "fifo", "symlink", "large", "sparse"],
)
def test_get_refuses(script: str, message: str, box: Box, place: str) -> None:
    ok(box, script, cwd=place)
    with pytest.raises(SandboxFailed, match=message):
        box.get(f"{place}/x", cap=100)


def test_get_of_a_device(box: Box) -> None:
    with pytest.raises(SandboxFailed, match="/dev/zero in the box is a device"):
        box.get("/dev/zero", cap=100)


def test_get_up_to_its_cap(box: Box, place: str) -> None:
    ok(box, "printf 12345 >f; : >empty", cwd=place)
    assert box.get(f"{place}/f", cap=5) == b"12345"
    assert box.get(f"{place}/empty", cap=0) == b""


def test_what_root_locked_away(box: Box, place: str, tmp_path: Path) -> None:
    """Modes do not keep root out in a box, so they must not keep us out either, whoever we are."""
    script = "mkdir -p t/in/ner; echo 1 >t/in/ner/x; echo 2 >t/y; chmod 0 t/in/ner/x t/in/ner t/in t/y t"
    ok(box, script, cwd=place)
    assert box.stat(f"{place}/t/in/ner/x") is not None
    assert box.get(f"{place}/t/in/ner/x", cap=10) == b"1\n"
    box.put([Entry("t/in/new", b"3"), Entry("t/y", b"4")], place)
    assert ok(box, "cat t/in/new t/y; chmod 0 t/in/ner/x t/in/ner t/in t/y t", cwd=place) == "34"
    assert box.get_tree(f"{place}/t", tmp_path / "out", cap=100).files == 3


# ---- a folder out


def members(folder: Path) -> dict[str, str]:
    return {str(each.relative_to(folder)): each.read_text() for each in folder.rglob("*") if each.is_file()}


def test_tree_takes_files_and_refuses_the_rest(box: Box, place: str, tmp_path: Path) -> None:
    ok(
        box,
        "mkdir -p sub/empty a/b; echo 1 >reward.txt; echo '#!' >sub/run; chmod 4755 sub/run;"
        "chmod 600 reward.txt; ln -s /etc/passwd abs; ln -s ../../../../etc up; mkfifo pipe;"
        "ln reward.txt zhard;"
        "printf x >'sub/new\nline'; truncate -s 10 .hidden; chmod 000 sub/empty; echo 22 >a/b/two",
        cwd=place,
    )
    out = tmp_path / "out"
    got = box.get_tree(place, out, cap=10_000)
    assert members(out) == {
        ".hidden": "\0" * 10,
        "a/b/two": "22\n",
        "reward.txt": "1\n",
        "sub/new\nline": "x",
        "sub/run": "#!\n",
        "zhard": "1\n",
    }
    assert not any(path.is_symlink() for path in out.rglob("*"))
    modes = {name: (out / name).stat().st_mode & 0o7777 for name in ("sub/run", "reward.txt", "sub/empty")}
    assert modes == {"sub/run": 0o755, "reward.txt": 0o644, "sub/empty": 0o755}
    assert (got.files, got.bytes, got.over_cap) == (6, 21, False)
    assert sorted(got.refused) == [
        "abs: a link to /etc/passwd",
        "pipe: a fifo, neither a file nor a folder",
        "up: a link to ../../../../etc",
    ]


def test_tree_tells_what_was_found(box: Box, place: str, tmp_path: Path, sandbox: Sandbox) -> None:
    """So that it can be put elsewhere as it was."""
    ok(
        box,
        "mkdir -m 1751 d; echo 1 >d/f; chmod 640 d/f; touch -d @1234567890 d/f; ln -s ../x d/l",
        cwd=place,
    )
    if sandbox.capabilities.users:
        ok(box, "chown -h 1234:77 d/f d/l", cwd=place)
    owner = (1234, 77) if sandbox.capabilities.users else (0, 0)
    got = box.get_tree(place, tmp_path / "out", cap=100)
    found = {each.path: each for each in got.entries}
    assert sorted(found) == ["", "d", "d/f", "d/l"]
    file, link = found["d/f"], found["d/l"]
    assert (file.mode, file.uid, file.gid, file.mtime, file.source) == (
        *(0o640, *owner, 1234567890),
        tmp_path / "out" / "d/f",
    )
    assert (link.link, link.uid, link.gid) == ("../x", *owner)
    assert (found["d"].is_dir, found["d"].mode) == (True, 0o1751)


def test_tree_leaves_out_what_it_is_told_to(box: Box, place: str, tmp_path: Path) -> None:
    ok(box, "mkdir -p keep skip/deep; echo 1 >keep/a; echo 2 >keep/b.log; echo 3 >skip/deep/c", cwd=place)
    got = box.get_tree(
        place, tmp_path / "out", cap=100, skip=lambda name: name == "skip" or name.endswith(".log")
    )
    assert members(tmp_path / "out") == {"keep/a": "1\n"}
    assert (got.files, got.refused) == (1, [])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("one", Extracted(files=1, bytes=2)),
        ("link", Extracted(refused=["link: a link to /etc"])),
        ("link/", Extracted(refused=["link: a link to /etc"])),
        ("fifo", Extracted(refused=["fifo: a fifo, neither a file nor a folder"])),
    ],
)
def test_tree_of_what_is_no_folder(
    path: str, expected: Extracted, box: Box, place: str, tmp_path: Path
) -> None:
    ok(box, "echo 1 >one; ln -s /etc link; mkfifo fifo", cwd=place)
    assert box.get_tree(f"{place}/{path}", tmp_path / "out", cap=1000) == expected
    assert members(tmp_path / "out") == ({"one": "1\n"} if expected.files else {})


def test_tree_takes_what_comes_first_by_name(box: Box, place: str, tmp_path: Path) -> None:
    ok(box, "for i in c b a; do head -c 60000 /dev/zero >$i; done; echo d >d", cwd=place)
    got = box.get_tree(place, tmp_path / "out", cap=100_000)
    assert (sorted(members(tmp_path / "out")), got.bytes, got.over_cap) == (["a", "d"], 60_002, True)
    assert got.refused == [f"{name}: 60000 bytes go over the cap of 100000" for name in "bc"]


def test_tree_does_not_read_a_huge_file(box: Box, place: str, tmp_path: Path) -> None:
    """Where it has to be read to get at what is behind it, that is left out too, and said to be."""
    ok(box, "echo a >a; truncate -s 50G b; echo c >c", cwd=place)
    got = box.get_tree(place, tmp_path / "out", cap=100_000)
    assert got.over_cap
    assert members(tmp_path / "out").items() >= {"a": "a\n"}.items()
    (line,) = got.refused
    assert line.startswith(f"b: {50 << 30} bytes go over the cap of 100000")
    assert ("c" in members(tmp_path / "out")) is not line.endswith("the rest is left out")


def test_tree_within_its_limits(box: Box, place: str, tmp_path: Path) -> None:
    deep = "/".join(["d"] * 64)
    script = f"mkdir -p many {deep}/d; for i in $(seq 10 59); do echo >many/$i; done"
    script += f"; echo >{deep}/x; echo >{deep}/d/y"
    ok(box, script, cwd=place)
    many = box.get_tree(f"{place}/many", tmp_path / "many", cap=10_000, max_files=20)
    assert sorted(members(tmp_path / "many")) == [str(number) for number in range(10, 30)]
    assert many.over_cap
    assert many.refused == ["30: more than 20 files; the rest is left out"]
    got = box.get_tree(place, tmp_path / "deep", cap=10_000)
    assert got.files == 51
    assert (tmp_path / "deep" / deep / "x").exists()
    assert got.refused == [f"{deep}/d: deeper than 64 folders"]


def test_tree_lists_a_bounded_number_of_refusals(box: Box, place: str, tmp_path: Path) -> None:
    ok(box, "for i in $(seq 110); do ln -s x $i; done", cwd=place)
    got = box.get_tree(place, tmp_path / "out", cap=10)
    assert len(got.refused) == 101
    assert got.refused[-1] == "(more were left out)"


def test_tree_into_what_is_no_folder(box: Box, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SandboxFailed, match="cannot make the folder"):
        box.get_tree("/etc", tmp_path / "file" / "x", cap=10)


def test_tree_to_a_full_disk(box: Box, place: str) -> None:
    if not os.access("/dev/full", os.W_OK):
        pytest.skip("no /dev/full on this machine")
    ok(box, "echo a >full", cwd=place)
    with pytest.raises(DiskFull):
        box.get_tree(place, Path("/dev"), cap=10)


# ---- links that point out of the box


@pytest.mark.parametrize(
    "link",
    ["{path}", "/proc/1/root{path}", "../../../../../../../../../..{path}"],
    ids=["path", "proc", "up"],
)
def test_links_lead_nowhere_out_of_the_box(
    link: str, box: Box, place: str, secret: Path, tmp_path: Path
) -> None:
    """Neither as the thing itself nor as one of its parents, in either direction."""
    folder = link.format(path=secret.parent)
    ok(box, f"ln -s {link.format(path=secret)} file; ln -s {folder} folder", cwd=place)
    for path in (f"{place}/file", f"{place}/folder/secret"):
        with pytest.raises(SandboxFailed):
            box.get(path, cap=1000)
    assert box.stat(f"{place}/folder/secret") is None
    got = box.get_tree(place, tmp_path / "out", cap=10_000)
    assert members(tmp_path / "out") == {}
    assert any(line.startswith("folder: a link to") for line in got.refused)
    # it may refuse: there is no such folder in the box, and none is made through a link of /proc
    with contextlib.suppress(SandboxFailed):
        box.put([Entry("folder/secret", b"overwritten"), Entry("folder/planted", b"x")], place)
    box.put([Entry("file", b"mine")], place)
    assert secret.read_text() == SECRET
    assert [each.name for each in secret.parent.iterdir()] == ["secret"]


def test_a_link_as_the_destination_is_followed_inside(box: Box, place: str) -> None:
    """What an agent left at a target redirects what is put there: so callers remove the target first."""
    ok(box, "mkdir elsewhere; ln -s $PWD/elsewhere tests; ln -s ../../../../../../.. up", cwd=place)
    box.put([Entry("test.sh", b"x")], f"{place}/tests")
    assert box.get(f"{place}/elsewhere/test.sh", cap=1) == b"x"
    name = f"rlenv-escape-{os.getpid()}"
    box.put([Entry(name, b"x")], f"{place}/up")
    assert box.get(f"/{name}", cap=1) == b"x"
    assert not Path("/", name).exists()
    sh(box, f"rm -rf /{name} tests", cwd=place)
    box.put([Entry("test.sh", b"x")], f"{place}/tests")
    assert ok(box, "stat -c '%F %a' tests", cwd=place) == "directory 755\n"


def test_files_of_another_user(box: Box, place: str, sandbox: Sandbox) -> None:
    if not sandbox.capabilities.users:
        pytest.skip("no other users: the commands' tests have their refusal")
    box.put([Entry("shared", mode=0o777)], place)
    ok(box, "umask 077; mkdir shared/own; echo 1 >shared/own/x", user="nobody", cwd=place)
    assert box.get(f"{place}/shared/own/x", cap=10) == b"1\n"
    box.put([Entry("shared/own/y", b"2")], place)
    assert ok(box, "stat -c %u:%g shared/own/x shared/own/y", cwd=place) == "65534:65534\n0:0\n"
