"""The networks of a task's phases, from ``task.toml`` to what its scripts reach, on a real engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.gates import FETCH, own_address, serving, web
from support.tasks import write_task

pytestmark = pytest.mark.docker

TRAP = "trap 'echo 0 >/logs/verifier/reward.txt; exit' ERR"
LAST = "echo 1 >/logs/verifier/reward.txt"
ENVIRONMENT = '[environment]\ndocker_image = "debian:bookworm-slim"\n'
CUT_OFF = '[ "$(ls /sys/class/net)" = lo ]'
TO_NOWHERE = "! bash -c 'exec 3<>/dev/tcp/{address}/{port}'"


def checked(*lines: str) -> str:
    """Return a test script that gives 1 if all lines succeed."""
    return "\n".join([TRAP, *lines, LAST])


TASKS: dict[str, dict[str, str]] = {
    "agent-on-the-list": {
        "config": f'{ENVIRONMENT}network_mode = "no-network"\n'
        '[agent]\nnetwork_mode = "allowlist"\nallowed_hosts = ["{address}"]\n',
        "solve": f"fetch() ( {FETCH} )\nfetch {{address}} {{port}} >answer; fetch evil.test 80; {TO_NOWHERE}",
        "test": checked("grep -q hello answer", '[ -z "$http_proxy" ]', CUT_OFF),
    },
    "verifier-in-public": {
        "config": f'{ENVIRONMENT}network_mode = "no-network"\n[verifier]\nnetwork_mode = "public"\n',
        "solve": f"{TO_NOWHERE} && {CUT_OFF} && touch answer",
        "test": f"fetch() ( {FETCH} )\n" + checked("[ -e answer ]", "fetch {address} {port} | grep -q hello"),
    },
    "everybody-on-the-list": {
        "config": f'{ENVIRONMENT}network_mode = "allowlist"\nallowed_hosts = ["{{address}}"]\n',
        "solve": f"fetch() ( {FETCH} )\nfetch {{address}} {{port}} >answer",
        "test": f"fetch() ( {FETCH} )\n"
        + checked("grep -q hello answer", CUT_OFF, "fetch {address} {port} | grep -q hello"),
    },
}


def test_networks_of_phases(tmp_path: Path) -> None:
    address = own_address()
    with serving(web, address) as site:
        for name, parts in TASKS.items():
            filled = {
                key: text.replace("{address}", address).replace("{port}", str(site.port))
                for key, text in parts.items()
            }
            write_task(tmp_path / "env" / name, **filled)
        records = run(tmp_path)
    assert [record["rewards"] for record in records.values()] == [{"reward": 1.0}] * len(TASKS)
    notes = {name: [(note["code"], note["text"]) for note in each["notes"]] for name, each in records.items()}
    assert notes == {
        "agent-on-the-list": [("network-denied", "agent: evil.test:80 \u00d71")],
        "verifier-in-public": [],
        "everybody-on-the-list": [],
    }


def run(folder: Path) -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-m", "pytest", "-q", "--rlenv=env", "--rlenv-sandbox=docker"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    (written,) = (folder / ".rlenv").glob("*/results.jsonl")
    records = {record["task"]: record for record in map(json.loads, written.read_text().splitlines())}
    logs = [path.read_text() for path in written.parent.rglob("*.txt")]
    assert done.returncode == 0, "\n".join([done.stdout, done.stderr, *logs])
    return records
