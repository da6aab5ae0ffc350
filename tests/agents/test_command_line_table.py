"""The table of programs: what each is given, and the scripts that install them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_rlenv.agents.command_line.install import Install, Npm, Pypi, Script, script
from pytest_rlenv.agents.command_line.spec import CHAT, MESSAGES, RESPONSES, CommandLineSpec, Launch
from pytest_rlenv.agents.command_line.table import SPECS
from pytest_rlenv.agents.loading import BUILT_IN, load_agent
from pytest_rlenv.agents.protocol import McpServer
from pytest_rlenv.toml import loads

SERVERS = (
    McpServer("files", "stdio", command="npx", args=("-y", 'a "b"')),
    McpServer("search", "streamable-http", url="http://side:8000/mcp", headers={"Authorization": "Bearer x"}),
    McpServer("old", "sse", url="http://side:8001/sse"),
)
LAUNCH = Launch(
    "agent",
    model="org/m",
    openai_base_url="http://127.0.0.1:8765/v1",
    anthropic_base_url="http://127.0.0.1:8765",
    key="k-1",
    mcp_servers=SERVERS,
    skills_dir="/skills",
)
INSTALLS = [pytest.param(spec.install, id=spec.name) for spec in SPECS if spec.install is not None] + [
    pytest.param(Script("true\n", "1", "x"), id="script")
]
each_spec = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: str(spec.name))


def launch_for(spec: CommandLineSpec, **more: Any) -> Launch:
    wire = spec.wires[0] if spec.wires else CHAT
    return Launch(**{**vars(LAUNCH), "agent": spec.name, "wire": wire, **more})


@each_spec
def test_every_program_is_an_agent(spec: CommandLineSpec) -> None:
    cls = load_agent(spec.name)
    assert cls.name == spec.name
    assert spec.install is not None
    assert cls.version == spec.install.version
    assert spec.name in BUILT_IN
    layer = cls("openai/m").image_layer()
    assert layer is not None
    assert spec.install.version in layer.script


@each_spec
def test_a_version_of_the_users(spec: CommandLineSpec) -> None:
    agent = load_agent(f"{spec.name}:9.8.7")("openai/m")
    agent.variant = "9.8.7"
    layer = agent.image_layer()
    assert layer is not None
    assert "9.8.7" in layer.script
    agent.variant = "installed"
    assert agent.image_layer() is None


@pytest.mark.parametrize("shell", ["sh", "bash", "dash"])
@pytest.mark.parametrize("install", INSTALLS)
def test_installers_are_shell(install: Install, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    text = script("my agent", install, install.version)
    done = subprocess.run([shell, "-n"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@each_spec
def test_what_is_run_is_shell(spec: CommandLineSpec) -> None:
    done = subprocess.run(["sh", "-n"], input=spec.script(), text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("install", [Npm("@a/b", "1.0; x", "b"), Pypi("a", "1.0; x", "b", needs=("c[d]",))])
def test_a_version_is_no_command(install: Install) -> None:
    text = script("a", install, "1.0; x")
    assert "'@a/b@1.0; x'" in text or "'a==1.0; x' 'c[d]'" in text


@each_spec
def test_the_model_is_told(spec: CommandLineSpec) -> None:
    """Each program is told address, key and model, by variables, settings or arguments."""
    launch = launch_for(spec)
    told = json.dumps(dict(spec.settings(launch))) + json.dumps(spec.variables(launch)) + spec.run
    if spec.wires:
        assert "http://127.0.0.1:8765" in told
        assert "k-1" in told
    assert "org/m" in told
    assert not [value for value in spec.variables(launch).values() if "$RLENV" in value]


@each_spec
def test_a_session_is_gone_on_with(spec: CommandLineSpec) -> None:
    assert spec.variables(launch_for(spec))["RLENV_RESUME"] == ""
    assert spec.variables(launch_for(spec, resume=True))["RLENV_RESUME"] == spec.resume
    assert ("$RLENV_RESUME" in spec.run) == bool(spec.resume)


@each_spec
def test_mcp_servers_are_handed_over(spec: CommandLineSpec) -> None:
    files = spec.settings(launch_for(spec))
    told = "\n".join(files.values())
    for word in ("npx", "http://side:8000/mcp", "http://side:8001/sse"):
        assert (word in told) == spec.takes_mcp


@each_spec
def test_settings_can_be_read(spec: CommandLineSpec) -> None:
    for launch in (launch_for(spec), launch_for(spec, mcp_servers=(), model='a"b')):
        for name, text in spec.settings(launch).items():
            assert (loads(text) if name.endswith(".toml") else json.loads(text)) is not None


def settings_of(name: str, launch: Launch | None = None) -> Any:
    spec = next(each for each in SPECS if each.name == name)
    (file,) = spec.settings(launch or launch_for(spec)).items()
    return loads(file[1]) if file[0].endswith(".toml") else json.loads(file[1])


@pytest.mark.parametrize(
    ("wire", "package", "url"),
    [
        (CHAT, "@ai-sdk/openai-compatible", "http://127.0.0.1:8765/v1"),
        (MESSAGES, "@ai-sdk/anthropic", "http://127.0.0.1:8765/v1"),
        (RESPONSES, "@ai-sdk/openai", "http://127.0.0.1:8765/v1"),
    ],
)
def test_opencode_speaks_what_the_model_does(wire: str, package: str, url: str) -> None:
    provider = settings_of("opencode", Launch(**{**vars(LAUNCH), "wire": wire}))["provider"]["rlenv"]
    assert provider["npm"] == package
    assert provider["options"] == {"baseURL": url, "apiKey": "k-1"}
    assert list(provider["models"]) == ["org/m"]


def test_codex_servers() -> None:
    found = settings_of("codex")
    assert found["model_providers"]["rlenv"]["wire_api"] == "responses"
    assert found["mcp_servers"] == {
        "files": {"command": "npx", "args": ["-y", 'a "b"']},
        "search": {"url": "http://side:8000/mcp", "http_headers": {"Authorization": "Bearer x"}},
        "old": {"url": "http://side:8001/sse"},
    }


def test_goose_is_told_the_root_and_the_path() -> None:
    spec = next(each for each in SPECS if each.name == "goose")
    found = spec.variables(launch_for(spec))
    url = f"{found['OPENAI_HOST']}/{found['OPENAI_BASE_PATH']}"
    assert url == f"{LAUNCH.openai_base_url}/chat/completions"
    assert found["OPENAI_HOST"] == LAUNCH.anthropic_base_url


def test_a_package_without_a_program_is_given_one(tmp_path: Path) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "venv" / "bin" / "python").symlink_to(sys.executable)
    launcher = "\n".join(Pypi("p", "1", "tool", module="this").steps("1").splitlines()[-2:])
    subprocess.run(["sh", "-ec", f"root={tmp_path}\n{launcher}"], check=True)
    done = subprocess.run([tmp_path / "bin" / "tool"], capture_output=True, text=True, check=True)
    assert "Explicit is better than implicit." in done.stdout


def test_litellm_is_told_the_wire() -> None:
    assert Launch("a", "m", CHAT, "http://x/v1", "http://x").variables()["RLENV_LITELLM_MODEL"] == "openai/m"
    variables = Launch("a", "m", MESSAGES, "http://x/v1", "http://x").variables()
    assert variables["RLENV_LITELLM_MODEL"] == "anthropic/m"
    assert variables["RLENV_LITELLM_URL"] == "http://x"


def test_without_an_endpoint_nobodys_key_is_named() -> None:
    assert not [name for name in Launch("a", "m").variables() if "KEY" in name or "URL" in name]


def test_the_key_is_not_shown() -> None:
    assert "k-1" not in repr(LAUNCH)
