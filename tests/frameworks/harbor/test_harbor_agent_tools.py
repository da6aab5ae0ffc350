"""What a task has for its agent beside the instruction: tools, skills, a trajectory; and the user's words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.rollouts import Runner, Scripted, write_steps
from support.tasks import write_task

from pytest_rlenv.agents.protocol import McpServer
from pytest_rlenv.errors import TaskInvalid, VariableMissing

JUDGED = "# scripted: reward=1"
ATIF = {"schema_version": "ATIF-v1.6", "steps": [{"step_id": 1, "source": "user", "message": "hi"}]}
TOOLS = """
[environment]
skills_dir = "/skills"
[[environment.mcp_servers]]
name = "web"
transport = "http"
url = "http://tools:8000/mcp"
headers = {Authorization = "Bearer ${TOKEN}", X-Trace = "on"}
[[environment.mcp_servers]]
name = "local"
transport = "stdio"
command = "/usr/bin/tool"
args = ["-v"]
"""


class Toolless(Scripted):
    uses_task_tools = False


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    return Runner(tmp_path, environ={"TOKEN": "s3cret"})


def test_an_agent_is_told_of_tools_skills_and_trajectory(run: Runner, tmp_path: Path) -> None:
    task = write_task(tmp_path / "task", config=TOOLS, test=JUDGED)
    (task / "trajectory.json").write_text(json.dumps(ATIF))
    agent = Scripted()
    assert run(task, agent).error is None
    (given,) = agent.given
    assert given.skills_dir == "/skills"
    assert given.trajectory == (task / "trajectory.json").resolve()
    assert given.mcp_servers == (
        McpServer(
            "web",
            "streamable-http",
            url="http://tools:8000/mcp",
            headers={"Authorization": "Bearer s3cret", "X-Trace": "on"},
        ),
        McpServer("local", "stdio", command="/usr/bin/tool", args=("-v",)),
    )
    assert "s3cret" not in repr(given.mcp_servers)


def test_an_agent_without_use_for_them_is_told_nothing(run: Runner, tmp_path: Path) -> None:
    task = write_task(tmp_path / "task", config=TOOLS, test=JUDGED)
    (task / "trajectory.json").write_text("no JSON at all")
    run.environ = {}
    agent = Toolless()
    assert run(task, agent).error is None
    (given,) = agent.given
    assert (given.mcp_servers, given.skills_dir, given.trajectory) == ((), None, None)


def test_a_header_without_its_variable(run: Runner, tmp_path: Path) -> None:
    run.environ = {}
    done = run(write_task(tmp_path / "task", config=TOOLS, test=JUDGED), Scripted())
    assert isinstance(done.error, VariableMissing)
    assert done.error.message == (
        "task.toml: not set in the environment: TOKEN (header 'Authorization' of MCP server 'web')"
    )
    assert done.boxes == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "trajectory.json: not JSON"),
        ("[" * 100_000, "trajectory.json: not JSON"),
        ("[]", "trajectory.json: not an ATIF document"),
        ('{"schema_version": "1.0", "steps": [1]}', "not an ATIF document"),
        ('{"schema_version": "ATIF-v1.6", "steps": []}', "not an ATIF document"),
    ],
)
def test_a_trajectory_that_is_none(run: Runner, tmp_path: Path, content: str, words: str) -> None:
    task = write_task(tmp_path / "task", test=JUDGED)
    (task / "trajectory.json").write_text(content)
    done = run(task, Scripted())
    assert isinstance(done.error, TaskInvalid)
    assert words in done.error.message
    assert done.boxes == []


def test_only_the_first_step_has_an_earlier_trajectory(run: Runner, tmp_path: Path) -> None:
    step = {"tests/test.sh": JUDGED, "trajectory.json": json.dumps(ATIF)}
    task = write_steps(
        tmp_path / "task", '[[steps]]\nname = "a"\n[[steps]]\nname = "b"\n', {"a": step, "b": step}
    )
    agent = Scripted()
    run(task, agent)
    assert [given.trajectory for given in agent.given] == [
        (task / "steps/a/trajectory.json").resolve(),
        None,
    ]


def test_the_users_words_come_after_the_tasks(run: Runner, tmp_path: Path) -> None:
    agent = Scripted()
    run(
        write_task(tmp_path / "task", test=JUDGED, instruction="Do it.\n"),
        agent,
        extra=("Be brief.", "Thanks."),
    )
    assert agent.given[0].instruction == "Do it.\n\n\nBe brief.\n\nThanks."


def test_the_verifier_can_read_what_the_agent_logged_on_this_machine(run: Runner, tmp_path: Path) -> None:
    class Logs(Scripted):
        def run(self, context: object) -> object:  # type: ignore[override]
            logs = context.logs  # type: ignore[attr-defined]
            (logs / "sub").mkdir()
            (logs / "sub" / "trajectory.json").write_text("{}")
            (logs / "link").symlink_to("/etc/passwd")
            return None

    task = write_task(tmp_path / "task", test="# scripted: reward-if=/logs/agent/sub/trajectory.json")
    done = run(task, Logs())
    assert done.rollout.rewards == {"reward": 1.0}
    assert "/logs/agent/link" not in done.boxes[0].files
