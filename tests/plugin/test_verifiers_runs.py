"""Tasksets of Verifiers in whole runs, with a package that stands in for it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.project import Project
from support.verifiers import EXAMPLE, NOP, ORACLE, TRUST, by_task, kinds, run, told

import pytest_rlenv.frameworks.verifiers.framework
import pytest_rlenv.frameworks.verifiers.model_run  # noqa: F401 - loaded for good, as in conftest.py
from pytest_rlenv.frameworks.verifiers import limits


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


def test_header_record_and_summary_say_what_runs_where(
    toys: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_DOCKER", str(toys.path / "started"))

    contained = run(toys, "--rlenv-sandbox=local", *kinds("good"))
    shutil.rmtree(toys.path / ".rlenv")
    trusted = run(toys, TRUST, "--rlenv-sandbox=none", *kinds("good", image="debian"))

    contained.stdout.fnmatch_lines(
        [
            "rlenv: verifiers: the taskset's code runs on this machine as you; tasks and agents in Docker *",
            "rlenv: ran in sandbox none: docker runtime (verifiers 0.4.0, *",
        ]
    )
    trusted.stdout.fnmatch_lines(["rlenv: verifiers: *tasks of text with their agents, run on this machine*"])
    assert toys.records()[0]["sandbox"] == "none"
    assert toys.records()[0]["runner"].startswith("docker runtime")


def test_what_json_cannot_hold_is_the_tasksets_fault_and_ends_nothing(toys: Project) -> None:
    run(toys, TRUST, *kinds("gold-odd", "good")).assert_outcomes(passed=1, errors=1)

    error = by_task(toys)["gold-odd"]["error"]
    assert error["type"] == "RewardMissing"
    assert "TypeError" in error["message"]


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
    assert found["hangs"]["error"]["type"] == "VerifierTimeout"
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
    (toys.path / "rows" / "a").mkdir()
    (toys.path / "rows" / "a" / "notes.json").write_text("{}")  # may be anything: good.jsonl is surely rows

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


def test_a_file_names_a_taskset_as_an_environment(toys: Project) -> None:
    (toys.path / "kinds.rlenv.toml").write_text('repo = "verifiers:toy-kinds"\nagent = ["oracle"]\n')

    run(toys, TRUST, "kinds.rlenv.toml").assert_outcomes(passed=1)

    assert toys.records()[0]["environment"] == "verifiers:toy-kinds"


def test_a_resumed_run_takes_over_what_is_scored(toys: Project) -> None:
    options = (TRUST, "--rlenv-output=first", *kinds("good", "gold-raises"))
    run(toys, *options)

    run(toys, *options, "--rlenv-resume=first").assert_outcomes(passed=1, errors=1)

    records = [json.loads(line) for line in (toys.path / "first" / "results.jsonl").read_text().splitlines()]
    taken = {record["task"]: record["resumed_from"] is not None for record in records[-2:]}
    assert taken == {"good": True, "gold-raises": False}


def test_another_version_of_the_package_is_told(toys: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VERSION", "0.7.1")

    run(toys, TRUST, *kinds("good")).stdout.fnmatch_lines(["*warning: verifiers 0.7.1 is not known here*"])
