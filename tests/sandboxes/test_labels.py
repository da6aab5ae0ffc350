from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from pytest_rlenv.sandboxes import owners
from pytest_rlenv.sandboxes.docker.labels import box_labels, is_stale
from pytest_rlenv.sandboxes.model import BoxSpec, SandboxContext
from pytest_rlenv.sandboxes.owners import pid_start

CONTEXT = SandboxContext("session", "gw1", Path("/c"), Path("/r"))


def test_callers_words_never_displace_ours() -> None:
    found = box_labels(CONTEXT, BoxSpec(labels={"session": "x", "task": "t", "pid": "1"}, lifetime=10))
    assert found["rlenv.session"] == "session"
    assert found["rlenv.task"] == "t"
    assert found["rlenv.pid"] == str(os.getpid())
    assert time.time() < int(found["rlenv.deadline"]) < time.time() + 1000


def test_our_own_box_is_not_stale() -> None:
    assert not is_stale(box_labels(CONTEXT, BoxSpec()), time.time())


def dead_process() -> int:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


@pytest.mark.parametrize(
    ("change", "stale"),
    [
        ({"rlenv": "0"}, False),
        ({"rlenv.deadline": "1"}, True),
        ({"rlenv.deadline": "1", "rlenv": ""}, False),
        ({"rlenv.pid": "dead"}, True),
        ({"rlenv.pidstart": "1"}, True),
        ({"rlenv.pid": "dead", "rlenv.host": "another machine"}, False),
        ({"rlenv.pid": "dead", "rlenv.pidns": "another namespace"}, False),
        ({"rlenv.pid": "not a number"}, False),
        ({"rlenv.deadline": ""}, False),
    ],
)
def test_stale(change: dict[str, str], stale: bool) -> None:
    found = box_labels(CONTEXT, BoxSpec())
    if change.get("rlenv.pid") == "dead":
        change = change | {"rlenv.pid": str(dead_process())}
    assert is_stale(found | change, time.time()) is stale


def test_a_hidden_process_is_not_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with ``hidepid``, where /proc does not show the processes of other users."""
    monkeypatch.setattr(owners, "pid_start", lambda _: None)
    assert not is_stale(box_labels(CONTEXT, BoxSpec()), time.time())


def test_start_of_a_process_whose_name_has_brackets(tmp_path: Path) -> None:
    program = tmp_path / ") R 1 (x"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([str(program), "60"]) as process:
        try:
            start = pid_start(process.pid)
            assert start is not None
            assert int(start) >= int(pid_start(os.getpid()) or 0)
        finally:
            process.kill()
    assert pid_start(process.pid) is None


def test_words_for_this_machine() -> None:
    assert owners.boot_id() == owners.boot_id() != ""
    assert owners.pid_namespace()
