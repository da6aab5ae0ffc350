"""Commands in a box."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from support.boxes import HANG_GUARD, none_left, ok, processes, sh, together, unfit

from pytest_rlenv.errors import Unsupported
from pytest_rlenv.sandboxes.local.imageconfig import DEFAULT_PATH
from pytest_rlenv.sandboxes.model import Completed, Entry
from pytest_rlenv.sandboxes.protocol import Box, Sandbox

Start = Callable[..., Box]


# ---- how it ended


@pytest.mark.parametrize("code", [0, 1, 2, 124, 126, 127, 137, 255])
def test_exit_codes_are_the_commands_own(code: int, box: Box) -> None:
    done = sh(box, f"exit {code}")
    assert (done.exit_code, done.timed_out, done.oom_killed) == (code, False, None)


@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("KILL", 137), ("SEGV", 139)])
def test_a_command_that_a_signal_ended(name: str, code: int, box: Box) -> None:
    done = sh(box, f"kill -{name} $$")
    assert (done.exit_code, done.timed_out) == (code, False)


def test_what_a_shell_cannot_run_is_an_exit_code(box: Box) -> None:
    assert sh(box, "no-such-command").exit_code == 127
    assert sh(box, "/etc/passwd").exit_code == 126


# ---- what it printed


def test_streams_are_separate_and_in_order(box: Box) -> None:
    done = sh(box, "printf out; sleep 0.1; printf err >&2; sleep 0.1; printf more")
    assert (done.stdout, done.stderr, done.output, done.output_bytes) == (
        b"outmore",
        b"err",
        b"outerrmore",
        10,
    )


def test_output_is_bytes_cut_anywhere(box: Box) -> None:
    done = sh(box, r"printf '\377\000\342\202'; sleep 0.1; printf '\254'", cap=1000)
    assert done.stdout == b"\xff\x00\xe2\x82\xac"


def test_each_stream_is_capped_by_itself(box: Box) -> None:
    done = sh(box, "printf 0123456789; sleep 0.1; printf abcdefghij >&2", cap=4)
    assert done.stdout == b"01\n[... 6 bytes left out ...]\n89"
    assert done.stderr == b"ab\n[... 6 bytes left out ...]\nij"
    assert done.output == b"01\n[... 16 bytes left out ...]\nij"
    assert done.output_bytes == 20


def test_much_output_in_bounded_memory(box: Box) -> None:
    done = sh(box, "head -c 100000000 /dev/zero | tr '\\0' x; printf END", cap=100_000)
    assert done.exit_code == 0
    assert done.output_bytes == 100_000_003
    assert len(done.stdout) < 100_100
    assert done.stdout.startswith(b"x" * 50_000)
    assert b"\n[... %d bytes left out ...]\n" % (done.output_bytes - 100_000) in done.stdout
    assert done.stdout.endswith(b"xEND")
    assert done.output == done.stdout


def test_endless_output_ends_at_the_deadline(box: Box) -> None:
    done = box.run(["yes"], timeout=0.3, cap=1000)
    assert done.timed_out
    assert done.output_bytes > 100_000
    assert done.seconds < HANG_GUARD


# ---- what it is given


def test_stdin_is_empty(box: Box) -> None:
    done = box.run(["cat"], timeout=HANG_GUARD)
    assert (done.exit_code, done.stdout, done.timed_out) == (0, b"", False)


def test_a_command_inherits_nothing_but_its_streams(box: Box) -> None:
    done = box.run(["bash", "-c", "umask; echo /proc/self/fd/*; tty -s <&1 && echo terminal"])
    # 3 is the folder that the shell is just listing
    assert done.stdout == b"0022\n/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n"


def test_arguments_are_passed_as_they_are(box: Box) -> None:
    odd = [
        "",
        "a b",
        "$HOME",
        "*",
        "`id`",
        "$(id)",
        "'",
        '"',
        "\\",
        "\n",
        "-n",
        "--",
        "ü€😀",
        "%s",
        "x" * 100_000,
    ]
    assert box.run(["printf", "%s|", *odd]).stdout.decode() == "".join(f"{each}|" for each in odd)


def environment(done: Completed) -> dict[str, str]:
    """Read what ``env -0`` prints."""
    return dict(pair.partition("=")[::2] for pair in done.stdout.decode().split("\0") if pair)


def test_environment_of_a_box_without_any(box: Box) -> None:
    assert environment(box.run(["env", "-0"])) == {
        "PATH": DEFAULT_PATH,
        "HOME": "/root",
        "HOSTNAME": ok(box, "hostname").strip(),
    }


def test_environment_of_box_and_command(start: Start) -> None:
    box = start(env={"FROM_BOX": "a 'b' $c", "BOTH": "box", "HOME": "/own"})
    odd = {"EMPTY": "", "LINES": "1\n2", "UNICODE": "ü€😀", "EQUALS": "a=b", "a.b": "dotted"}
    found = environment(box.run(["env", "-0"], env={"BOTH": "command", **odd}))
    assert found.pop("PATH") == DEFAULT_PATH
    assert found.pop("HOSTNAME")
    assert found == {"FROM_BOX": "a 'b' $c", "BOTH": "command", "HOME": "/own", **odd}
    assert environment(box.run(["env", "-0"]))["BOTH"] == "box"


def test_a_command_is_found_on_its_own_path(box: Box, place: str) -> None:
    box.put([Entry("own-command", b"#!/bin/sh\necho found", 0o755)], place)
    assert box.run(["own-command"], env={"PATH": f"/nowhere:{place}"}).stdout == b"found\n"
    with unfit("command 'id' is not in the image"):
        box.run(["id"], env={"PATH": "/nowhere"})


@pytest.mark.parametrize(
    "env", [{"A": "x\0y"}, {"A\0": "x"}, {"": "x"}, {"A=B": "x"}], ids=["value", "name", "no-name", "equals"]
)
def test_variables_that_no_system_can_pass(env: dict[str, str], box: Box) -> None:
    with unfit("environment variable"):
        box.run(["true"], env=env)
    assert box.run(["true"]).exit_code == 0


# ---- where


def test_working_directory_of_box_and_command(start: Start) -> None:
    box = start(workdir="/usr/share")
    assert box.run(["pwd"]).stdout == b"/usr/share\n"
    assert box.run(["pwd"], cwd="/tmp/").stdout == b"/tmp\n"
    assert box.run(["./sh", "-c", "pwd"], cwd="/bin").stdout.strip() in (b"/bin", b"/usr/bin")


def test_working_directory_of_a_box_is_not_made(start: Start) -> None:
    box = start(workdir="/x")
    with unfit("workdir '/x' does not exist in the image"):
        box.run(["true"])
    assert box.stat("/x") is None
    assert box.run(["pwd"], cwd="/").stdout == b"/\n"


@pytest.mark.parametrize(
    ("cwd", "message"),
    [
        ("/nowhere", "workdir '/nowhere' does not exist in the image"),
        ("/etc/passwd", "workdir '/etc/passwd' cannot be used: Not a directory"),
        ("tmp", "workdir 'tmp' is not an absolute path"),
        ("/a\0b", "NUL"),
    ],
)
def test_a_working_directory_that_is_none(cwd: str, message: str, box: Box) -> None:
    with unfit(message):
        box.run(["true"], cwd=cwd)


# ---- as whom


@pytest.mark.parametrize(
    ("user", "ids", "home"),
    [
        (None, "0 0 0", "/root"),
        ("nobody", "65534 65534 65534", "/nonexistent"),
        (1234, "1234 0 0", "/"),
        ("1234:77", "1234 77 77", "/"),
        ("daemon", "1 1 1", "/usr/sbin"),
        (1, "1 1 1", "/usr/sbin"),
        ("daemon:nogroup", "1 65534 65534", "/usr/sbin"),
        ("daemon:", "1 1 1", "/usr/sbin"),
        (0, "0 0 0", "/root"),
        ("0:5", "0 5 5", "/root"),
    ],
)
def test_users(user: str | int | None, ids: str, home: str, box: Box, sandbox: Sandbox) -> None:
    def run() -> str:
        return ok(box, "echo $(id -u) $(id -g) $(id -G); echo $HOME", user=user)

    if sandbox.capabilities.users:
        assert run() == f"{ids}\n{home}\n"
    elif user in (None, 0):  # with the further groups of whoever it is in truth
        assert re.fullmatch("0 0 0( 65534)?\n/root\n", run())
    else:
        with pytest.raises(Unsupported, match=f"user '{user}'"):
            run()


@pytest.mark.parametrize("user", ["root", 0, "0", "0:0", "root:root", ""])
def test_root_by_any_name(user: str | int, box: Box) -> None:
    assert box.run(["id", "-u"], user=user).stdout == b"0\n"


@pytest.mark.parametrize(
    "user", ["ghost", "root:ghost", "ghost:root", -1, 4294967295, "1:4294967295", 10**12]
)
def test_users_that_are_not_there(user: str | int, box: Box, sandbox: Sandbox) -> None:
    """4294967295 is -1 to the kernel, by which it means: no change."""
    if sandbox.capabilities.users:
        with unfit(f"user (or group )?'{user}' does not exist in the image"):
            box.run(["true"], user=user)
    else:
        with pytest.raises(Unsupported, match=f"user '{user}'"):
            box.run(["true"], user=user)


# ---- what cannot be started


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["no-such-command"], "command 'no-such-command' is not in the image"),
        (["/no/such"], "command '/no/such' is not in the image"),
        (["/etc/passwd/below"], "command '/etc/passwd/below' is not in the image"),
        ([""], "command '' is not in the image"),
        ([], "there is no command"),
        (["/etc/passwd"], "'/etc/passwd' is not executable"),
        (["/tmp"], "'/tmp' is not executable"),
        (["echo", "a\0b"], "NUL"),
        (["sh", "-c", "#" * 200_000], "arguments of 'sh' are longer than the kernel allows"),
        (["true", *["x" * 1000] * 5000], "arguments of 'true' are longer than the kernel allows"),
        (
            ["/own/crlf"],
            "'/own/crlf' cannot be executed: its #! line names an interpreter that is not in the image",
        ),
        (["/own/bare"], "'/own/bare' is neither a program for this machine nor a script with a #! line"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_command_that_cannot_start(argv: list[str], message: str, box: Box) -> None:
    scripts = [Entry("crlf", b"#!/bin/sh\r\ntrue\r\n", 0o755), Entry("bare", b"\x00\x01 rubbish", 0o755)]
    if argv and argv[0].startswith("/own"):
        box.put(scripts, "/own")
    with unfit(message) as caught:
        box.run(argv)
    assert len(caught.value.message) < 300
    assert box.run(["true"]).exit_code == 0


# ---- until when


@pytest.mark.parametrize(
    ("script", "printed"),
    [
        ("sleep 1000", b""),
        ("trap '' TERM INT HUP; echo on; while :; do sleep 1; done", b"on\n"),
        ("setsid sh -c 'trap \"\" TERM; sleep 1000' & echo on; wait", b"on\n"),
        ("setsid setsid sleep 1000 >/dev/null 2>&1 & setsid nohup sleep 1000 & echo on; sleep 1000", b"on\n"),
    ],
    ids=["sleep", "trap", "session", "daemons"],
)
def test_deadline_ends_everything(script: str, printed: bytes, box: Box) -> None:
    begin = time.monotonic()
    done = sh(box, script, timeout=0.25)
    assert (done.exit_code, done.timed_out) == (None, True)
    assert done.stdout == printed
    assert 0.25 <= done.seconds <= time.monotonic() - begin < HANG_GUARD
    assert none_left(box)


@pytest.mark.parametrize("timeout", [0, -1.0])
def test_no_time_at_all(timeout: float, box: Box) -> None:
    done = box.run(["sleep", "1000"], timeout=timeout)
    assert (done.exit_code, done.timed_out) == (None, True)
    assert none_left(box)


def test_fork_bomb_within_its_limit(box: Box) -> None:
    done = box.run(["bash", "-c", "f() { f | f & }; f; exec sleep 1000"], timeout=0.3)
    assert done.timed_out
    assert done.seconds < HANG_GUARD
    assert none_left(box)
    assert sh(box, "echo usable").stdout == b"usable\n"


def test_every_process_id_taken(box: Box, place: str) -> None:
    """By processes that do nothing: no more can be started, but all can be killed, and files are kept."""
    sh(box, f"echo kept >{place}/file; mkfifo {place}/pipe")
    # a shell that waits to open the pipe is cheaper than a program
    script = f"(while :; do : <{place}/pipe & done); exec sleep 1000"
    for timeout in (0.6, 5.0, HANG_GUARD):  # how long it takes depends on the machine
        done = sh(box, script, timeout=timeout)
        if done.stderr:
            break
    assert b"fork" in done.stderr
    assert done.timed_out
    assert none_left(box)
    assert box.get(f"{place}/file", cap=10) == b"kept\n"


# ---- what it leaves behind


def test_a_service_left_behind_lives_on(box: Box) -> None:
    done = sh(box, "setsid sleep 1000 >/dev/null 2>&1 & echo started")
    assert (done.exit_code, done.stdout) == (0, b"started\n")
    assert processes(box) == 1
    box.quiesce()
    assert none_left(box)


def test_what_holds_the_output_does_not_hold_the_command(box: Box) -> None:
    done = sh(box, "sleep 1000 & echo started", timeout=HANG_GUARD)
    assert (done.exit_code, done.stdout, done.timed_out) == (0, b"started\n", False)
    box.quiesce()


def test_last_words_of_a_filter_are_kept(box: Box) -> None:
    assert box.run(["bash", "-c", "exec > >(sleep 0.05; cat); echo late"]).stdout == b"late\n"


def test_quiesce_without_anything_to_kill(box: Box) -> None:
    box.quiesce()
    box.quiesce()
    assert box.run(["true"]).exit_code == 0


def test_orphans_do_not_pile_up(box: Box) -> None:
    sh(box, "for i in 1 2 3 4 5 6 7 8; do setsid sh -c 'sleep 0.05 &' ; done; sleep 0.3")
    assert " Z " not in ok(box, "cat /proc/[0-9]*/stat 2>/dev/null || :")


def test_commands_at_the_same_time(box: Box) -> None:
    results: dict[int, bytes] = {}

    def run(number: int) -> None:
        results[number] = sh(box, f"sleep 0.2; echo {number}").stdout

    together(*(lambda number=number: run(number) for number in range(6)))  # type: ignore[misc]
    assert results == {number: b"%d\n" % number for number in range(6)}


# ---- limits


def test_out_of_memory_is_seen_or_said_to_be_unknown(start: Start, sandbox: Sandbox) -> None:
    box = start(memory_mb=32)
    known = box.run(["true"]).oom_killed is False
    done = box.run(["tail", "/dev/zero"], timeout=HANG_GUARD)
    # the news of it may take a moment, and nobody waits for it where a command ends well
    hidden = sh(box, "tail /dev/zero | cat; sleep 1", timeout=HANG_GUARD)
    if known:
        assert (done.exit_code, done.oom_killed) == (137, True)
        assert (hidden.exit_code, hidden.oom_killed) == (0, True)
        assert box.run(["true"]).oom_killed is False
    else:
        assert "memory limits hold per process" in sandbox.describe()
        assert (done.exit_code, done.oom_killed, hidden.oom_killed) == (1, None, None)
        assert b"memory exhausted" in done.stderr


def test_out_of_memory_is_unknown_without_a_limit(box: Box) -> None:
    assert sh(box, "kill -9 $$").oom_killed is None
