"""Processes of our own end with all they started: closed, left, or when whoever started them is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_rlenv.processes.guarded import GuardedProcess

PATIENCE = 60.0
FAMILY = """
import os, subprocess, sys, time
same = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
away = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
orphan = subprocess.run(
    ["sh", "-c", "setsid sleep 300 >/dev/null 2>&1 & echo $!"], stdout=subprocess.PIPE, text=True
).stdout.strip()
print("pids", os.getpid(), same.pid, away.pid, orphan, flush=True)
time.sleep(300)
"""
OWNER = f"""
import os, sys, time
from pathlib import Path
from pytest_rlenv.processes.guarded import GuardedProcess
command = [sys.executable, "-c", {FAMILY!r}]
GuardedProcess(command, env=dict(os.environ), cwd=Path("."), log=Path("log"))
time.sleep(300)
"""


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def pids_in(log: Path) -> list[int]:
    lines = log.read_text().splitlines() if log.exists() else []
    return next(([int(word) for word in line.split()[1:]] for line in lines if line.startswith("pids")), [])


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def start(tmp_path: Path, *command: str, talk: bool = False, log_cap: int | None = None) -> GuardedProcess:
    env = {"PATH": os.environ["PATH"], "WORD": "héllo"}
    log = tmp_path / "log"
    return GuardedProcess(command, env=env, cwd=tmp_path, log=log, talk=talk, log_cap=log_cap)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_closing_ends_the_whole_family(tmp_path: Path) -> None:
    process = start(tmp_path, sys.executable, "-c", FAMILY)
    try:
        wait_for(lambda: len(pids_in(tmp_path / "log")) == 4)
        family = pids_in(tmp_path / "log")
        assert all(map(runs, family))
        assert process.exit_code is None
    finally:
        process.close()
    assert not any(map(runs, family))
    process.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_killed_owner_leaves_nothing(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            OWNER,
        ],
        cwd=tmp_path,
    )
    try:
        wait_for(lambda: len(pids_in(tmp_path / "log")) == 4)
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    wait_for(lambda: not any(map(runs, pids_in(tmp_path / "log"))))


@pytest.mark.parametrize(
    ("code", "exit_code"), [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_its_end_is_told(tmp_path: Path, code: str, exit_code: int) -> None:
    process = start(tmp_path, sys.executable, "-c", f"import os; print(os.environ['WORD']); {code}")
    wait_for(lambda: process.exit_code is not None)
    process.close()
    assert process.exit_code == exit_code


def test_the_log_has_what_it_printed(tmp_path: Path) -> None:
    process = start(tmp_path, "sh", "-c", "echo $WORD; echo wrong >&2; exit 1")
    wait_for(lambda: process.exit_code is not None)
    process.close()
    assert process.tail() == "héllo\nwrong\n"


def test_talking(tmp_path: Path) -> None:
    process = start(tmp_path, "sh", "-c", "read line; echo got $line; echo aside >&2; read more", talk=True)
    try:
        process.stdin.write(b"it\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"got it\n"
        wait_for(lambda: process.tail() == "aside\n")
    finally:
        process.close()


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    process = start(tmp_path, str(tmp_path / "nothing"))
    wait_for(lambda: process.exit_code is not None)
    process.close()
    assert (process.exit_code, process.tail()) == (127, f"{tmp_path}/nothing: No such file or directory\n")


COUNT = "import sys; [print(n, file=sys.stderr if n % 2 else sys.stdout, flush=True) for n in range({})]"


@pytest.mark.parametrize("lines", [10, 5000])
def test_of_a_long_log_both_ends_are_kept(tmp_path: Path, lines: int) -> None:
    (tmp_path / "log").write_text("before\n")  # by an earlier try
    process = start(tmp_path, sys.executable, "-c", COUNT.format(lines), log_cap=2000)
    wait_for(lambda: process.exit_code is not None)
    process.close()
    printed = "".join(f"{n}\n" for n in range(lines))
    kept = (tmp_path / "log").read_text().removeprefix("before\n")
    if lines == 10:
        assert kept == printed
        return
    head, _, rest = kept.partition("\n[... ")
    count, _, tail = rest.partition(" bytes left out ...]\n")
    assert head == printed[:1000]
    assert 1000 <= len(tail) <= 2000
    assert printed.endswith(tail)
    assert int(count) == len(printed) - len(head) - len(tail)
    assert process.exit_code == 0


def test_a_capped_log_is_read_while_it_grows_and_after_a_kill(tmp_path: Path) -> None:
    code = "import sys, time; print('x' * 9000); print('up', flush=True); time.sleep(300)"
    process = start(tmp_path, sys.executable, "-c", code, log_cap=2000)
    try:
        wait_for(lambda: process.tail().endswith("up\n"))
        assert process.exit_code is None
    finally:
        process.close()
    assert process.tail().endswith("up\n")
    assert (tmp_path / "log").stat().st_size < 3100


def test_who_talks_has_a_capped_log_of_what_is_said_aside(tmp_path: Path) -> None:
    code = "import sys; sys.stderr.write('a' * 9000); print('told'); input()"
    process = start(tmp_path, sys.executable, "-c", code, talk=True, log_cap=2000)
    try:
        assert process.stdout.readline() == b"told\n"
    finally:
        process.close()
    assert "bytes left out" in process.tail()


def test_a_command_that_closes_its_output_runs_on(tmp_path: Path) -> None:
    code = "import os; os.close(1); os.close(2); open('done', 'w').close(); raise SystemExit(4)"
    process = start(tmp_path, sys.executable, "-c", code, log_cap=2000)
    try:
        wait_for(lambda: process.exit_code is not None)
    finally:
        process.close()
    assert (process.exit_code, (tmp_path / "done").exists()) == (4, True)
