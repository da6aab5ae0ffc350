"""Runs with agents that ask a model: what is judged, what is an error, what is refused at the start."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import requests  # noqa: F401 - loaded for good: pytester forgets what a run in this process imports
from support.project import Project
from support.scripted_model import Failure, Reply, ScriptedModel, context_exceeded, use
from support.tasks import write_task
from support.trajectories import shape, shown_in_the_report

import pytest_rlenv.agents.bash.agent
import pytest_rlenv.agents.replay.agent
import pytest_rlenv.model_proxy.proxy  # noqa: F401 - likewise
from pytest_rlenv.agents import loading
from pytest_rlenv.agents.protocol import Stop
from pytest_rlenv.trajectory.reading import read_trajectory

SOLVE = use("bash", command="# scripted: touch=/app/answer\n# scripted: print=solved")
JUDGE = "# scripted: reward-if=/app/answer"

AGENTS = """
from pytest_rlenv.agents.bash.agent import BashAgent
from pytest_rlenv.agents.bash.limits import Limits, Patience
from pytest_rlenv.agents.protocol import Agent, AgentOutcome, AgentStopped, Stop
from pytest_rlenv.errors import SpecError


class Quick(BashAgent):
    patience = Patience(tries=2, first=0.0)


class Brief(Quick):
    limits = Limits(turns=1)


class Stops(Agent):
    def run(self, context):
        outcome = AgentOutcome(usage={"turns": 7}, notes={"odd-thing": "seen"})
        raise AgentStopped("enough", Stop.COST_BUDGET, outcome=outcome)


class Unready(Agent):
    def check(self):
        raise SpecError("agent Unready: no key", hint="set KEY")

    def run(self, context):
        raise AssertionError("it never runs")


class Broken(Unready):
    def check(self):
        raise ZeroDivisionError("oh")
"""


class Models:
    """Makes scripted models and closes them."""

    def __init__(self) -> None:
        self.made: list[ScriptedModel] = []

    def __call__(self, script: Any, **options: Any) -> ScriptedModel:
        self.made.append(ScriptedModel(script, **options))
        return self.made[-1]


@pytest.fixture
def models() -> Iterator[Models]:
    made = Models()
    yield made
    for each in made.made:
        each.close()


@pytest.fixture
def demo(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    project.pytester.makepyfile(mine=AGENTS)
    project.task("a", test=JUDGE)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real-secret-key")
    return project


def run(project: Project, url: str, *args: str | Path, agent: str = "mine:Quick") -> pytest.RunResult:
    return project.demo("--agent", agent, "--model", "openai/m", "--rlenv-model-url", url, *args)


def test_a_model_solves_a_task(demo: Project, models: Models) -> None:
    model = models([SOLVE, "done"], key="sk-real-secret-key")
    run(demo, model.url, agent="bash").assert_outcomes(passed=1)
    (record,) = demo.records()
    assert record["model"] == "openai/m"
    assert record["agent"] == "bash"
    assert record["usage"] | {"input_tokens": 200, "output_tokens": 40, "turns": 2} == record["usage"]
    (path,) = record["trajectories"]
    rows = shape(read_trajectory(demo.run_dir / path))
    assert [row[0] for row in rows] == ["system", "user", "agent", "agent"]
    assert rows[2][2:] == ([f"bash {json.dumps(SOLVE.tools[0].arguments)}"], ["solved\n[exit code 0]"])
    assert rows[3][1] == "done"
    assert shown_in_the_report(demo.run_dir / path) == rows
    everything = b"".join(p.read_bytes() for p in demo.run_dir.rglob("*") if p.is_file())
    assert b"sk-real-secret-key" not in everything
    assert model.requests[0].body["messages"][1]["content"].startswith("Write the answer.")


@pytest.mark.parametrize(
    ("script", "options", "agent", "note"),
    [
        ([use("bash", command="# scripted: print=x")], [], "mine:Brief", "turn-limit"),
        ([SOLVE, SOLVE], ["--rlenv-max-turns=1"], "mine:Quick", "turn-limit"),
        ([SOLVE, SOLVE], ["--rlenv-max-tokens=50"], "mine:Quick", "token-budget"),
        ([Reply("I will not", stop="refusal")], [], "mine:Quick", "refusal"),
        ([Failure(400, "filtered", "content_filter")], [], "mine:Quick", "refusal"),
        ([context_exceeded()], [], "mine:Quick", "context-exceeded"),
    ],
)
def test_a_limit_or_a_refusal_is_judged_by_the_reward(
    script: Sequence[Any], options: list[str], agent: str, note: str, demo: Project, models: Models
) -> None:
    run(demo, models(script).url, *options, agent=agent)
    (record,) = demo.records()
    assert record["verdict"] in ("passed", "failed")
    assert record["reward"] is not None
    codes = [code for each in record["notes"] if not (code := each["code"]).startswith("model-")]
    assert codes == [note], record["notes"]


@pytest.mark.parametrize(
    ("script", "options", "error", "kind"),
    [
        ([], {"key": "another"}, "ModelAccessDenied", "config"),
        ([], {"models": ["another"]}, "ModelNotFound", "config"),
        ([Failure(503, "overloaded")] * 9, {}, "ModelUnavailable", "infra"),
        ([Failure(429, "slow down")] * 9, {}, "ModelUnavailable", "infra"),
        ([SOLVE, *[Failure(500, "oh")] * 9], {}, "ModelUnavailable", "infra"),
        ([Failure(400, "Invalid value: tools")], {}, "ModelRequestInvalid", "agent"),
    ],
)
def test_a_model_that_cannot_be_had_is_an_error_and_never_a_0(
    script: Sequence[Any], options: dict[str, Any], error: str, kind: str, demo: Project, models: Models
) -> None:
    run(demo, models(script, **options).url).assert_outcomes(errors=1)
    (record,) = demo.records()
    assert record["verdict"] == "error"
    assert record["reward"] is None
    assert (record["error"]["type"], record["error"]["kind"]) == (error, kind), record["error"]
    assert record["error"]["stage"] == "agent"


def test_nobody_at_the_address_is_an_error(demo: Project, models: Models) -> None:
    model = ScriptedModel([])
    model.close()
    run(demo, model.url).assert_outcomes(errors=1)
    (record,) = demo.records()
    assert record["error"]["type"] == "ModelUnavailable"


def test_a_model_that_never_answers_is_an_error_and_no_agent_that_was_slow(
    demo: Project, models: Models
) -> None:
    demo.task("a", test=JUDGE, config="[agent]\ntimeout_sec = 1.3\n")
    gate = threading.Event()

    def hang(_: Any) -> Reply:
        gate.wait(20)
        return Reply("too late")

    model = models(hang)
    try:
        run(demo, model.url).assert_outcomes(errors=1)
    finally:
        gate.set()
    (record,) = demo.records()
    assert record["error"]["type"] == "ModelUnavailable"
    assert "it never answered, and nothing came for 1 s" in record["error"]["message"]
    assert [note["code"] for note in record["notes"]] == ["agent-timeout", "model-usage-unknown"]
    assert record["usage"]["turns"] == 0


def test_what_an_agent_says_as_it_stops_is_kept(demo: Project) -> None:
    demo.demo("--agent", "mine:Stops")
    (record,) = demo.records()
    assert record["usage"] == {"turns": 7}
    assert [(note["code"], note["text"]) for note in record["notes"]] == [
        ("cost-budget", "the agent stopped: enough"),
        ("odd-thing", "seen"),
    ]
    assert record["verdict"] == "failed"


# ---- before anything starts


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--agent", "bash"], "*--model*"),
        (["--agent", "bash", "--model", "openai/m"], "*OPENAI_API_KEY is not set*"),
        (["--agent", "replay"], "*it is not said what to replay*"),
        (["--agent", "replay:not-there"], "*not-there does not exist*"),
        (["--agent", "oracle:fast"], "*agent oracle has no variants*"),
        (["--agent", "mine:Unready"], "*agent Unready: no key*"),
        (["--agent", "mine:Broken"], "*its check raised ZeroDivisionError: oh*"),
        (["--agent", "oracle,mine:Unready"], "*agent Unready: no key*"),
    ],
)
def test_what_is_missing_is_a_usage_error_before_a_sandbox_is_asked(
    args: list[str], said: str, demo: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    result = demo.run("--rlenv", "envs/demo", *args, sandbox="not_there:Sandbox")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])
    result.stderr.no_fnmatch_line("*Traceback*")


def test_a_list_of_tasks_needs_no_key(demo: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    result = demo.demo("--agent", "bash", "--co", "-q")
    assert result.ret == pytest.ExitCode.OK


# ---- replays


def test_a_run_is_replayed_and_a_change_of_the_environment_is_told(demo: Project, models: Models) -> None:
    run(demo, models([SOLVE, "done"]).url, "--rlenv-output=runs/first", agent="bash").assert_outcomes(
        passed=1
    )
    demo.demo("--agent", "replay:runs/first", "--rlenv-output=second").assert_outcomes(passed=1)
    (record,) = read(demo.path / "second")
    assert record["agent"] == "replay"
    assert record["notes"] == []
    assert record["usage"] == {"commands": 1, "diverged": 0, "outputs_differing": 0}
    path = demo.path / "runs" / "first" / read(demo.path / "runs" / "first")[0]["trajectories"][0]
    path.write_text(path.read_text().replace('"exit_code": 0', '"exit_code": 5'))
    demo.demo("--agent", "replay:runs/first", "--rlenv-output=third").assert_outcomes(passed=1)
    (record,) = read(demo.path / "third")
    assert [note["code"] for note in record["notes"]] == ["replay-diverged"]
    assert "exit code 0, was exit code 5" in record["notes"][0]["text"]


def test_a_recorded_model_makes_the_harness_do_the_same_again(
    demo: Project, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = models([SOLVE, use("bash", command="# scripted: print=checked\n# scripted: exit=3"), "done"]).url
    run(demo, url, "--rlenv-output=first", "--rlenv-record=kept", agent="bash").assert_outcomes(passed=1)
    monkeypatch.delenv("OPENAI_API_KEY")
    options = ["--agent", "bash", "--model", "openai/m", "--rlenv-replay=kept", "--rlenv-output=second"]
    demo.demo(*options).assert_outcomes(passed=1)
    said = []
    for name in ("first", "second"):
        (record,) = read(demo.path / name)
        trajectory = json.loads((demo.path / name / record["trajectories"][0]).read_text())
        said.append([(step["message"], step.get("tool_calls")) for step in trajectory["steps"]])
        assert record["notes"] == []
    assert said[0] == said[1]
    assert record["usage"]["cost_usd"] == 0


def read(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "results.jsonl").read_text().splitlines()]


# ---- several steps


@pytest.mark.parametrize(("session", "kept"), [("keep", True), ("restart", False), (None, False)])
def test_a_task_says_whether_a_session_is_kept(
    session: str | None, kept: bool, demo: Project, models: Models
) -> None:
    steps = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    says = f'[metadata.rlenv]\nagent_session = "{session}"\n' if session else ""
    folder = demo.task("b", solve=None, test=None, config=f'schema_version = "1.4"\n{steps}{says}')
    (folder / "instruction.md").unlink()
    for name in ("one", "two"):
        write_task(
            folder / "steps" / name,
            solve=None,
            test="# scripted: reward=1",
            dockerfile="",
            instruction=f"Step {name}.",
        )
    model = models([SOLVE, "one is done", "two is done"])
    run(demo, model.url, "--rlenv-task=b", agent="bash").assert_outcomes(passed=1)
    said = [message["content"] for message in model.requests[-1].body["messages"]][1:]
    assert said[-1] == "Step two."
    assert ("Step one." in said) == ("one is done" in said) == kept
    (record,) = demo.records()
    assert len(record["trajectories"]) == 2


def test_a_wrong_word_for_the_session_is_the_tasks_error(demo: Project) -> None:
    demo.task("a", config='schema_version = "1.4"\n[metadata.rlenv]\nagent_session = "forever"\n')
    demo.demo().assert_outcomes(errors=1)
    (record,) = demo.records()
    assert record["error"]["type"] == "TaskInvalid"
    assert "agent_session" in record["error"]["message"]


# ---- agents of another package


def test_an_agent_of_another_package_is_run_by_its_name(demo: Project) -> None:
    info = demo.path / "more_agents-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: more-agents\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pytest_rlenv.agents]\nstopper = mine:Stops\n")
    loading._installed.cache_clear()
    try:
        demo.demo("--agent", "stopper,nop")
    finally:
        loading._installed.cache_clear()
    assert {record["agent"] for record in demo.records()} == {"stopper", "nop"}


PAGE = Path(__file__).parents[2] / "docs" / "agents.md"


def test_the_example_of_the_docs_is_small_and_works(demo: Project, models: Models) -> None:
    (code,) = re.findall(r"```python\n# one_script\.py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    demo.pytester.makepyfile(one_script=code)
    model = models(["# scripted: touch=/app/answer"])
    run(demo, model.url, agent="one_script:OneScript").assert_outcomes(passed=1)
    (record,) = demo.records()
    assert record["agent"] == "OneScript"
    assert record["usage"]["input_tokens"] == 100
    document = json.loads((demo.run_dir / record["trajectories"][0]).read_text())
    assert [step["source"] for step in document["steps"]] == ["user", "agent"]


def test_the_page_names_each_reason() -> None:
    for stop in Stop:
        assert f"`{stop.value}`" in PAGE.read_text()
