"""Tasksets of Verifiers in whole runs, with a package that stands in for it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fake_hub import FakeHub
from support.project import Project
from support.scripted_model import Failure, Reply, ScriptedModel, use
from support.verifiers import EXAMPLE, MODEL, NOP, ORACLE, TRUST, by_task, kinds, told, use_fake

import pytest_rlenv.frameworks.verifiers.framework
import pytest_rlenv.frameworks.verifiers.model_run  # noqa: F401 - loaded for good, as in conftest.py
from pytest_rlenv.frameworks.verifiers import limits


@pytest.fixture
def toys(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    use_fake(monkeypatch, project)
    return project


def run(project: Project, *args: str, process: bool = False) -> pytest.RunResult:
    return project.run(*args, sandbox=None, process=process)


def test_the_oracle_is_the_tasks_own_gold_check(toys: Project) -> None:
    run(toys, TRUST, *kinds(*ORACLE))

    assert told(toys) == ORACLE


def test_what_a_gold_check_tells_is_in_the_record(toys: Project) -> None:
    result = run(toys, TRUST, *kinds("good", "gold-none", "prints"), "-rs")

    found = by_task(toys)
    assert found["good"]["rewards"] == {"reward": 1.0}
    assert found["good"]["sandbox"] == "none"
    assert found["good"]["runner"].startswith("subprocess runtime (verifiers 0.4.0, python 3.")
    assert found["good"]["conditions"]["trust_code"] is True
    assert "no reference solution" in found["gold-none"]["skip_reason"]
    result.stdout.fnmatch_lines(["SKIPPED*no reference solution*"])
    logs = toys.run_dir / found["prints"]["logs"]
    assert "said by a taskset" in (logs / "verifiers.txt").read_text()
    assert json.loads((logs / "trace.json").read_text())["task"]["data"]["kind"] == "prints"


def test_nop_is_the_score_of_the_untouched_task(toys: Project) -> None:
    run(toys, TRUST, "--agent=nop", *kinds(*NOP))

    found = by_task(toys)
    assert told(toys) == NOP
    assert found["good"]["rewards"] == {"reward": 0.0, "correct": 0.0, "polite": 0.0}


def test_a_taskset_that_gives_no_reward_is_an_error_for_nop(toys: Project) -> None:
    run(toys, TRUST, "--agent=nop", "--rlenv-taskset=toy-endless", "--rlenv-limit=2")

    found = by_task(toys)
    assert set(found) == {"0", "1"}
    assert {each["error"]["type"] for each in found.values()} == {"RewardMissing"}


def test_a_taskset_without_end_wants_a_limit(toys: Project) -> None:
    result = run(toys, TRUST, "--rlenv-taskset=toy-endless")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*tasks without end*", "*--rlenv-limit N*"])


@pytest.mark.parametrize(
    ("taskset", "said"),
    [
        ("missing-one", "*cannot be loaded: ModuleNotFoundError*"),
        ("toy-older", "*load_environment() are of versions before 0.3.2*"),
        ("a b", "*does not name a taskset*"),
    ],
)
def test_a_taskset_that_cannot_be_had_is_told_before_anything_runs(
    toys: Project, taskset: str, said: str
) -> None:
    result = run(toys, TRUST, f"--rlenv-taskset={taskset}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])


def test_an_interpreter_without_the_package_is_told_with_the_cure(
    toys: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))

    result = run(toys, TRUST, "--rlenv-taskset=toy-kinds")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cannot import verifiers*", "*pip install*"])


def test_without_trust_and_engine_a_task_does_not_run(toys: Project) -> None:
    run(toys, *kinds("good"))

    error = by_task(toys)["good"]["error"]
    assert error["type"] == "SandboxFailed"
    assert "--rlenv-trust-code" in error["hint"]


def test_a_task_with_an_image_runs_in_a_container_however_much_it_is_trusted(
    toys: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_DOCKER", str(toys.path / "started"))

    run(toys, TRUST, *kinds("good", image="debian"))

    assert by_task(toys)["good"]["runner"].startswith("docker runtime")
    assert (toys.path / "started").read_text().startswith("rlenv-")


def test_what_never_lets_go_is_killed_and_the_next_task_runs(
    toys: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SPARE", 1.0)

    run(toys, TRUST, "--rlenv-timeout-multiplier=0.0005", *kinds("hangs", "prints"))

    found = by_task(toys)
    assert found["hangs"]["error"]["type"] == "StageTimeout"
    assert "it was killed" in found["hangs"]["error"]["message"]
    assert found["prints"]["verdict"] == "passed"


def test_gold_goes_through_the_reward_where_the_user_says_how(toys: Project) -> None:
    run(toys, TRUST, "--rlenv-verifiers-gold={answer}, please", *kinds("good", "reward-raises"))

    found = by_task(toys)
    assert found["good"]["rewards"] == {"reward": 1.0, "correct": 1.0, "polite": 1.0}
    assert found["good"]["conditions"]["verifiers_gold"] == "{answer}, please"
    assert found["reward-raises"]["error"]["type"] == "RewardMissing"


def test_a_template_for_what_a_row_lacks_is_a_skip(toys: Project) -> None:
    run(toys, TRUST, "--rlenv-verifiers-gold={solution}", *kinds("good"))

    assert "solution" in by_task(toys)["good"]["skip_reason"]


def test_secrets_of_the_caller_stay_out_unless_they_are_passed(
    toys: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_SECRET_TOKEN", "hush-hush-123")

    for option, seen in (("--rlenv-allow-unscored", False), ("--rlenv-verifiers-env=TOY_SECRET_TOKEN", True)):
        shutil.rmtree(toys.path / ".rlenv", ignore_errors=True)
        run(toys, TRUST, option, *kinds("works"))
        log = (toys.run_dir / by_task(toys)["works"]["logs"] / "verifiers.txt").read_text()
        assert "7\n" in log
        assert ("[redacted TOY_SECRET_TOKEN]" in log) is seen
        assert "hush" not in log
        assert f"home={toys.path / 'cache'}" in log


def test_ids_are_unique_and_can_be_run_again(toys: Project) -> None:
    ids = ["a::b", "a[1]", "twin", "twin", "long " * 60]
    options = kinds(*["good"] * 5, ids=ids)
    run(toys, TRUST, *options)

    names = [record["task"] for record in toys.records()]
    assert "a%3A%3Ab" in names
    assert "a%5B1%5D" in names
    assert {"twin-2", "twin-3"} <= set(names)
    assert max(map(len, names)) <= 120
    again = run(toys, TRUST, *options, *(f"rlenv:verifiers:toy-kinds::{name}" for name in names))
    again.assert_outcomes(passed=5)


def test_a_task_whose_row_is_not_all_of_it_is_found_again(toys: Project) -> None:
    run(toys, TRUST, *kinds("good", "gold-false", hide=True)).assert_outcomes(passed=1, failed=1)


def test_rows_without_a_taskset_say_what_is_missing(toys: Project) -> None:
    shutil.copytree(EXAMPLE, toys.path / "rows")

    result = run(toys, "--rlenv=rows")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*its rows (good.jsonl) hold no code that gives a reward*--rlenv-taskset ID*"]
    )


def test_the_example_runs_from_its_folder(toys: Project) -> None:
    shutil.copytree(EXAMPLE, toys.path / "words")

    run(toys, TRUST, "--rlenv=words", "--rlenv-taskset=word-count", "--agent=oracle,nop").assert_outcomes(
        passed=6
    )

    (note,) = (each for each in toys.records()[0]["notes"] if each["code"] == "taskset-data")
    assert f"{toys.path / 'words'}, as data_path" in note["text"]


def test_the_examples_other_rows_fail_err_and_skip(toys: Project) -> None:
    shutil.copytree(EXAMPLE, toys.path / "words")
    options = ("--rlenv=words", "--rlenv-taskset=word-count", "--rlenv-taskset-option=rows=verdicts")

    run(toys, TRUST, *options, "--agent=oracle,nop").assert_outcomes(passed=3, failed=1, skipped=1, errors=1)


def test_workers_run_what_the_controller_listed(toys: Project) -> None:
    result = run(toys, TRUST, *kinds("good", "gold-false", "gold-raises", "prints", "exits"), "-n2")

    result.assert_outcomes(passed=2, failed=1, errors=2)
    assert {record["worker"] for record in toys.records()} == {"gw0", "gw1"}


def test_jobs_have_an_interpreter_each(toys: Project) -> None:
    result = run(toys, TRUST, "--rlenv-jobs=2", *kinds("good", "gold-false", "prints", "dies"), process=True)

    result.assert_outcomes(passed=2, failed=1, errors=1)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_a_run_ends_early(toys: Project, how: signal.Signals) -> None:
    marker = toys.path / "pid"
    (toys.path / "toy_waits.py").write_text(
        "import os, time, pathlib\n"
        "import verifiers.v1 as vf\n"
        "__all__ = ['Waits']\n"
        "class WaitTask(vf.Task[vf.TaskData]):\n"
        "    async def validate(self, runtime):\n"
        f"        pathlib.Path({str(marker)!r}).write_text(str(os.getpid()))\n"
        "        time.sleep(300)\n"
        "class Waits(vf.Taskset[WaitTask]):\n"
        "    def load(self):\n"
        "        yield WaitTask(vf.TaskData(id='one', prompt='wait'))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "--rlenv-taskset=toy-waits", TRUST],
        cwd=toys.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as pytest_run:
        try:
            pid = int(_awaited(marker))
            pytest_run.send_signal(how)
            pytest_run.wait(timeout=60)
            _until_gone(pid)
        finally:
            pytest_run.kill()


def _awaited(path: Path) -> str:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.05)
    raise AssertionError(f"{path} never came")


def _until_gone(pid: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} is still there")


# ---- with a model


@pytest.fixture
def asked(toys: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-123456")
    return toys


def play(project: Project, model: ScriptedModel, *args: str) -> dict[str, dict[str, Any]]:
    run(project, TRUST, "--agent=model", "--model=openai/toy", f"--rlenv-model-url={model.url}", *args)
    return by_task(project)


def test_a_model_plays_in_the_tasksets_environment(asked: Project) -> None:
    with ScriptedModel(["It is 42, please."]) as model:
        found = play(asked, model, *kinds("good"))["good"]

    assert found["verdict"] == "passed"
    assert found["rewards"] == {"reward": 1.0, "correct": 1.0, "polite": 1.0}
    assert {"code": "metrics", "text": "length 17.0"} in found["notes"]
    assert found["usage"]["input_tokens"] > 0
    assert found["stages"]["agent"] > 0
    (seen,) = model.requests
    assert seen.body["messages"] == [{"role": "user", "content": "What is the answer?"}]
    logs = asked.run_dir / found["logs"]
    trajectory = json.loads((logs / "agent" / "trajectory.json").read_text())
    assert [step["source"] for step in trajectory["steps"]] == ["user", "agent"]
    assert json.loads((logs / "episode.json").read_text())["traces"][0]["stop_condition"] == "agent_completed"
    assert (logs / "model-calls.jsonl").exists()


def test_how_an_episode_ends(asked: Project) -> None:
    with ScriptedModel(lambda body: Reply("42")) as model:
        found = play(asked, model, *kinds(*MODEL))

    assert told(asked) == MODEL
    assert found["good"]["rewards"] == {"reward": 0.75, "correct": 1.0, "polite": 0.0}


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, "ModelAccessDenied"),
        (404, "ModelNotFound"),
        (400, "ModelRequestInvalid"),
        (503, "ModelUnavailable"),
    ],
)
def test_a_model_that_cannot_be_asked_is_an_error(asked: Project, status: int, error: str) -> None:
    with ScriptedModel([Failure(status)] * 8) as model:
        found = play(asked, model, *kinds("good"))["good"]

    assert found["error"]["type"] == error


def test_an_agent_out_of_time_is_scored(asked: Project) -> None:
    def late(body: dict[str, Any]) -> Reply:
        time.sleep(0.8)
        return Reply("42")

    with ScriptedModel(late) as model:
        found = play(asked, model, *kinds("agent-slow"))["agent-slow"]

    assert found["verdict"] == "failed"
    assert "agent-timeout" in {note["code"] for note in found["notes"]}


def test_an_agent_that_had_all_its_turns_is_scored(asked: Project) -> None:
    with ScriptedModel([use("more"), use("more"), "42"]) as model:
        found = play(asked, model, "--rlenv-max-turns=2", *kinds("good"))["good"]

    assert found["verdict"] == "failed"
    assert "turn-limit" in {note["code"] for note in found["notes"]}


@pytest.mark.parametrize(("options", "reward"), [((), 1.0), (("--rlenv-verifiers-seat=judge",), 0.0)])
def test_of_several_seats_one_is_judged(asked: Project, options: tuple[str, ...], reward: float) -> None:
    with ScriptedModel(["42", "looks right"]) as model:
        found = play(asked, model, "--rlenv-taskset=toy-seats", *options)["one"]

    assert found["rewards"]["reward"] == reward
    assert "solver 1.0; judge 0.0" in next(n["text"] for n in found["notes"] if n["code"] == "several-traces")


def test_a_seat_that_is_not_there_is_told(asked: Project) -> None:
    with ScriptedModel(["42"]) as model:
        found = play(asked, model, "--rlenv-verifiers-seat=nobody", *kinds("good"))["good"]

    assert "agent" in found["error"]["message"]
    assert found["error"]["type"] == "TaskInvalid"


def test_a_recorded_model_is_replayed_without_a_server(asked: Project) -> None:
    with ScriptedModel(["42 please"]) as model:
        play(asked, model, "--rlenv-record=calls", *kinds("good"))
    shutil.rmtree(asked.path / ".rlenv")
    run(asked, TRUST, "--agent=model", "--model=openai/toy", "--rlenv-replay=calls", *kinds("good"))

    assert by_task(asked)["good"]["rewards"]["reward"] == 1.0


def test_your_own_player_answers(toys: Project) -> None:
    (toys.path / "my_agents.py").write_text(
        "from pytest_rlenv.agents.episode import Player\n"
        "class Knows(Player):\n"
        "    def play(self, episode, context):\n"
        "        assert episode.messages[-1]['content'] == 'What is the answer?'\n"
        "        assert 'no tool' in episode.call('search', {})\n"
        "        episode.say('42')\n"
        "class Silent(Player):\n"
        "    def play(self, episode, context):\n"
        "        pass\n"
    )
    run(toys, TRUST, "--agent=my_agents:Knows,my_agents:Silent", *kinds("good"))

    found = {record["agent"]: record for record in toys.records()}
    assert found["Knows"]["rewards"]["reward"] == 0.75
    assert found["Silent"]["error"]["type"] == "AgentFailed"


def test_an_agent_that_wants_a_box_is_skipped(toys: Project) -> None:
    run(toys, TRUST, "--agent=cmd:true", *kinds("good"))

    assert "works in a box" in toys.records()[0]["skip_reason"]


# ---- rows on the Hub


@pytest.fixture
def hub(toys: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with FakeHub() as hub:
        for name, value in hub.environ(toys.path / "hf-home").items():
            monkeypatch.setenv(name, value)
        yield hub


def test_rows_on_the_hub_are_handed_to_the_taskset_at_their_commit(toys: Project, hub: FakeHub) -> None:
    rows = {name: (EXAMPLE / name).read_bytes() for name in ("README.md", "good.jsonl")}
    sha = hub.add("org/words", rows)
    shutil.copy(EXAMPLE / "word_count.py", toys.path)

    result = run(toys, TRUST, "--rlenv=org/words", "--rlenv-taskset=word-count", process=True)

    result.assert_outcomes(passed=3)
    record = toys.records()[0]
    assert record["revision"] == sha
    (note,) = (each["text"] for each in record["notes"] if each["code"] == "taskset-data")
    assert note == f"the taskset loaded data of org/words@{sha[:12]}, as data_path"


def test_code_of_a_repository_is_not_imported_unless_it_is_trusted(toys: Project, hub: FakeHub) -> None:
    hub.add("org/words", EXAMPLE)
    options = ("--rlenv=org/words", "--rlenv-taskset=word-count")

    refused = run(toys, *options, process=True)
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*taskset word-count cannot be loaded*"])
    run(toys, TRUST, *options, process=True).assert_outcomes(passed=3)


def test_rows_on_the_hub_without_a_taskset_say_what_is_missing(toys: Project, hub: FakeHub) -> None:
    hub.add("org/words", {"README.md": (EXAMPLE / "README.md").read_bytes(), "data/train.parquet": b"PAR1"})

    result = run(toys, "--rlenv=org/words", process=True)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*(data/train.parquet) hold no code that gives a reward*"])


def test_a_taskset_that_takes_no_files_says_that_it_loaded_its_own(toys: Project, hub: FakeHub) -> None:
    hub.add("org/words", {"README.md": b"---\ntags: [rl-environment]\n---\n", "data.jsonl": b"{}"})

    result = run(toys, TRUST, "--rlenv=org/words", *kinds("good"), process=True)

    result.stdout.fnmatch_lines(["*warning*toy-kinds loaded data of its own: no field*org/words@*"])
