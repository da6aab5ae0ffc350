"""Commands in a box, against a real engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.docker.box import DockerBox
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.protocol import Entry

pytestmark = pytest.mark.docker

Start = Callable[..., DockerBox]
HANG_GUARD = 60.0
"""Seconds that nothing here takes, unless it hangs."""


def sh(box: DockerBox, script: str, **options: Any) -> Any:
    return box.run(["sh", "-c", script], **options)


def processes(box: DockerBox) -> int:
    """How many processes there are but the keeper, its sleep and the ones that look."""
    return len(sh(box, "ls -d /proc/[0-9]*").stdout.split()) - 3


@pytest.mark.parametrize("code", [0, 1, 2, 42, 124, 126, 127, 128, 137, 143, 255])
def test_exit_codes_are_the_commands_own(code: int, box: DockerBox) -> None:
    done = sh(box, f"exit {code}")
    assert (done.exit_code, done.timed_out, done.oom_killed) == (code, False, None)


def test_streams_are_separate_and_whole(box: DockerBox) -> None:
    done = sh(box, "printf out; sleep 0.1; printf err >&2; sleep 0.1; printf more")
    assert (done.stdout, done.stderr, done.output, done.output_bytes) == (
        b"outmore",
        b"err",
        b"outerrmore",
        10,
    )


def test_output_is_bytes_cut_anywhere(box: DockerBox) -> None:
    done = sh(box, r"printf '\377\000\342\202'; sleep 0.2; printf '\254'", cap=1000)
    assert done.stdout == b"\xff\x00\xe2\x82\xac"


def test_stdin_is_empty(box: DockerBox) -> None:
    done = box.run(["cat"], timeout=HANG_GUARD)
    assert (done.exit_code, done.stdout, done.timed_out) == (0, b"", False)


@pytest.mark.parametrize(
    ("user", "uid"), [(None, b"0"), ("nobody", b"65534"), (1234, b"1234"), ("1234:77", b"1234"), (0, b"0")]
)
def test_users(user: str | int | None, uid: bytes, box: DockerBox) -> None:
    assert box.run(["id", "-u"], user=user).stdout.strip() == uid


def test_env_of_box_and_command(start: Start) -> None:
    box = start(env={"FROM_BOX": "a 'b' $c", "BOTH": "box"})
    done = box.run(["env"], env={"BOTH": "command", "EMPTY": "", "LINES": "1\n2"})
    lines = done.stdout.decode().splitlines()
    assert {"FROM_BOX=a 'b' $c", "BOTH=command", "EMPTY=", "LINES=1", "2"} <= set(lines)
    assert "BOTH=box" not in lines


def test_workdir_of_box_and_command(start: Start) -> None:
    box = start(workdir="/usr/share")
    assert box.run(["pwd"]).stdout == b"/usr/share\n"
    assert box.run(["pwd"], cwd="/tmp").stdout == b"/tmp\n"


def test_workdir_is_not_made(start: Start) -> None:
    box = start(workdir="/x")
    with pytest.raises(SandboxFailed, match="workdir '/x' does not exist in the image"):
        box.run(["true"])
    assert box.stat("/x") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"argv": ["no-such-command"]}, "command 'no-such-command' is not in the image"),
        ({"argv": ["/no/such"]}, "command '/no/such' is not in the image"),
        ({"argv": ["/etc/passwd"]}, "'/etc/passwd' is not executable"),
        ({"argv": ["true"], "user": "ghost"}, "user 'ghost' does not exist"),
        ({"argv": ["true"], "cwd": "/nowhere"}, "workdir '/nowhere' does not exist"),
        ({"argv": ["sh", "-c", "#" * 200_000]}, "arguments of 'sh' are longer"),
        ({"argv": ["/own/crlf"]}, "names an interpreter that is not in the image"),
        ({"argv": ["/own/bare"]}, "neither a program for this machine nor a script"),
    ],
)
def test_a_command_that_cannot_start_is_an_error(
    options: dict[str, Any], message: str, box: DockerBox
) -> None:
    scripts = [Entry("crlf", b"#!/bin/sh\r\ntrue\r\n", 0o755), Entry("bare", b"\x00\x01 rubbish", 0o755)]
    box.put(scripts, "/own")
    with pytest.raises(SandboxFailed, match=message):
        box.run(**options)


@pytest.mark.parametrize("code", [126, 127])
def test_the_runtimes_words_from_a_command_are_just_output(code: int, box: DockerBox) -> None:
    text = 'OCI runtime exec failed: exec failed: exec: "x": executable file not found in $PATH: unknown'
    done = sh(box, f"printf '%s\\r\\n' '{text}'; exit {code}")
    assert done.exit_code == code


@pytest.mark.parametrize(
    ("script", "printed"),
    [
        ("sleep 1000", b""),
        ("trap '' TERM INT HUP; echo on; while :; do sleep 1; done", b"on\n"),
        ("setsid sh -c 'trap \"\" TERM; sleep 1000' & echo on; wait", b"on\n"),
        ("setsid setsid sleep 1000 >/dev/null 2>&1 & setsid nohup sleep 1000 & echo on; sleep 1000", b"on\n"),
    ],
)
def test_deadline_ends_everything(script: str, printed: bytes, box: DockerBox) -> None:
    begin = time.monotonic()
    done = sh(box, script, timeout=0.7)
    assert (done.exit_code, done.timed_out) == (None, True)
    assert done.stdout == printed
    assert 0.7 <= done.seconds <= time.monotonic() - begin < HANG_GUARD
    assert processes(box) == 0


def test_fork_bomb_within_its_limit(box: DockerBox) -> None:
    done = sh(box, "f() { f | f & }; f; exec sleep 1000", timeout=2.0)
    assert done.timed_out
    assert done.seconds < HANG_GUARD
    assert processes(box) == 0
    assert sh(box, "echo usable").stdout == b"usable\n"


def test_every_process_id_taken(box: DockerBox) -> None:
    """No process can be started from outside then, so the container itself is started again."""
    box.run(["sh", "-c", "echo kept >/file"])
    done = box.run(["bash", "-c", "while :; do sleep 1000 & done"], timeout=8.0)
    assert b"Resource temporarily unavailable" in done.stderr
    assert done.timed_out
    assert done.seconds < HANG_GUARD
    assert processes(box) == 0
    assert sh(box, "cat /file").stdout == b"kept\n"


def test_shell_that_does_not_kill(box: DockerBox) -> None:
    """Whoever was root in the box may have replaced its shell."""
    box.put([Entry("bin/sh.new", b"#!/bin/bash\nexit 0\n", 0o755)], "/usr")
    box.run(["bash", "-c", "cp /usr/bin/sh /usr/bin/sh.old; mv /usr/bin/sh.new /usr/bin/sh"])
    done = box.run(["sleep", "1000"], timeout=0.5)
    assert done.timed_out
    assert done.seconds < HANG_GUARD


def test_much_output_in_bounded_memory(box: DockerBox) -> None:
    megabytes = 200
    done = sh(box, f"head -c {megabytes}000000 /dev/zero | tr '\\0' x; printf END", cap=100_000)
    assert done.exit_code == 0
    assert done.output_bytes == megabytes * 1_000_000 + 3
    assert done.seconds < HANG_GUARD
    assert len(done.stdout) < 100_100
    assert done.stdout.startswith(b"x" * 50_000)
    assert done.stdout.endswith(b"xEND")
    assert b"\n[... %d bytes left out ...]\n" % (done.output_bytes - 100_000) in done.stdout
    assert done.output == done.stdout


def test_endless_output_ends_at_the_deadline(box: DockerBox) -> None:
    done = box.run(["yes"], timeout=1.0, cap=1000)
    assert done.timed_out
    assert done.output_bytes > 1_000_000
    assert done.seconds < HANG_GUARD


def test_a_service_left_behind_lives_on(box: DockerBox) -> None:
    done = sh(box, "setsid sleep 1000 >/dev/null 2>&1 & echo started")
    assert (done.exit_code, done.stdout) == (0, b"started\n")
    assert processes(box) == 1
    box.quiesce()
    assert processes(box) == 0


def test_quiesce_without_anything_to_kill(box: DockerBox) -> None:
    box.quiesce()
    box.quiesce()
    assert box.run(["true"]).exit_code == 0


def test_out_of_memory_is_seen(start: Start) -> None:
    box = start(memory_mb=32)
    assert box.run(["true"]).oom_killed is False
    assert box.run(["tail", "/dev/zero"]).oom_killed is True
    hidden = sh(box, "tail /dev/zero | cat; true")
    assert (hidden.exit_code, hidden.oom_killed) == (0, True)
    assert box.run(["true"]).oom_killed is False


def test_out_of_memory_is_unknown_without_a_limit(box: DockerBox) -> None:
    assert sh(box, "kill -9 $$").oom_killed is None


def test_box_killed_under_a_command(box: DockerBox, engine: Engine) -> None:
    kill = threading.Timer(0.5, lambda: engine.request("POST", f"/containers/{box.id}/kill", doing="kill"))
    kill.start()
    with pytest.raises(SandboxFailed, match="the box died: PID 1 ended with exit code 137"):
        box.run(["sleep", "1000"], timeout=HANG_GUARD)
    kill.join()


def test_command_killed_in_a_living_box(box: DockerBox) -> None:
    done = sh(box, "kill -9 $$")
    assert (done.exit_code, done.timed_out) == (137, False)


@pytest.mark.parametrize("operation", ["run", "quiesce"])
def test_dead_box(operation: str, box: DockerBox, engine: Engine) -> None:
    engine.request("POST", f"/containers/{box.id}/kill", doing="kill")
    with pytest.raises(SandboxFailed, match="the box died"):
        box.run(["true"]) if operation == "run" else box.quiesce()
    assert box.get("/etc/debian_version", cap=100)
    box.put([Entry("x", b"y")], "/")
    assert box.get("/x", cap=1) == b"y"


@pytest.mark.parametrize("operation", ["run", "quiesce", "get", "put", "stat", "stop"])
def test_removed_box(operation: str, box: DockerBox, engine: Engine) -> None:
    engine.request("DELETE", f"/containers/{box.id}", params={"force": 1}, doing="remove")
    calls: dict[str, Callable[[], object]] = {
        "run": lambda: box.run(["true"]),
        "quiesce": box.quiesce,
        "get": lambda: box.get("/x", cap=1),
        "put": lambda: box.put([Entry("x", b"")]),
        "stat": lambda: box.stat("/x"),
        "stop": box.stop,
    }
    with pytest.raises(SandboxFailed, match="the box is gone"):
        calls[operation]()


def test_stopped_box(box: DockerBox) -> None:
    box.run(["sh", "-c", "echo 1 >/reward"])
    box.stop()
    box.stop()
    assert box.get("/reward", cap=10) == b"1\n"
    with pytest.raises(SandboxFailed, match="the box was stopped before this"):
        box.run(["true"])


def test_destroyed_box(box: DockerBox) -> None:
    box.destroy()
    box.destroy()
    with pytest.raises(SandboxFailed, match="the box was destroyed before this"):
        box.get("/x", cap=1)


def test_commands_from_several_threads(box: DockerBox) -> None:
    results: dict[int, bytes] = {}

    def run(number: int) -> None:
        results[number] = sh(box, f"sleep 0.2; echo {number}").stdout

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: b"%d\n" % number for number in range(6)}
