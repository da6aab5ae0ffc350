"""Real programs, installed into real boxes, with a scripted model behind the run's own endpoint.

They come from the registries of npm and PyPI. The program's layer is made once for all of these tests, and
stays in the engine for the next time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support.rollouts import write_steps
from support.scripted_model import Reply, ScriptedModel, use
from support.tasks import write_task

from pytest_rlenv.agents.command_line.table import SPECS

pytestmark = pytest.mark.docker

SCHEMA = json.loads((Path(__file__).parents[1] / "trajectory" / "atif.schema.json").read_text())
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
DOCKERFILE = "FROM python:3.11-slim\nWORKDIR /app\n"
TRUST = (
    "COPY certificates.crt /certificates.crt\n"
    "ENV NODE_EXTRA_CA_CERTS=/certificates.crt PIP_CERT=/certificates.crt SSL_CERT_FILE=/certificates.crt\n"
)
"""This machine's certificates, since a registry may be reached through a mirror of one's own."""
OFFLINE = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|name resolution|NewConnectionError|ConnectTimeoutError"
)
TASK = 'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\n[agent]\ntimeout_sec = 240\n'
JUDGE = (
    '[ "$(cat /app/answer)" = 42 ] && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt'
)
SOLVE = "echo 42 >/app/answer"
STEPS = """\
schema_version = "1.4"
[environment]
network_mode = "no-network"
[agent]
timeout_sec = 240
[metadata.rlenv]
agent_session = "keep"
[[steps]]
name = "first"
[[steps]]
name = "second"
"""
HARBOR_PYTHON = Path(__file__).parents[2] / ".matrix" / "harbor-0.26.0" / "bin" / "python"
WRITTEN_FOR_HARBOR = """
from harbor.agents.base import BaseAgent
from harbor.llms.lite_llm import LiteLLM


class Own(BaseAgent):
    @staticmethod
    def name():
        return "own"

    def version(self):
        return "3.1"

    async def setup(self, environment):
        await environment.exec("mkdir -p /opt/own", user="root")

    async def run(self, instruction, environment, context):
        reply = await LiteLLM(model_name=self.model_name).call(prompt=instruction)
        await environment.exec(reply.content)
        await environment.exec("id -un >/logs/agent/who.txt")
        context.n_input_tokens = 1

    def populate_context_post_run(self, context):
        raise RuntimeError("it has told all")
"""


def run(
    tmp: Path,
    agent: str,
    model: ScriptedModel,
    *more: str,
    steps: dict[str, dict[str, str]] | None = None,
) -> dict[str, Any]:
    """Run the task, maybe one of several steps, with an agent and more options, and return its record."""
    dockerfile = DOCKERFILE + (TRUST if CERTIFICATES.exists() else "")
    if steps:
        write_steps(tmp / "env" / "task", STEPS, steps, environment__Dockerfile=dockerfile)
    else:
        write_only_step(tmp, dockerfile)
    return record_of(tmp, agent, model, *more)


def write_only_step(tmp: Path, dockerfile: str) -> None:
    write_task(
        tmp / "env" / "task",
        solve=None,
        test=JUDGE,
        config=TASK,
        dockerfile=dockerfile,
        instruction="Write 42 to /app/answer, and don't ask.\n",
    )


def record_of(tmp: Path, agent: str, model: ScriptedModel, *more: str) -> dict[str, Any]:
    task = tmp / "env" / "task"
    if CERTIFICATES.exists():
        shutil.copyfile(CERTIFICATES, task / "environment" / "certificates.crt")
    (tmp / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rlenv=env"]
    command += ["--rlenv-output=out", "--rlenv-sandbox=docker", f"--agent={agent}"]
    command += ["--model=scripted/m", f"--rlenv-model-url={model.url}", *more]
    done = subprocess.run(
        command, cwd=tmp, env=dict(os.environ), capture_output=True, text=True, timeout=900, check=False
    )
    lines = (tmp / "out" / "results.jsonl").read_text().splitlines() if (tmp / "out").exists() else []
    assert lines, f"{done.stdout}\n{done.stderr}"
    record: dict[str, Any] = json.loads(lines[-1])
    error = record["error"] or {}
    if error.get("stage") == "agent_setup" and OFFLINE.search(error["detail"]):
        pytest.skip(f"the package registries cannot be reached from here: {error['detail'].splitlines()[-1]}")
    record["said"] = f"{done.stdout}\n{done.stderr}"
    return record


def trajectory(tmp: Path) -> dict[str, Any]:
    (path,) = (tmp / "out").rglob("trajectory.json")
    document: dict[str, Any] = json.loads(path.read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    return document


def calls(document: dict[str, Any]) -> list[str]:
    return [
        f"{call['function_name']}: {call['arguments'].get('command')}"
        for step in document["steps"]
        for call in step.get("tool_calls") or ()
    ]


def version_of(agent: str) -> str:
    (spec,) = (spec for spec in SPECS if spec.name == agent)
    assert spec.install is not None
    return spec.install.version


TOOLS = {
    "opencode": use("bash", command=SOLVE, description="Write the answer"),
    "claude-code": use("Bash", command=SOLVE, description="Write the answer"),
    "codex": use("exec_command", cmd=SOLVE),
    "qwen-coder": use("run_shell_command", command=SOLVE, is_background=False),
}
by_hand = pytest.mark.skipif(
    "RLENV_TEST_ALL_AGENTS" not in os.environ, reason="set RLENV_TEST_ALL_AGENTS to install this one, too"
)


@pytest.mark.parametrize(
    "agent",
    [agent if agent == "opencode" else pytest.param(agent, marks=by_hand) for agent in TOOLS],
)
def test_a_program(agent: str, tmp_path: Path) -> None:
    with ScriptedModel([TOOLS[agent], Reply("It is written.")], aside="A title") as model:
        record = run(tmp_path, agent, model)
    assert record["verdict"] == "passed", record["said"]
    assert record["agent_version"] == version_of(agent)
    document = trajectory(tmp_path)
    (call,) = (call for step in document["steps"] for call in step.get("tool_calls") or ())
    assert SOLVE in json.dumps(call["arguments"])
    assert document["steps"][-1]["message"] == "It is written."
    assert document["agent"]["version"] == version_of(agent)
    assert record["usage"]["input_tokens"] >= 200
    assert "Write 42 to /app/answer, and don't ask." in json.dumps(model.requests[-1].body)


def test_mini_swe_agent(tmp_path: Path) -> None:
    end = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
    with ScriptedModel([use("bash", command=SOLVE), use("bash", command=end)]) as model:
        record = run(tmp_path, "mini-swe-agent", model, "--rlenv-record=tapes")
    assert record["verdict"] == "passed", record["said"]
    assert record["agent_version"] == version_of("mini-swe-agent")
    assert calls(trajectory(tmp_path)) == [f"bash: {SOLVE}", f"bash: {end}"]
    assert record["usage"]["input_tokens"] == 200
    # the model is gone, and in another box the program says the same
    again = run(tmp_path, "mini-swe-agent", model, "--rlenv-replay=tapes")
    assert again["verdict"] == "passed", again["said"]
    assert (again["usage"]["input_tokens"], again["usage"]["cost_usd"]) == (200, 0.0)


def test_a_command(tmp_path: Path) -> None:
    """It reaches the endpoint, and nothing else, from a box without network."""
    asks = (
        "import json,os,urllib.request as u;"
        "r=u.Request(os.environ['OPENAI_BASE_URL']+'/chat/completions',"
        "json.dumps({'model':os.environ['RLENV_MODEL'],'messages':[]}).encode(),"
        "{'Authorization':'Bearer '+os.environ['OPENAI_API_KEY'],'Content-Type':'application/json'});"
        "print(json.load(u.urlopen(r))['choices'][0]['message']['content'],file=open('/app/answer','w'))"
    )
    with ScriptedModel(["42"]) as model:
        record = run(tmp_path, f'cmd:python -c "{asks}"', model)
    assert record["verdict"] == "passed", record["said"]
    assert record["agent"] == "cmd"
    assert record["usage"]["model_calls"] == 1


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    """A program whose model never answers has not run: that is an error, never a 0."""
    with ScriptedModel([], models=["other"]) as model:
        record = run(tmp_path, "mini-swe-agent", model)
    assert record["verdict"] == "error", record["said"]
    assert record["error"]["type"] == "ModelNotFound"
    assert record["reward"] is None


@pytest.mark.harbor
@pytest.mark.skipif(
    not HARBOR_PYTHON.exists(), reason="Harbor is not installed: bash scripts/setup_harbor.sh"
)
def test_an_agent_written_for_harbor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs in Harbor's process, asks the model there, and acts in our box."""
    (tmp_path / "own_agents.py").write_text(WRITTEN_FOR_HARBOR)
    monkeypatch.setenv("RLENV_HARBOR_PYTHON", str(HARBOR_PYTHON))
    with ScriptedModel([SOLVE]) as model:
        record = run(tmp_path, "harbor:own_agents:Own", model)
    assert record["verdict"] == "passed", record["said"]
    assert (record["agent"], record["agent_version"]) == ("harbor", "3.1")
    assert record["usage"]["input_tokens"] == 100
    assert [note["code"] for note in record["notes"]] == []
    (who,) = (tmp_path / "out").rglob("who.txt")
    assert who.read_text() == "root\n"


def test_a_session_is_kept_over_the_steps_of_a_task(tmp_path: Path) -> None:
    script = [use("bash", command=SOLVE, description="x"), Reply("First done."), Reply("Second done.")]
    steps = {
        name: {"instruction.md": f"The {name} step.", "tests/test.sh": JUDGE} for name in ("first", "second")
    }
    with ScriptedModel(script, aside="A title") as model:
        record = run(tmp_path, "opencode", model, steps=steps)
    assert record["verdict"] == "passed", record["said"]
    asked = json.dumps(model.requests[-1].body["messages"])
    assert all(words in asked for words in ("The first step.", "First done.", "The second step."))
    assert len(list((tmp_path / "out").rglob("trajectory.json"))) == 2
