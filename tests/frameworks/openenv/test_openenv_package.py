"""Against the package `openenv` itself: its server, task API and tools, and what it generates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.openenv import write_environment
from support.openenv_package import GUESS_APP, TOOLS_APP

PYTHON = Path(__file__).parents[3] / ".matrix" / "openenv-0.10.0" / "bin" / "python"

pytestmark = [
    pytest.mark.openenv,
    pytest.mark.skipif(not PYTHON.exists(), reason="OpenEnv is not installed: bash scripts/setup_openenv.sh"),
]

CALLER = '''
import json

from pytest_rlenv.agents.episode import Player


class Adding(Player):
    """Calls a tool wrongly, then rightly."""

    def play(self, episode, context):
        tool, = [tool for tool in episode.tools if tool.name == "add"]
        assert set(tool.parameters["properties"]) == {"a", "b"}
        said = [episode.call("subtract", {}), episode.call("add", {"a": "x", "b": 1})]
        said += [episode.call("add", {"a": 1, "b": 1}), episode.call("add", json.dumps({"a": 2, "b": 3}))]
        (context.logs / "said.json").write_text(json.dumps(said))


class Guessing(Player):
    """Takes an action that does not fit, then the right one."""

    def play(self, episode, context):
        schema = episode.action_schema
        shown = [episode.act({"guess": "many"}), episode.act({"guess": 4})]
        (context.logs / "shown.json").write_text(json.dumps([schema, shown]))
'''


def pytest_of_ours(folder: Path, *args: str) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    """Run the environment in a folder and return its records, by task and agent."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "callers.py").write_text(CALLER)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rlenv=env", "--rlenv-output=out"]
    server = ["--rlenv-openenv-launcher=process", f"--rlenv-openenv-python={PYTHON}", "--rlenv-trust-code"]
    environ = {**os.environ, "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(
        [*command, *server, *args], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    lines = (folder / "out" / "results.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return {f"{record['task']}::{record['agent']}": record for record in records}, done


def package(folder: Path, app: str, manifest: str, **plans: Any) -> None:
    write_environment(folder, manifest, **plans)
    (folder / "server").mkdir()
    (folder / "server" / "__init__.py").write_text("")
    (folder / "server" / "app.py").write_text(app)


def told(record: dict[str, Any]) -> str:
    if record["error"]:
        return str(record["error"]["type"])
    return "skipped" if record["skip_reason"] else str(record["rewards"]["reward"])


def test_the_outcomes_of_a_real_server(tmp_path: Path) -> None:
    def plan(target: int, *actions: dict[str, Any]) -> dict[str, Any]:
        return {"reset": {"seed": 0, "options": {"target": target}}, "actions": list(actions)}

    package(
        tmp_path / "env",
        GUESS_APP,
        "name: guess\napp: server.app:app\n",
        a_right=plan(7, {"guess": 1}, {"guess": 7}),
        b_wrong=plan(7, {"guess": 1}),
        c_null=plan(7, {"guess": 7, "mood": "null"}),
        d_nan=plan(7, {"guess": 7, "mood": "nan"}),
        e_bool=plan(7, {"guess": 7, "mood": "bool"}),
        f_explodes=plan(7, {"guess": 7, "mood": "explode"}),
        g_unfit=plan(7, {"guess": "many"}),
        h_dies=plan(7, {"guess": 7, "mood": "die"}),
        i_after=plan(7, {"guess": 7}),
        j_slow=plan(7, {"guess": 7, "mood": "slow"}),
    )
    records, done = pytest_of_ours(tmp_path, "--rlenv-openenv-step-timeout=2")
    assert {name.partition("::")[0]: told(record) for name, record in records.items()} == {
        "a-right": "1.0",
        "b-wrong": "0.25",
        "c-null": "RewardMissing",
        "d-nan": "RewardMissing",  # null on the wire
        "e-bool": "1.0",
        "f-explodes": "EnvironmentFailed",
        "g-unfit": "ReferenceInvalid",
        "h-dies": "SandboxFailed",
        "i-after": "1.0",  # on a fresh server
        "j-slow": "StageTimeout",
    }, done.stdout
    assert "exit code 9" in records["h-dies::oracle"]["error"]["message"]
    assert "environment exploded" in records["f-explodes::oracle"]["error"]["message"]


def test_tasks_that_the_server_lists_are_chosen_and_verified(tmp_path: Path) -> None:
    package(tmp_path / "env", GUESS_APP, "name: guess\napp: server.app:app\n")
    records, done = pytest_of_ours(
        tmp_path, "--agent=callers:Guessing,check:contract,check:determinism", "--rlenv-threshold=0.2"
    )
    assert sorted(name for name in records if name.endswith("::Guessing")) == [
        "test/test-0::Guessing",
        "train/train-0::Guessing",
        "train/train-1::Guessing",
        "train/train-2::Guessing",
    ], done.stdout
    rewards = {name: told(record) for name, record in records.items()}
    assert rewards["train/train-1::Guessing"] == "1.0"  # 4 is the number of task 1, and of no other
    assert rewards["train/train-0::Guessing"] == rewards["test/test-0::Guessing"] == "0.25"
    assert rewards["train/train-1::check:determinism"] == "1.0"
    assert not [note for record in records.values() for note in record["notes"] if "select" in note["code"]]
    (left,) = (tmp_path / "out" / "rollouts").glob("train-train-1*/agent/shown.json")
    schema, shown = json.loads(left.read_text())
    assert schema["properties"]["guess"]["type"] == "integer"
    assert "guess" in shown[0]["error"]
    assert shown[1]["hint"] == "correct"


def test_the_tools_of_a_real_server_are_called(tmp_path: Path) -> None:
    package(tmp_path / "env", TOOLS_APP, "name: adding\napp: server.app:app\n")
    records, done = pytest_of_ours(tmp_path, "--agent=callers:Adding")
    assert told(records["episode::Adding"]) == "1.0", done.stdout
    (left,) = (tmp_path / "out" / "rollouts").glob("*/agent/said.json")
    said = json.loads(left.read_text())
    assert json.loads(said[0])["error"]["error_type"] == "tool_not_found"
    assert json.loads(said[1])["error"]["error_type"] in ("invalid_args", "execution_error")
    assert said[2:] == ["2", "5"]


def test_what_openenv_generates_passes_as_it_is(tmp_path: Path) -> None:
    generated = subprocess.run(
        [PYTHON.with_name("openenv"), "init", "env"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert generated.returncode == 0, generated.stderr
    records, done = pytest_of_ours(
        tmp_path, "--agent=oracle,nop,check:contract,check:determinism,check:isolation"
    )
    assert {name.partition("::")[2]: told(record) for name, record in records.items()} == {
        "oracle": "skipped",
        "nop": "0.0",
        "check:contract": "1.0",
        "check:determinism": "1.0",
        "check:isolation": "1.0",
    }, done.stdout
