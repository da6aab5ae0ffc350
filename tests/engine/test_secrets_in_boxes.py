"""A secret that real boxes are given is in no log, no report and no process's arguments."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.tasks import write_task

VALUE = "value-of-the-judge/0123+abcdef"
ENCODED = base64.b64encode(VALUE.encode()).decode()
CONFIG = """\
schema_version = "1.4"
[environment.env]
GIVEN = "${DEMO_JUDGE}"
[verifier.env]
JUDGE = "${DEMO_JUDGE}"
[solution.env]
ORACLE = "${DEMO_JUDGE}"
"""
SOLVE = 'echo "oracle has $ORACLE and $GIVEN"; env >/logs/agent/env.txt; echo "$GIVEN" >/logs/artifacts/kept'
TEST = """\
env | sort
printf %s "$JUDGE" | base64 -w0
cp /proc/self/environ /logs/verifier/environ.bin
printf '%s' "$JUDGE"; head -c 6000000 /dev/zero | tr '\\0' x; printf '%s\\n' "$JUDGE"
sleep 0.5
[ "$JUDGE" = "$GIVEN" ] && echo 1 >/logs/verifier/reward.txt
"""
COMPOSE = """\
services:
  main:
    environment: [DEMO_JUDGE]
  side:
    image: debian:bookworm-slim
    command: ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"]
    environment: ["SIDE=${DEMO_JUDGE}"]
"""


# A shell's printf is no process of its own, so the task itself shows nobody its arguments.


class Arguments(threading.Thread):
    """Looks at the arguments of all processes of this machine for a text."""

    def __init__(self, text: str) -> None:
        super().__init__(daemon=True)
        self.found: set[bytes] = set()
        self.looked = 0
        self._text = text.encode()
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            self.looked += 1
            for process in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    arguments = (process / "cmdline").read_bytes()
                    if self._text in arguments:
                        self.found.add(arguments)

    def end(self) -> None:
        self._ended.set()
        self.join()


@pytest.mark.docker
@pytest.mark.parametrize("sandbox", ["docker", "local", "services"])
def test_a_forwarded_value_is_nowhere(tmp_path: Path, sandbox: str) -> None:
    task = write_task(tmp_path / "env" / "task", solve=SOLVE, test=TEST, config=CONFIG)
    if sandbox == "services":
        (task / "environment" / "docker-compose.yaml").write_text(COMPOSE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "--rlenv=env",
        "--rlenv-output=out",
        "--junitxml=out.xml",
    ]
    command += ["-ojunit_logging=all", "--rlenv-sandbox", "docker" if sandbox == "services" else sandbox]
    arguments = Arguments(VALUE)
    arguments.start()
    try:
        env = {**os.environ, "DEMO_JUDGE": VALUE}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=False)
    finally:
        arguments.end()
    assert done.returncode == 0, done.stdout.decode()
    assert arguments.looked > 3
    assert arguments.found == set()
    files = [path for path in [*(tmp_path / "out").rglob("*"), tmp_path / "out.xml"] if path.is_file()]
    data = {path.name: path.read_bytes() for path in files} | {"stdout": done.stdout, "stderr": done.stderr}
    leaks = {name for name, each in data.items() if VALUE.encode() in each or ENCODED[:-4].encode() in each}
    assert leaks == set()
    assert b"[redacted DEMO_JUDGE]" in data["test-stdout.txt"]
    assert b"oracle has [redacted DEMO_JUDGE] and [redacted DEMO_JUDGE]" in data["oracle.txt"]
    assert {"env.txt", "kept", "environ.bin"} <= data.keys()
