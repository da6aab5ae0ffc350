from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.boxes import eventually

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.terminal_bench.keystrokes import TypedCommand, as_script, first_interactive
from pytest_rlenv.frameworks.terminal_bench.solution import Solution, read_solution


def solution(root: Path, **files: str) -> Solution:
    for name, text in files.items():
        (root / f"solution.{name}").write_text(text)
    return read_solution(root)


def run(folder: Path, *commands: TypedCommand) -> subprocess.CompletedProcess[str]:
    script = folder / "solution.sh"
    script.write_text(as_script(commands))
    done = ["bash", str(script)]
    return subprocess.run(done, cwd=folder, capture_output=True, text=True, timeout=30, check=False)


def typed(command: str, seconds: float | None = 20.0) -> TypedCommand:
    return TypedCommand(command=command, block=True, max_timeout_sec=seconds)


def test_a_script_is_run_by_bash_whatever_its_first_line(tmp_path: Path) -> None:
    found = solution(tmp_path, sh="# canary\n#!/bin/bash\necho hi\n", yaml="- not read")
    assert (found.missing, found.warnings) == ("", ())
    assert [(entry.path, entry.mode) for entry in found.entries] == [
        ("solve.sh", 0o755),
        ("solution.sh", 0o755),
    ]
    assert found.entries[0].content == b"#!/bin/sh\nexec bash /solution/solution.sh\n"


def test_there_may_be_none(tmp_path: Path) -> None:
    found = solution(tmp_path)
    assert found.entries == ()
    assert found.missing.startswith("no reference solution: neither solution.sh nor solution.yaml (")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "solution.yaml: "),
        ("command: ls", "solution.yaml: "),
        ("- ls", '[0] = "ls": expected a table'),
        ("- block: true", "[0].command: required"),
        ("- command: ls\n  max_timeout_sec: never", "[0].max_timeout_sec"),
        ("- command: [", "not valid YAML"),
    ],
)
def test_what_is_wrong_with_typed_commands(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(TaskInvalid) as caught:
        solution(tmp_path, yaml=text)
    assert words in caught.value.message


def test_a_pointer_is_no_solution(tmp_path: Path) -> None:
    with pytest.raises(TaskInvalid, match="git-lfs"):
        solution(tmp_path, sh="version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")


def test_carriage_returns_are_a_warning(tmp_path: Path) -> None:
    assert "CR LF" in solution(tmp_path, sh="#!/bin/bash\r\necho\r\n").warnings[0]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"block": True}, ""),
        ({"block": True, "append_enter": False, "command": "ls\n"}, ""),
        ({}, "[1].block: false does not wait for it"),
        ({"block": True, "append_enter": False}, "[1].append_enter: false leaves it unfinished"),
        ({"block": True, "command": "C-c"}, "[1].command: C-c is a key"),
        ({"command": "Escape"}, "[1].command: Escape is a key"),
        ({"block": True, "command": "Entering"}, ""),
    ],
)
def test_which_commands_need_a_terminal(fields: dict[str, object], reason: str) -> None:
    commands = [typed("cd /"), TypedCommand.model_validate({"command": "ls", **fields})]
    assert first_interactive(commands) == reason


def test_commands_share_a_shell(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        typed('mkdir sub && cd sub && export NAME="it\'s" && plain=1'),
        typed('put() { echo "$NAME $plain" > "$1"; }'),
        typed("put here\ncat <<END >> here\n$NAME\nEND\n"),
        typed("if then"),
        typed("false"),
        typed("echo out; echo err >&2"),
        typed("exec 8> kept"),
        typed("echo kept >&8"),
        typed("(sleep 60 >/dev/null 2>&1 & echo $! > ../sleeper)"),
    )
    try:
        assert (tmp_path / "sub/here").read_text() == "it's 1\nit's\n"
        assert (tmp_path / "sub/kept").read_text() == "kept\n"
        assert "out\n" in done.stdout
        assert "err\n" in done.stderr
        assert "syntax error" in done.stderr
        assert done.returncode == 0
    finally:
        subprocess.run(["kill", (tmp_path / "sleeper").read_text().strip()], check=False)


@pytest.mark.parametrize(
    ("command", "code"), [("exit 7", 7), ("kill -KILL $$", 137), ("exec sh -c 'exit 3'", 3)]
)
def test_a_command_may_end_the_shell(command: str, code: int, tmp_path: Path) -> None:
    done = run(tmp_path, typed(command), typed("touch never"))
    assert done.returncode == code
    assert not (tmp_path / "never").exists()


def test_a_command_that_takes_too_long_ends_it_all(tmp_path: Path) -> None:
    begun = typed("echo $$ > shell; sleep 60 & echo $! > child")
    done = run(tmp_path, begun, typed("sleep 60", 0.2), typed("touch never"))
    assert done.returncode == 124
    assert done.stderr == "solution.yaml: [1] did not end within 0.2 s\n"
    assert not (tmp_path / "never").exists()
    pids = [(tmp_path / name).read_text().strip() for name in ("shell", "child")]
    assert eventually(lambda: not any(map(_alive, pids)))


def test_a_command_may_wait_for_input_that_never_comes(tmp_path: Path) -> None:
    assert run(tmp_path, typed("cat", 0.3)).returncode == 124


@pytest.mark.parametrize("seconds", [None, 1e8, 1234567.5, 20])
def test_a_limit_that_is_not_reached(seconds: float | None, tmp_path: Path) -> None:
    assert run(tmp_path, typed("echo fine", seconds)).stdout == "fine\n"


def _alive(pid: str) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
