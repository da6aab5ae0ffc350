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
from support.harbor_package import HARBOR_PYTHON, OWN_AGENT, needs_harbor
from support.rollouts import write_steps
from support.scripted_model import Reply, ScriptedModel, use
from support.tasks import write_task

from pytest_rlenv.agents.command_line.table import SPECS

pytestmark = pytest.mark.docker

SCHEMA = json.loads((Path(__file__).parents[1] / "trajectory" / "atif.schema.json").read_text())
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
DOCKERFILE = "COPY server.py skills /offered/\nWORKDIR /app\n"
TRUST = (
    "COPY certificates.crt /certificates.crt\n"
    "ENV NODE_EXTRA_CA_CERTS=/certificates.crt PIP_CERT=/certificates.crt SSL_CERT_FILE=/certificates.crt\n"
)
"""This machine's certificates, since a registry may be reached through a mirror of one's own."""
OFFLINE = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|name resolution|NewConnectionError|ConnectTimeoutError"
)
TASK = """\
schema_version = "1.4"
[environment]
network_mode = "no-network"
skills_dir = "/offered"
[[environment.mcp_servers]]
name = "answers"
transport = "stdio"
command = "python3"
args = ["/offered/server.py"]
[agent]
timeout_sec = 240
"""
SERVER = """\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        said = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}}
        said["serverInfo"] = {"name": "answers", "version": "1"}
    elif asked["method"] == "tools/list":
        tool = {"name": "oracle_of_delphi", "description": "x", "inputSchema": {"type": "object"}}
        said = {"tools": [tool]}
    else:
        said = {}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": said}), flush=True)
"""
SKILL = """\
---
name: counting-sheep
description: Says how sheep are counted in the dark.
---
One, two, many.
"""
JUDGE = (
    '[ "$(cat /app/answer)" = 42 ] && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt'
)
SOLVE = "echo 42 >/app/answer"
STEPS = f"""\
{TASK}
[metadata.rlenv]
agent_session = "keep"
[[steps]]
name = "first"
[[steps]]
name = "second"
"""
METHODS = """
    async def setup(self, environment):
        await environment.exec("mkdir -p /opt/own", user="root")

    async def run(self, instruction, environment, context):
        from harbor.llms.lite_llm import LiteLLM
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
    image: str = "python:3.11-slim",
) -> dict[str, Any]:
    """Run the task, maybe one of several steps, with an agent and more options, and return its record."""
    dockerfile = f"FROM {image}\n{DOCKERFILE}" + (TRUST if CERTIFICATES.exists() else "")
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
    context = tmp / "env" / "task" / "environment"
    (context / "skills" / "sheep").mkdir(parents=True, exist_ok=True)
    (context / "skills" / "sheep" / "SKILL.md").write_text(SKILL)
    (context / "server.py").write_text(SERVER)
    if CERTIFICATES.exists():
        shutil.copyfile(CERTIFICATES, context / "certificates.crt")
    (tmp / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rlenv=env"]
    command += ["--rlenv-output=out", "--rlenv-sandbox=docker", f"--agent={agent}"]
    if agent == "gemini-cli":
        command += ["--model=google/m", f"--rlenv-model-url={model.google_url}", *more]
    else:
        command += ["--model=scripted/m", f"--rlenv-model-url={model.url}", *more]
    done = subprocess.run(
        command,
        cwd=tmp,
        env={**os.environ, "GEMINI_API_KEY": "k"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    lines = (tmp / "out" / "results.jsonl").read_text().splitlines() if (tmp / "out").exists() else []
    assert lines, f"{done.stdout}\n{done.stderr}"
    record: dict[str, Any] = json.loads(lines[-1])
    error = record["error"] or {}
    # CI installs packages itself, so there a registry that does not answer is a failure
    offline = error.get("stage") == "agent_setup" and OFFLINE.search(error["detail"])
    if offline and not os.environ.get("CI"):
        pytest.skip(f"the package registries cannot be reached from here: {error['detail'].splitlines()[-1]}")
    record["said"] = f"{done.stdout}\n{done.stderr}"
    return record


def trajectory(tmp: Path) -> dict[str, Any]:
    (document,) = trajectories(tmp)
    return document


def trajectories(tmp: Path) -> list[dict[str, Any]]:
    documents = [json.loads(path.read_text()) for path in (tmp / "out").rglob("trajectory.json")]
    for document in documents:
        jsonschema.Draft202012Validator(SCHEMA).validate(document)
    return documents


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
    "gemini-cli": use("run_shell_command", command=SOLVE),
    "qwen-coder": use("run_shell_command", command=SOLVE, is_background=False),
}
by_hand = pytest.mark.skipif(
    "RLENV_TEST_ALL_AGENTS" not in os.environ, reason="set RLENV_TEST_ALL_AGENTS to install this one, too"
)


@pytest.mark.parametrize(
    "agent",
    [agent if agent == "opencode" else pytest.param(agent, marks=by_hand) for agent in TOOLS],
)
def test_a_program_over_the_steps_of_a_task(agent: str, tmp_path: Path) -> None:
    """It has the task's MCP server and skill, acts, and goes on in the second step where it was."""
    script = [TOOLS[agent], Reply("First done."), Reply("Second done.")]
    steps = {
        name: {"instruction.md": f"The {name} step, don't ask.", "tests/test.sh": JUDGE}
        for name in ("first", "second")
    }
    with ScriptedModel(script, aside="A title") as model:
        record = run(tmp_path, agent, model, steps=steps)
    assert record["verdict"] == "passed", record["said"]
    assert record["agent_version"] == version_of(agent)
    first, second = sorted(trajectories(tmp_path), key=lambda document: len(calls(document)), reverse=True)
    (call,) = (call for step in first["steps"] for call in step.get("tool_calls") or ())
    assert SOLVE in json.dumps(call["arguments"])
    assert first["steps"][-1]["message"] == "First done."
    assert second["steps"][-1]["message"] == "Second done."
    assert first["agent"]["version"] == version_of(agent)
    assert record["usage"]["input_tokens"] >= 300
    asked = json.dumps(model.requests[-1].body)
    assert all(words in asked for words in ("The first step, don't ask.", "First done.", "The second step"))
    assert "oracle_of_delphi" in asked
    assert "Says how sheep are counted in the dark." in asked


@by_hand
def test_aider(tmp_path: Path) -> None:
    """It has no tools: what it is to write stands in the model's reply."""
    with ScriptedModel(lambda _: Reply("It is written.\n\nanswer\n```\n42\n```\n")) as model:
        record = run(tmp_path, "aider", model)
    assert record["verdict"] == "passed", record["said"]
    assert record["agent_version"] == version_of("aider")
    assert "It is written." in json.dumps(trajectory(tmp_path)["steps"])
    asked = json.dumps(model.requests[0].body)
    assert "Write 42 to /app/answer, and don't ask." in asked
    assert "answers (stdio): python3 /offered/server.py" in asked


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


@by_hand
def test_openhands(tmp_path: Path) -> None:
    """It needs Python 3.12: `bash scripts/setup_images.sh python:3.12-slim` makes the image."""
    script = [use("execute_bash", command=SOLVE, security_risk="LOW"), use("finish", message="It is done.")]
    with ScriptedModel(script) as model:
        record = run(tmp_path, "openhands", model, image="python:3.12-slim")
    assert record["verdict"] == "passed", record["said"]
    assert record["agent_version"] == version_of("openhands")
    document = trajectory(tmp_path)
    assert calls(document) == [f"run: {SOLVE}", "finish: None"]
    assert document["steps"][-1]["message"] == "It is done."
    assert record["usage"]["input_tokens"] >= 200
    assert "oracle_of_delphi" in json.dumps(model.requests[-1].body)


def test_a_command(tmp_path: Path) -> None:
    """It reaches the endpoint, and nothing else, from a box without network.

    One whose model never answers has not run: that is an error, never a 0.
    """
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
    with ScriptedModel([], models=["other"]) as model:
        record = run(tmp_path, f'cmd:python -c "{asks}"', model)
    assert record["verdict"] == "error", record["said"]
    assert record["error"]["type"] == "ModelNotFound"
    assert record["reward"] is None


@needs_harbor
def test_an_agent_written_for_harbor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs in Harbor's process, asks the model there, and acts in our box."""
    (tmp_path / "own_agents.py").write_text(OWN_AGENT + METHODS)
    monkeypatch.setenv("RLENV_HARBOR_PYTHON", str(HARBOR_PYTHON))
    with ScriptedModel([SOLVE]) as model:
        record = run(tmp_path, "harbor:own_agents:Own", model)
    assert record["verdict"] == "passed", record["said"]
    assert (record["agent"], record["agent_version"]) == ("harbor", "3.1")
    assert record["usage"]["input_tokens"] == 100
    assert [note["code"] for note in record["notes"]] == []
    (who,) = (tmp_path / "out").rglob("who.txt")
    assert who.read_text() == "root\n"
