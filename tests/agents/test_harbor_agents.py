"""Agents of an installed Harbor, in its own process, with commands and files on our side."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest
from support.harbor_package import HARBOR_PYTHON, OWN_AGENT, needs_harbor
from support.host_box import host_box
from support.moved_box import moved_context
from support.scripted_model import ScriptedModel

from pytest_rlenv.agents.harbor.agent import PYTHON, HarborAgent, _variables, find_python
from pytest_rlenv.agents.harbor.process import HarborProcess
from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.agents.protocol import AgentContext, AgentStopped, AgentTimedOut
from pytest_rlenv.errors import AgentFailed, SpecError

IMPORTS = """
import asyncio

from harbor.agents.installed.base import NonZeroAgentExitCodeError
"""
METHODS = """
    async def setup(self, environment):
        print("this is no message")
        self.home = (await environment.exec("pwd", user="root")).stdout.strip()

    async def run(self, instruction, environment, context):
        done = await environment.exec("echo $GREETING; echo oops >&2; exit 3", env={"GREETING": "hello"})
        source = self.logs_dir / "given.txt"
        source.write_text(instruction)
        await environment.upload_file(source, f"{self.home}/up/given.txt")
        (self.logs_dir / "folder" / "sub").mkdir(parents=True)
        (self.logs_dir / "folder" / "sub" / "deep.txt").write_text("deep")
        await environment.upload_dir(self.logs_dir / "folder", f"{self.home}/tree")
        await environment.download_file(f"{self.home}/up/given.txt", self.logs_dir / "back.txt")
        both = await asyncio.gather(*(environment.exec(f"echo {n}") for n in range(5)))
        lines = [done.stdout, str(done.return_code), *(each.stdout.strip() for each in both)]
        (self.logs_dir / "said.txt").write_text(" ".join(line.strip() for line in lines))
        context.n_input_tokens = 7
        context.cost_usd = 0.5


class Late(Own):
    async def run(self, instruction, environment, context):
        try:
            await asyncio.sleep(60)
        finally:
            (self.logs_dir / "cancelled.txt").write_text("yes")

    def populate_context_post_run(self, context):
        context.n_output_tokens = len((self.logs_dir / "cancelled.txt").read_text())


class Broken(Own):
    async def run(self, instruction, environment, context):
        raise {"judged": NonZeroAgentExitCodeError, "error": KeyError}[instruction]("of its own")


class Asks(Own):
    async def run(self, instruction, environment, context):
        from harbor.llms.lite_llm import LiteLLM
        reply = await LiteLLM(model_name=self.model_name).call(prompt=instruction)
        (self.logs_dir / "reply.txt").write_text(reply.content)


class Gone(Own):
    async def run(self, instruction, environment, context):
        import os
        os._exit(9)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the agents above where Harbor's interpreter finds them."""
    (tmp_path / "own_agents.py").write_text(IMPORTS + OWN_AGENT + METHODS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv(PYTHON, str(HARBOR_PYTHON))


def agent(name: str, model: str | None = None) -> HarborAgent:
    made = HarborAgent(model)
    made.variant = name
    return made


def prepared(name: str, context: AgentContext) -> HarborAgent:
    made = agent(f"own_agents:{name}")
    made.prepare(context)
    return made


@needs_harbor
class TestWithHarbor:
    def test_commands_and_files(self, own: None, tmp_path: Path) -> None:
        context = moved_context(tmp_path, "Do it.")
        made = prepared("Own", context)
        assert made.version == "3.1"
        made.run(context)
        box, logs = host_box(context).folder, context.logs
        assert (logs / "said.txt").read_text().split()[:1] == ["hello"]
        assert (logs / "said.txt").read_text().split()[-6:] == ["3", "0", "1", "2", "3", "4"]
        assert (logs / "back.txt").read_text() == "Do it."
        put = f"{box}{box}"  # what is put by an absolute path is in the box's own folder
        assert Path(put, "tree/sub/deep.txt").read_text() == "deep"
        told = made.finish(context)
        assert told is not None
        assert told.usage == {"input_tokens": 7, "cost_usd": 0.5}
        assert "this is no message" in (logs / "harbor.txt").read_text()

    def test_time_is_up(self, own: None, tmp_path: Path) -> None:
        context = moved_context(tmp_path)
        made = prepared("Late", context)
        late = moved_context(tmp_path, deadline=0.3)
        with pytest.raises(AgentTimedOut):
            made.run(late)
        told = made.finish(late)
        assert told is not None
        assert told.usage == {"output_tokens": 3}

    def test_what_harbor_judges_and_what_not(self, own: None, tmp_path: Path) -> None:
        context = moved_context(tmp_path, "judged")
        made = prepared("Broken", context)
        with pytest.raises(AgentStopped, match="NonZeroAgentExitCodeError: of its own"):
            made.run(context)
        with pytest.raises(AgentFailed, match=r"own_agents:Broken raised KeyError: 'of its own'"):
            made.run(moved_context(tmp_path, "error"))

    def test_a_process_that_ends(self, own: None, tmp_path: Path) -> None:
        context = moved_context(tmp_path)
        made = prepared("Gone", context)
        with pytest.raises(AgentFailed, match=r"Harbor's process ended under its agent \(exit code 9\)"):
            made.run(context)

    @pytest.mark.parametrize("killed", [False, True])
    def test_its_folder_goes_with_it(
        self, killed: bool, own: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        temporary = tmp_path / "temporary"
        temporary.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        process = HarborProcess(str(HARBOR_PYTHON), os.environ, tmp_path / "log")
        assert len(list(temporary.iterdir())) == 1
        if killed:  # as it is for a child whose parent was killed: its pipe is closed, and nobody ends it
            process._process.stdin.close()
            process._process.wait(timeout=30)
            assert list(temporary.iterdir()) == []
        process.close()
        assert list(temporary.iterdir()) == []

    def test_no_such_agent(self, own: None) -> None:
        with pytest.raises(SpecError, match="agent harbor:no-such"):
            agent("no-such").check()
        agent("terminus-2").check()

    def test_the_model_is_called_through_our_endpoint(self, own: None, tmp_path: Path) -> None:
        with ScriptedModel(["It is done."], key="k", models=["m"]) as model:
            endpoint = ModelEndpoint(model.url, model.root, "k", "m", "openai")
            context = moved_context(tmp_path, "Ask.", model="openai/m", model_endpoint=endpoint)
            made = agent("own_agents:Asks", "openai/m")
            made.prepare(context)
            made.run(context)
        assert (context.logs / "reply.txt").read_text() == "It is done."
        assert [message["content"] for message in model.requests[0].body["messages"]] == ["Ask."]


def test_no_providers_key_is_handed_to_harbor() -> None:
    given = {"OPENAI_API_KEY": "real", "GEMINI_API_KEY": "real", "HF_TOKEN": "real", "PATH": "/bin"}
    endpoint = ModelEndpoint("http://here/v1", "http://here", "ours", "m", "google")
    found = _variables(given, endpoint)
    assert "real" not in found.values()
    assert (found["OPENAI_API_KEY"], found["PATH"]) == ("ours", "/bin")
    assert _variables(given, None)["GEMINI_API_KEY"] == "real"


def test_where_the_model_is_called_from() -> None:
    assert agent("claude-code").calls_model_from_box
    assert not agent("terminus-2").calls_model_from_box
    assert not agent("my_agents:Own").calls_model_from_box


def test_no_harbor(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="need an installed Harbor"):
        find_python({"PATH": str(tmp_path)})
    with pytest.raises(SpecError, match="there is no such program"):
        find_python({PYTHON: str(tmp_path / "python")})


def test_the_interpreter_of_an_installed_harbor(tmp_path: Path) -> None:
    program = tmp_path / "harbor"
    program.write_text(f"#!{sys.executable}\n")
    program.chmod(0o755)
    assert find_python({"PATH": str(tmp_path)}) == sys.executable
    assert find_python({PYTHON: sys.executable, "PATH": os.devnull}) == sys.executable


def test_an_interpreter_without_harbor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON, sys.executable)
    with pytest.raises(SpecError, match="agent harbor:nop: ModuleNotFoundError"):
        agent("nop").check()
    with pytest.raises(SpecError, match="whose agent"):
        agent("").check()
