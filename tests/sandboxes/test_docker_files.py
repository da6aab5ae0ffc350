"""Files into and out of a box, against a real engine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.docker.box import DockerBox
from pytest_rlenv.sandboxes.protocol import Entry, Extracted, Stat

pytestmark = pytest.mark.docker

Start = Callable[..., DockerBox]


def sh(box: DockerBox, script: str) -> str:
    done = box.run(["sh", "-ec", script])
    assert done.exit_code == 0, done.output
    return done.stdout.decode()


def test_put_owner_mode_and_parents(box: DockerBox) -> None:
    box.put([Entry("a/b/run.sh", b"#!/bin/sh\necho ran", 0o755), Entry("logs", mode=0o777)], "/one/two")
    box.put([Entry("/etc/own.conf", b"x")], "/")
    listing = sh(
        box, "stat -c '%n %U:%G %a %F' /one /one/two/a /one/two/a/b/run.sh /one/two/logs /etc/own.conf"
    )
    assert listing.splitlines() == [
        "/one root:root 755 directory",
        "/one/two/a root:root 755 directory",
        "/one/two/a/b/run.sh root:root 755 regular file",
        "/one/two/logs root:root 777 directory",
        "/etc/own.conf root:root 644 regular file",
    ]
    assert sh(box, "/one/two/a/b/run.sh") == "ran\n"


def test_put_leaves_existing_folders_as_they_are(box: DockerBox) -> None:
    sh(box, "mkdir -p /app && chown 1001:1001 /app && chmod 700 /app")
    box.put([Entry("app/f", b""), Entry("tmp/f", b"")], "/")
    assert sh(box, "stat -c '%u %a' /app /tmp") == "1001 700\n0 1777\n"


def test_put_overwrites(box: DockerBox) -> None:
    box.put([Entry("f", b"first, and longer")], "/d")
    box.put([Entry("f", b"second")], "/d")
    assert box.get("/d/f", cap=100) == b"second"


def test_put_nothing(box: DockerBox) -> None:
    box.put([], "/nowhere")
    assert box.stat("/nowhere") is None


def test_put_names(box: DockerBox) -> None:
    names = ["ümlaut.txt", "with space", "n" * 200, "/".join(["deep" * 20] * 4), "new\nline"]
    box.put([Entry(name, name.encode()) for name in names], "/names")
    for name in names:
        assert box.get(f"/names/{name}", cap=1000) == name.encode()


def test_put_many_and_large(box: DockerBox, tmp_path: Path) -> None:
    source = tmp_path / "large"
    size = 20_000_003
    source.write_bytes(os.urandom(1000) * (size // 1000) + b"end")
    entries = [Entry(f"d/{n}", b"%d" % n * 100) for n in range(1000)]
    box.put([*entries, Entry("large", source=source), Entry("last", b"there")], "/data")
    assert sh(box, "ls /data/d | wc -l; stat -c %s /data/large; cat /data/last") == f"1000\n{size}\nthere"
    assert box.get("/data/large", cap=size) == source.read_bytes()


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/../x"])
def test_put_does_not_leave_its_destination(path: str, box: DockerBox) -> None:
    with pytest.raises(SandboxFailed, match="refusing to write"):
        box.put([Entry(path, b"")], "/d")


def test_put_of_a_source_that_is_not_there(box: DockerBox, tmp_path: Path) -> None:
    with pytest.raises(SandboxFailed, match=r"cannot read .*gone"):
        box.put([Entry("x", source=tmp_path / "gone")], "/d")
    assert box.run(["true"]).exit_code == 0


def test_put_follows_links_within_the_box_only(box: DockerBox, tmp_path: Path) -> None:
    """What an agent left at a target redirects what is put there: so callers remove the target first."""
    sh(box, "mkdir /elsewhere; ln -s /elsewhere /tests; ln -s ../../../../../../.. /up")
    box.put([Entry("test.sh", b"x")], "/tests")
    assert box.stat("/elsewhere/test.sh") is not None
    box.put([Entry("rlenv-escape", b"x")], "/up")
    assert box.get("/rlenv-escape", cap=1) == b"x"
    assert not Path("/rlenv-escape").exists()
    sh(box, "rm -rf /tests")
    box.put([Entry("test.sh", b"x")], "/tests")
    assert box.stat("/tests") == Stat("directory", 4096, 0o755)


@pytest.mark.parametrize(
    ("make", "kind", "target"),
    [
        ("echo 12345 >$p; chmod 640 $p", "file", ""),
        ("mkdir $p", "directory", ""),
        ("ln -s /etc/passwd $p", "symlink", "/etc/passwd"),
        ("ln -s nowhere $p", "symlink", "nowhere"),
        ("mkfifo $p", "fifo", ""),
        ("perl -MSocket -e 'socket(S,1,1,0) and bind(S,sockaddr_un(shift)) or die $!' $p", "socket", ""),
        ("cp -a /dev/null $p", "device", ""),
    ],
)
def test_stat(make: str, kind: str, target: str, box: DockerBox) -> None:
    if kind == "device":
        found = box.stat("/dev/null")  # making one is not allowed in a box
    else:
        sh(box, f"p=/thing; {make}")
        found = box.stat("/thing")
    assert found is not None
    assert (found.kind, found.target.rpartition("/")[2]) == (kind, target.rpartition("/")[2])
    if kind == "file":
        assert (found.size, found.mode) == (6, 0o640)


@pytest.mark.parametrize(
    "path", ["/nope", "/nope/deeper", "/etc/passwd/x", "/etc/passwd/x/y", "/proc/1/cmdline"]
)
def test_stat_of_nothing(path: str, box: DockerBox) -> None:
    assert box.stat(path) is None
    with pytest.raises(SandboxFailed, match=f"there is no {path} in the box"):
        box.get(path, cap=10)


def test_get_takes_regular_files_only(box: DockerBox) -> None:
    sh(box, "mkdir /d; ln -s /etc/shadow /link; mkfifo /pipe")
    for path, kind in (("/d", "directory"), ("/link", "symlink"), ("/pipe", "fifo"), ("/dev/zero", "device")):
        with pytest.raises(SandboxFailed, match=f"{path} in the box is a {kind}"):
            box.get(path, cap=100)


def test_get_respects_its_cap(box: DockerBox) -> None:
    sh(box, "printf 12345 >/f; truncate -s 1G /sparse; : >/empty")
    assert box.get("/f", cap=5) == b"12345"
    assert box.get("/empty", cap=0) == b""
    with pytest.raises(SandboxFailed, match="5 bytes, more than the 4"):
        box.get("/f", cap=4)
    begin = time.monotonic()
    with pytest.raises(SandboxFailed, match="1073741824 bytes"):
        box.get("/sparse", cap=64 * 1024)
    assert time.monotonic() - begin < 5, "the file's bytes were read"


def test_get_tree_takes_files_and_refuses_the_rest(box: DockerBox, tmp_path: Path) -> None:
    sh(
        box,
        "mkdir -p /logs/sub/empty; cd /logs; echo 1 >reward.txt; echo '#!' >sub/run; chmod 4755 sub/run;"
        "chmod 600 reward.txt; ln -s /etc/passwd abs; ln -s ../../../../etc up; mkfifo pipe;"
        "ln reward.txt zhard; printf x >'sub/new\nline'; truncate -s 10 .hidden; chmod 000 sub/empty",
    )
    got = box.get_tree("/logs", tmp_path / "out", cap=10_000)
    files = {str(p.relative_to(tmp_path / "out")): p for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert set(files) == {"reward.txt", "sub/run", "sub/new\nline", ".hidden"}
    assert not any(path.is_symlink() for path in (tmp_path / "out").rglob("*"))
    assert files["sub/run"].stat().st_mode & 0o7777 == 0o755
    assert files["reward.txt"].stat().st_mode & 0o7777 == 0o644
    assert (tmp_path / "out" / "sub" / "empty").is_dir()
    assert got.files == 4
    assert sorted(got.refused) == [
        "abs: a link to /etc/passwd",
        "pipe: neither a file nor a folder",
        "up: a link to ../../../../etc",
        "zhard: a link to logs/reward.txt",
    ]


def test_get_tree_of_nothing_a_file_and_a_link(box: DockerBox, tmp_path: Path) -> None:
    sh(box, "echo one >/file; ln -s /etc /link")
    assert box.get_tree("/nope", tmp_path / "a", cap=10) == Extracted()
    assert box.get_tree("/file", tmp_path / "b", cap=10) == Extracted(files=1, bytes=4)
    assert (tmp_path / "b" / "file").read_text() == "one\n"
    assert box.get_tree("/link", tmp_path / "c", cap=10).refused == ["link: a link to /etc"]


def test_get_tree_skips_what_is_too_large(box: DockerBox, tmp_path: Path) -> None:
    sh(box, "mkdir /d; head -c 60000 /dev/zero >/d/a; head -c 60000 /dev/zero >/d/b; echo c >/d/c")
    got = box.get_tree("/d", tmp_path / "out", cap=100_000)
    assert (got.files, got.bytes) == (2, 60_002)
    assert got.refused == ["b: 60000 bytes go over the cap of 100000"]


def test_get_tree_stops_before_a_huge_file(box: DockerBox, tmp_path: Path) -> None:
    sh(box, "mkdir /d; echo a >/d/a; truncate -s 50G /d/b; echo c >/d/c")
    begin = time.monotonic()
    got = box.get_tree("/d", tmp_path / "out", cap=100_000)
    assert (got.files, got.refused) == (
        1,
        [f"b: {50 << 30} bytes go over the cap of 100000; the rest is left out"],
    )
    assert time.monotonic() - begin < 20, "the file's bytes were read"
    assert box.run(["true"]).exit_code == 0


def test_get_tree_counts_files_and_depth(box: DockerBox, tmp_path: Path) -> None:
    deep = "/deep/" + "/".join(["d"] * 80)
    sh(box, f"mkdir -p /many {deep}; cd /many; for i in $(seq 50); do echo $i >$i; done; echo x >{deep}/x")
    got = box.get_tree("/many", tmp_path / "many", cap=10_000, max_files=20)
    assert (got.files, len(got.refused)) == (20, 1)
    assert "more than 20 files" in got.refused[0]
    got = box.get_tree("/deep", tmp_path / "deep", cap=10_000)
    assert got.files == 0
    assert "deeper than 64 folders" in got.refused[0]


def test_get_tree_lists_a_bounded_number_of_refusals(box: DockerBox, tmp_path: Path) -> None:
    sh(box, "mkdir /d; cd /d; for i in $(seq 300); do ln -s x $i; done")
    got = box.get_tree("/d", tmp_path / "out", cap=10)
    assert len(got.refused) == 101
    assert got.refused[-1] == "(more were left out)"


def test_get_tree_from_a_stopped_box(box: DockerBox, tmp_path: Path) -> None:
    sh(box, "mkdir /d; echo a >/d/a")
    box.stop()
    assert box.get_tree("/d", tmp_path, cap=10).files == 1


def test_get_tree_into_what_is_no_folder(box: DockerBox, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SandboxFailed, match="cannot make the folder"):
        box.get_tree("/etc", tmp_path / "file" / "x", cap=10)


def test_full_disk_here(box: DockerBox) -> None:
    from pytest_rlenv.errors import DiskFull

    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this machine")
    sh(box, "mkdir /d; echo a >/d/full")
    with pytest.raises(DiskFull):
        box.get_tree("/d", Path("/dev"), cap=10)
