"""Attempts and retries on a real engine: each try in a container of its own, and none of them left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.engine import containers
from support.tasks import write_task

from pytest_rlenv.sandboxes.docker.client import shared_engine

pytestmark = pytest.mark.docker

AGENT = """
from pathlib import Path

from pytest_rlenv.agents.oracle import OracleAgent
from pytest_rlenv.sandboxes.docker.client import shared_engine

class Unlucky(OracleAgent):
    '''Its first container is taken away while it works.'''

    def run(self, context):
        name = context.box.run("hostname", timeout=30).output.decode().strip()
        with open("hosts", "a") as file:
            file.write(name + "\\n")
        if context.box.run("test -e /app/answer.txt", timeout=30).exit_code == 0:
            raise RuntimeError("the box is not a fresh one")
        done = super().run(context)
        if len(Path("hosts").read_text().splitlines()) == 1:
            shared_engine().request("POST", f"/containers/{name}/kill", doing="kill")
        return done
"""


def test_each_try_has_a_fresh_container(tmp_path: Path) -> None:
    judge = "cat /app/answer.txt && echo 1 > /logs/verifier/reward.txt"
    write_task(tmp_path / "env" / "a", solve="echo done > /app/answer.txt", test=judge)
    (tmp_path / "unlucky.py").write_text(AGENT)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--rlenv", "env", "--agent=unlucky:Unlucky"),
            *("--rlenv-sandbox=docker", "--rlenv-attempts=2", "--rlenv-retries=1", "--rlenv-output=out"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    records = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    assert [(r["attempt"], r["verdict"], len(r["tries"])) for r in records] == [
        (1, "passed", 1),
        (2, "passed", 0),
    ]
    hosts = (tmp_path / "hosts").read_text().splitlines()
    assert len(set(hosts)) == len(hosts) == 3
    assert containers(shared_engine(), f"rlenv.session={records[0]['run']}") == []
