"""Tasks with services beside the agent's box, through the whole plugin on a real engine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.engine import remove_image
from support.tasks import write_task

from pytest_rlenv.sandboxes.docker.client import shared_engine

pytestmark = pytest.mark.docker

SEPARATE = """
artifacts = [{source = "/srv/kept", service = "store"}, {source = "/app/answer"}]
[environment]
network_mode = "no-network"
env = {WORD = "known"}
[verifier]
environment_mode = "separate"
collect = [
    {command = "echo before >/app/answer"},
    {command = "cp /srv/said /srv/kept; echo >>/srv/kept", service = "store"},
    {command = "exit 3", service = "store"},
    {command = "true", service = "nobody"},
]
"""
STORE = """
services:
  main: {depends_on: [store]}
  store:
    image: python:3.11-slim
    ports: ["127.0.0.1:18975:8000"]
    command: [python3, -c, "${SERVER}"]
    environment: {WORD: "${WORD}"}
"""
SERVER = """
import http.server as h
class Handler(h.BaseHTTPRequestHandler):
    def do_POST(self):
        open('/srv/said', 'wb').write(self.rfile.read(int(self.headers['Content-Length'])))
        self.send_response(200); self.end_headers()
h.HTTPServer(('', 8000), Handler).serve_forever()
"""
TELLS = """
for i in $(seq 50); do
  python3 -c "import urllib.request as u; u.urlopen('http://store:8000/', b'told', timeout=2)" && break
  sleep 0.2
done
"""
TASKS: dict[str, dict[str, Any]] = {
    "kept-apart": {
        "compose": STORE,
        "config": SEPARATE,
        "solve": TELLS,
        "test": "grep -qx before /app/answer && grep -qx told /srv/kept && echo 1 >/logs/verifier/reward.txt",
    },
    "sick": {
        "compose": "services:\n  main: {depends_on: {db: {condition: service_healthy}}}\n"
        "  db: {image: python:3.11-slim, command: [sh, -c, 'echo no room in here; exit 4'],"
        " healthcheck: {test: 'true'}}\n",
    },
    "greedy": {"compose": "services: {main: {privileged: true, pid: host}}\n"},
    "broken": {"compose": "services: {main: {imag: x}}\n"},
}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """Run all of them at once, and give what is stored of each."""
    folder = tmp_path_factory.mktemp("services")
    for name, parts in TASKS.items():
        text = parts["compose"].replace("${SERVER}", SERVER.replace("\n", "\\n"))
        task = write_task(
            folder / "env" / name,
            solve=parts.get("solve", "true"),
            test=parts.get("test", "echo 1 >/logs/verifier/reward.txt"),
            config=f'schema_version = "1.4"\n{parts.get("config", "")}',
            dockerfile="FROM python:3.11-slim\nWORKDIR /app\n",
        )
        (task / "environment" / "docker-compose.yaml").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-n2", "-p", "no:cacheprovider", "--rlenv", "env"]
    command += ["--rlenv-sandbox", "docker", "--rlenv-output", "out"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    results = folder / "out" / "results.jsonl"
    assert results.exists(), done.stdout + done.stderr
    found = {record["task"]: record for record in map(json.loads, results.read_text().splitlines())}
    yield found
    for record in found.values():
        if record["image"]:
            remove_image(shared_engine(), record["image"].partition("@")[0])


def test_services_are_asked_after_the_agents_box_is_stopped(records: dict[str, dict[str, Any]]) -> None:
    record = records["kept-apart"]
    assert record["verdict"] == "passed", record["error"]
    notes = [f"{note['code']}: {note['text']}" for note in record["notes"]]
    assert any("services.store.ports: no port of this machine is given" in note for note in notes)
    assert any("exited 3" in note for note in notes)
    assert any("there is no service 'nobody', only main, store" in note for note in notes)


@pytest.mark.parametrize(
    ("name", "verdict", "words"),
    [
        (
            "sick",
            "error",
            ["BoxUnfit", "service 'db' ended with exit code 4", "no room in here", "start", "task"],
        ),
        ("broken", "error", ["TaskInvalid", "environment/docker-compose.yaml", "imag", "build", "task"]),
        (
            "greedy",
            "skipped",
            ["services.main.privileged", "services.main.pid", "--rlenv-allow-unsafe-compose"],
        ),
    ],
)
def test_what_cannot_be_run_says_why(
    name: str, verdict: str, words: list[str], records: dict[str, dict[str, Any]]
) -> None:
    record = records[name]
    assert record["verdict"] == verdict
    told = json.dumps(record["error"] or record["skip_reason"])
    for word in words:
        assert word in told
