"""Commands in a box, in both modes; the same cases as for Docker's boxes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.local_boxes import HANG_GUARD, eventually, needs_users, processes, sh

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.local import LocalBox, LocalSandbox
from pytest_rlenv.sandboxes.protocol import Entry

Start = Callable[..., LocalBox]


@pytest.mark.parametrize("code", [0, 1, 2, 42, 124, 126, 127, 128, 137, 143, 255])
def test_exit_codes_are_the_commands_own(code: int, lbox: LocalBox) -> None:
    done = sh(lbox, f"exit {code}")
    assert (done.exit_code, done.timed_out, done.oom_killed) == (code, False, None)


def test_streams_are_separate_and_whole(lbox: LocalBox) -> None:
    done = sh(lbox, "printf out; sleep 0.1; printf err >&2; sleep 0.1; printf more")
    assert (done.stdout, done.stderr, done.output, done.output_bytes) == (
        b"outmore",
        b"err",
        b"outerrmore",
        10,
    )


def test_stdin_is_empty(lbox: LocalBox) -> None:
    done = lbox.run(["cat"], timeout=HANG_GUARD)
    assert (done.exit_code, done.stdout, done.timed_out) == (0, b"", False)


def test_a_command_inherits_nothing_but_its_streams(lbox: LocalBox) -> None:
    listed = lbox.run(["bash", "-c", "echo /proc/self/fd/*"]).stdout.split()
    # 3 is the folder that the shell is just listing
    assert {each.rpartition(b"/")[2] for each in listed} <= {b"0", b"1", b"2", b"3"}


@needs_users
@pytest.mark.parametrize(
    ("user", "ids"),
    [
        (None, b"0 0 0"),
        ("nobody", b"65534 65534 65534"),
        (1234, b"1234 0 0"),
        ("1234:77", b"1234 77 77"),
        ("daemon", b"1 1 1"),
        (0, b"0 0 0"),
    ],
)
def test_users(user: str | int | None, ids: bytes, lbox: LocalBox) -> None:
    assert sh(lbox, "echo $(id -u) $(id -g) $(id -G)", user=user).stdout.strip() == ids


@needs_users
def test_home_is_the_users(lbox: LocalBox) -> None:
    assert sh(lbox, "echo $HOME").stdout == b"/root\n"
    assert sh(lbox, "echo $HOME", user="daemon").stdout == b"/usr/sbin\n"
    assert sh(lbox, "echo $HOME", user=4321).stdout == b"/\n"


@needs_users
def test_another_user_has_no_capabilities(lbox: LocalBox) -> None:
    lines = sh(lbox, "grep -E '^Cap(Prm|Eff|Inh|Amb)' /proc/self/status", user="nobody").stdout.split()
    assert set(lines[1::2]) == {b"0" * 16}


def test_root_by_any_name(lbox: LocalBox) -> None:
    for name in ("root", 0, "0", "0:0", "root:root"):
        assert lbox.run(["id", "-u"], user=name).stdout == b"0\n"


def test_env_of_box_and_command(start_local: Start) -> None:
    box = start_local(env={"FROM_BOX": "a 'b' $c", "BOTH": "box"})
    done = box.run(["env"], env={"BOTH": "command", "EMPTY": "", "LINES": "1\n2"})
    lines = done.stdout.decode().splitlines()
    assert {"FROM_BOX=a 'b' $c", "BOTH=command", "EMPTY=", "LINES=1", "2"} <= set(lines)
    assert "BOTH=box" not in lines


def test_workdir_of_box_and_command(start_local: Start) -> None:
    box = start_local(workdir="/usr/share")
    assert box.run(["pwd"]).stdout == b"/usr/share\n"
    assert box.run(["pwd"], cwd="/tmp").stdout == b"/tmp\n"


def test_workdir_is_not_made(start_local: Start) -> None:
    box = start_local(workdir="/x")
    with pytest.raises(SandboxFailed, match="workdir '/x' does not exist in the image"):
        box.run(["true"])
    assert box.stat("/x") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"argv": ["no-such-command"]}, "command 'no-such-command' is not in the image"),
        ({"argv": ["/no/such"]}, "command '/no/such' is not in the image"),
        ({"argv": ["/etc/passwd"]}, "'/etc/passwd' is not executable"),
        ({"argv": ["true"], "cwd": "/nowhere"}, "workdir '/nowhere' does not exist"),
        ({"argv": ["sh", "-c", "#" * 200_000]}, "arguments of 'sh' are longer"),
        ({"argv": ["/own/crlf"]}, "names an interpreter that is not in the image"),
        ({"argv": ["/own/bare"]}, "neither a program for this machine nor a script"),
    ],
)
@pytest.mark.parametrize("user", [None, pytest.param("daemon", marks=needs_users)])
def test_a_command_that_cannot_start_is_an_error(
    options: dict[str, Any], message: str, user: str | None, lbox: LocalBox
) -> None:
    scripts = [Entry("crlf", b"#!/bin/sh\r\ntrue\r\n", 0o755), Entry("bare", b"\x00\x01 rubbish", 0o755)]
    lbox.put(scripts, "/own")
    with pytest.raises(SandboxFailed, match=message):
        lbox.run(**options, user=user)


def test_unknown_user(lbox: LocalBox) -> None:
    with pytest.raises(SandboxFailed, match="user 'ghost'"):
        lbox.run(["true"], user="ghost")


@pytest.mark.parametrize(
    ("script", "printed"),
    [
        ("sleep 1000", b""),
        ("trap '' TERM INT HUP; echo on; while :; do sleep 1; done", b"on\n"),
        ("setsid sh -c 'trap \"\" TERM; sleep 1000' & echo on; wait", b"on\n"),
        ("setsid setsid sleep 1000 >/dev/null 2>&1 & setsid nohup sleep 1000 & echo on; sleep 1000", b"on\n"),
    ],
)
def test_deadline_ends_everything(script: str, printed: bytes, lbox: LocalBox) -> None:
    begin = time.monotonic()
    done = sh(lbox, script, timeout=0.7)
    assert (done.exit_code, done.timed_out) == (None, True)
    assert done.stdout == printed
    assert 0.7 <= done.seconds <= time.monotonic() - begin < HANG_GUARD
    assert processes(lbox) == 0


def test_fork_bomb_within_its_limit(lbox: LocalBox) -> None:
    done = lbox.run(["bash", "-c", "f() { f | f & }; f; while :; do f; done 2>/dev/null"], timeout=2.0)
    assert done.seconds < HANG_GUARD
    lbox.quiesce()
    assert processes(lbox) == 0
    assert sh(lbox, "echo usable").stdout == b"usable\n"


def test_every_process_id_taken(lbox: LocalBox) -> None:
    sh(lbox, "echo kept >/file")
    done = lbox.run(["bash", "-c", "while :; do sleep 1000 & done"], timeout=8.0)
    assert b"Resource temporarily unavailable" in done.stderr
    assert done.timed_out
    assert processes(lbox) == 0
    assert sh(lbox, "cat /file").stdout == b"kept\n"


def test_much_output_in_bounded_memory(lbox: LocalBox) -> None:
    done = sh(lbox, "head -c 200000000 /dev/zero | tr '\\0' x; printf END", cap=100_000)
    assert done.exit_code == 0
    assert done.output_bytes == 200_000_003
    assert done.seconds < HANG_GUARD
    assert len(done.stdout) < 100_100
    assert done.stdout.startswith(b"x" * 50_000)
    assert done.stdout.endswith(b"xEND")
    assert done.output == done.stdout


def test_endless_output_ends_at_the_deadline(lbox: LocalBox) -> None:
    done = lbox.run(["yes"], timeout=1.0, cap=1000)
    assert done.timed_out
    assert done.output_bytes > 1_000_000
    assert done.seconds < HANG_GUARD


def test_a_service_left_behind_lives_on(lbox: LocalBox) -> None:
    done = sh(lbox, "setsid sleep 1000 >/dev/null 2>&1 & echo started")
    assert (done.exit_code, done.stdout) == (0, b"started\n")
    assert processes(lbox) == 1
    lbox.quiesce()
    assert processes(lbox) == 0


def test_a_service_may_go_on_printing_where_nobody_listens(lbox: LocalBox) -> None:
    """Far more than a pipe holds: it must neither wait for a reader nor be killed for want of one."""
    script = "(sleep 0.5; head -c 3000000 /dev/zero; echo done >/printed; sleep 1000) & echo started"
    assert sh(lbox, script, timeout=HANG_GUARD).stdout == b"started\n"
    assert eventually(lambda: lbox.stat("/printed") is not None)
    assert lbox.get("/printed", cap=10) == b"done\n"
    assert processes(lbox) >= 1


def test_last_words_of_a_filter_are_kept(lbox: LocalBox) -> None:
    done = lbox.run(["bash", "-c", "exec > >(sleep 0.05; cat); echo late"])
    assert done.stdout == b"late\n"


def test_quiesce_without_anything_to_kill(lbox: LocalBox) -> None:
    lbox.quiesce()
    lbox.quiesce()
    assert lbox.run(["true"]).exit_code == 0


def test_orphans_do_not_pile_up(lbox: LocalBox) -> None:
    """The first process of a box reaps what nobody else does."""
    sh(lbox, "for i in 1 2 3 4 5 6 7 8; do setsid sh -c 'sleep 0.05 &' ; done")
    time.sleep(0.5)
    assert b"Z" not in sh(lbox, "cat /proc/[0-9]*/stat 2>/dev/null | cut -d' ' -f3").stdout


def test_box_killed_under_a_command(lbox: LocalBox) -> None:
    kill = threading.Timer(0.5, lambda: lbox._namespace.end())
    kill.start()
    with pytest.raises(SandboxFailed, match="the box died: its first process ended"):
        lbox.run(["sleep", "1000"], timeout=HANG_GUARD)
    kill.join()
    with pytest.raises(SandboxFailed, match="the box died"):
        lbox.run(["true"])
    with pytest.raises(SandboxFailed, match="the box died"):
        lbox.quiesce()
    assert lbox.get("/etc/hostname", cap=100)


def test_command_killed_in_a_living_box(lbox: LocalBox) -> None:
    done = sh(lbox, "kill -9 $$")
    assert (done.exit_code, done.timed_out) == (137, False)


def test_first_process_cannot_be_killed_from_inside(lbox: LocalBox) -> None:
    sh(lbox, "kill -9 1; kill -9 -1")
    assert sh(lbox, "echo alive").stdout == b"alive\n"


def test_stopped_box(lbox: LocalBox) -> None:
    sh(lbox, "echo 1 >/reward; setsid sleep 1000 >/dev/null 2>&1 &")
    lbox.stop()
    lbox.stop()
    assert lbox.get("/reward", cap=10) == b"1\n"
    lbox.put([Entry("x", b"y")], "/")
    assert lbox.get("/x", cap=1) == b"y"
    with pytest.raises(SandboxFailed, match="the box was stopped before this"):
        lbox.run(["true"])


@pytest.mark.parametrize("operation", ["run", "quiesce", "get", "put", "stat", "stop", "get_tree"])
def test_destroyed_box(operation: str, lbox: LocalBox, tmp_path: Path) -> None:
    lbox.destroy()
    lbox.destroy()
    calls: dict[str, Callable[[], object]] = {
        "run": lambda: lbox.run(["true"]),
        "quiesce": lbox.quiesce,
        "get": lambda: lbox.get("/x", cap=1),
        "put": lambda: lbox.put([Entry("x", b"")]),
        "stat": lambda: lbox.stat("/x"),
        "stop": lbox.stop,
        "get_tree": lambda: lbox.get_tree("/x", tmp_path / "t", cap=1),
    }
    with pytest.raises(SandboxFailed, match="the box was destroyed before this"):
        calls[operation]()


def test_commands_from_several_threads(lbox: LocalBox) -> None:
    results: dict[int, bytes] = {}

    def run(number: int) -> None:
        results[number] = sh(lbox, f"sleep 0.2; echo {number}").stdout

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: b"%d\n" % number for number in range(6)}


def test_box_outlives_the_thread_that_started_it(start_local: Start) -> None:
    boxes: list[LocalBox] = []
    thread = threading.Thread(target=lambda: boxes.append(start_local()))
    thread.start()
    thread.join()
    assert boxes[0].run(["echo", "alive"]).stdout == b"alive\n"


def test_no_descriptors_are_left_open(start_local: Start, local: LocalSandbox) -> None:
    def use() -> None:
        box = start_local()
        sh(box, "sleep 1000 & echo x")
        box.run(["sleep", "9"], timeout=0.05)
        with pytest.raises(SandboxFailed):
            box.run(["no-such-command"])
        box.stop()
        box.destroy()

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    use()
    assert eventually(lambda: not local._parts().boxes._up)
    before = descriptors()
    for _ in range(3):
        use()
    assert eventually(lambda: not local._parts().boxes._up)
    assert descriptors() == before
