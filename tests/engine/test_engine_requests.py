"""What a rollout asks of the engine: requests are what it costs, and unlike time they can be relied on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from support.tasks import write_task

pytestmark = pytest.mark.docker

COUNTING = """
import json
from pathlib import Path
from pytest_rlenv.sandboxes.docker.client import Engine

asked, ask = [], Engine.request

def request(self, method, path, **keywords):
    asked.append((method, path))
    return ask(self, method, path, **keywords)

Engine.request = request

def pytest_unconfigure(config):
    Path("asked.json").write_text(json.dumps(asked))
"""


@pytest.fixture
def requests(tmp_path: Path) -> dict[str, list[str]]:
    """Requests about each container of an oracle run over two tasks, as ``PUT archive``."""
    for name in ("one", "two"):
        write_task(
            tmp_path / "env" / name,
            solve="test ! -e /tests && echo done >/app/answer",
            test="grep -c done /app/answer >/logs/verifier/reward.txt",
        )
    (tmp_path / "conftest.py").write_text(COUNTING)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "--rlenv=env", "--rlenv-sandbox=docker"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    found: dict[str, list[str]] = defaultdict(list)
    for method, path in json.loads((tmp_path / "asked.json").read_text()):
        parts = path.strip("/").split("/")
        if parts[0] == "containers" and len(parts) > 1 and len(parts[1]) == 64:
            found[parts[1]].append(" ".join([method, *parts[2:]]))
    return dict(found)


def test_a_rollout_transfers_files_three_times(requests: dict[str, list[str]]) -> None:
    assert len(requests) == 2
    for asked in requests.values():
        transfers = [each for each in asked if each in ("PUT archive", "GET archive")]
        # the solution before the start, the tests, and the verifier's logs with the reward in them
        assert transfers == ["PUT archive", "PUT archive", "GET archive"], asked
        assert asked.count("POST exec") == 2, asked
        assert len(asked) <= 13, asked
