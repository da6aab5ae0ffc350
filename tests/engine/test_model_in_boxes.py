"""An agent in a box without a network that solves a task by a model it reaches through the proxy alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.model_calls import ASK
from support.scripted_model import ScriptedModel, use
from support.tasks import write_task

TESTS = Path(__file__).parents[1]
KEY = "real-key-of-the-provider"
AGENT = f'''
import json
from pytest_rlenv.agents.protocol import Agent, AgentOutcome

ASK = r"""{ASK}"""

class InBox(Agent):
    """A program in the box, of bash alone, that does what the model says."""
    needs_model = True

    def run(self, context):
        endpoint = context.model_endpoint
        port = endpoint.openai_base_url.split(":")[2].split("/")[0]
        messages = [{{"role": "user", "content": context.instruction}}]
        while True:
            body = json.dumps({{"messages": messages}})
            argv = ["bash", "-c", ASK, "ask", port, endpoint.key, "/v1/chat/completions", body]
            done = context.box.run(argv, timeout=30)
            head, _, said = done.stdout.decode().partition("\\r\\n\\r\\n")
            message = json.loads(said)["choices"][0]["message"]
            messages.append(message)
            if not message.get("tool_calls"):
                return AgentOutcome(exit_code=0)
            for call in message["tool_calls"]:
                command = json.loads(call["function"]["arguments"])["command"]
                output = context.box.run(command).output.decode()
                messages.append({{"role": "tool", "tool_call_id": call["id"], "content": output}})
'''
TRAP = "trap 'echo 0 >/logs/verifier/reward.txt; exit' ERR"
TEST = f"{TRAP}\ngrep -q made answer\necho 1 >/logs/verifier/reward.txt"


@pytest.mark.parametrize("sandbox", [pytest.param("docker", marks=pytest.mark.docker), "local-host"])
def test_a_task_without_a_network_is_solved_recorded_and_replayed(tmp_path: Path, sandbox: str) -> None:
    config = '[environment]\nnetwork_mode = "no-network"\n'
    write_task(tmp_path / "env" / "t", config=config, test=TEST, solve=None)
    (tmp_path / "mine.py").write_text(AGENT)
    # without the counts of packets, in which no two runs are the same
    commands = ["cut -d: -f1 /proc/net/dev", "echo made >answer", "date; cat answer"]
    with ScriptedModel([*(use("bash", command=each) for each in commands), "done"], key=KEY) as model:
        first = run(tmp_path, sandbox, f"--rlenv-model-url={model.url}", "--rlenv-record=tapes")
        assert model.calls == 4
        interfaces = str(model.requests[1].body["messages"][-1]["content"]).splitlines()[2:]
        assert [line.strip() for line in interfaces] == ["lo"]
    again = run(tmp_path, sandbox, "--rlenv-model-url=http://127.0.0.1:9/v1", "--rlenv-replay=tapes")
    for record in (first, again):
        assert record["rewards"] == {"reward": 1.0}
        assert record["usage"]["model_calls"] == 4
        assert record["notes"] == []


def run(folder: Path, sandbox: str, *args: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "pytest", "-q", "--rlenv=env", f"--rlenv-sandbox={sandbox}"]
    command += ["--rlenv-agent=mine:InBox", "--rlenv-model=openai/gpt-test", *args]
    output = folder / f"out{len(list(folder.glob('out*')))}"
    done = subprocess.run(
        [*command, f"--rlenv-output={output}"],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}",
            "OPENAI_API_KEY": KEY,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if "no local boxes" in done.stdout + done.stderr:
        pytest.skip("no local boxes on this machine")
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = [json.loads(line) for line in (output / "results.jsonl").read_text().splitlines()]
    everything = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert KEY.encode() not in everything
    found: dict[str, Any] = record
    return found
