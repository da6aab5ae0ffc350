"""What a rollout becomes: in the terminal, in JUnit, in results.jsonl, in the exit code."""

from __future__ import annotations

import json

import pytest
from support.project import Project, outcomes, properties, verdict_of
from support.tasks import write_task


@pytest.mark.parametrize(
    ("body", "agent", "verdict", "reward", "words"),
    [
        ("# scripted: reward=1", "oracle", "passed", "1.0", ""),
        ("# scripted: reward=7", "oracle", "passed", "7.0", ""),
        ("# scripted: reward=0.4", "oracle", "failed", "0.4", "reward 0.4 < 1.0"),
        ("# scripted: reward=0", "nop", "passed", "0.0", ""),
        ("# scripted: reward=1", "nop", "failed", "1.0", "doing nothing scores"),
        ("# scripted: print=judged", "oracle", "error", None, "RewardMissing"),
        ("# scripted: print=judged", "nop", "error", None, "RewardMissing"),
        ("# scripted: reward=nan", "oracle", "error", None, "RewardInvalid"),
        ("# scripted: reward=pass", "oracle", "error", None, "'pass'"),
        ("# scripted: hang", "oracle", "error", None, "VerifierTimeout"),
        ('# scripted: json={"a": 0.5, "b": 1}', "oracle", "error", None, "a = 0.5, b = 1.0"),
    ],
)
@pytest.mark.parametrize("workers", [[], ["-n1"]])
def test_a_verdict_is_the_same_everywhere(
    project: Project,
    body: str,
    agent: str,
    verdict: str,
    reward: str | None,
    words: str,
    workers: list[str],
) -> None:
    project.task("it", test=body, config="[verifier]\ntimeout_sec = 0.2\n")
    case = project.junit("--agent", agent, *workers)["it"]
    assert verdict_of(case)[0] == verdict
    assert properties(case).get("rlenv.reward") == reward
    assert properties(case)["rlenv.verdict"] == verdict
    if words:
        found = next(iter(case.findall("error") + case.findall("failure")))
        assert words in (found.text or "")
        assert "Traceback" not in (found.text or "")
        assert "pytest_rlenv/" not in (found.text or "")
    (record,) = project.records()
    assert record["verdict"] == record["outcome"] == verdict
    assert record["reward"] == (None if reward is None else float(reward))
    assert (record["error"] is not None) == (verdict == "error")
    folder = project.run_dir / record["logs"]
    assert json.loads((folder / "rlenv.json").read_text()) == record


def test_the_record_says_what_ran(project: Project) -> None:
    project.task("it", config="[agent]\ntimeout_sec = 60\n[environment]\ncpu = 2\n")
    result = project.demo("--junitxml=junit.xml")
    (record,) = project.records()
    assert record["schema_version"] == 1
    assert record["environment"] == "envs/demo"
    assert record["revision"] is None
    assert record["task_digest"].startswith("sha256:")
    assert (record["task"], record["agent"], record["sandbox"]) == ("it", "oracle", "scripted")
    assert {"load", "build", "start", "agent", "verify", "collect", "stop"} <= set(record["stages"])
    assert "did you mean" in json.dumps(record["notes"])
    result.stdout.fnmatch_lines(["warning  it: *cpu*cpus*"])
    facts = json.loads((project.run_dir / "run.json").read_text())
    assert facts["run"] == record["run"]
    assert facts["exit_code"] == 0
    assert facts["finished_at"]
    assert facts["environments"][0]["tasks_selected"] == 1


def test_the_solutions_exit_code_is_a_note(project: Project) -> None:
    project.task("it", solve="# scripted: touch=/app/answer\n# scripted: exit=3")
    case = project.junit()["it"]
    assert verdict_of(case)[0] == "passed"
    assert "exited 3" in properties(case)["rlenv.note.agent-exit"]


def test_a_timed_out_agent_is_judged_by_what_it_did(project: Project) -> None:
    solve = "# scripted: touch=/app/answer\n# scripted: hang"
    project.task("it", solve=solve, config="[agent]\ntimeout_sec = 0.2\n")
    case = project.junit()["it"]
    assert verdict_of(case)[0] == "passed"
    assert "ran out of time" in properties(case)["rlenv.note.agent-timeout"]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"solve": None}, "solution/solve.sh"),
        ({"config": "[environment]\ngpus = 1\n"}, "GPU"),
        ({"config": "[environment]\ncpus = 64\n"}, "64"),
        ({"config": '[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["x.org"]\n'}, "allowlist"),
    ],
)
def test_what_cannot_be_run_is_skipped_with_the_reason(
    project: Project, parts: dict[str, str], words: str
) -> None:
    project.task("it", **parts)
    project.task("other")
    result = project.demo()
    assert outcomes(result) == {"passed": 1, "skipped": 1}
    result.stdout.fnmatch_lines([f"SKIPPED  it * - *{words}*"])


def test_a_run_that_scores_nothing_does_not_pass(project: Project) -> None:
    project.task("it", solve=None)
    result = project.demo()
    assert outcomes(result) == {"skipped": 1}
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*no task was scored*"])
    assert project.demo("--rlenv-allow-unscored").ret == 0


def test_a_broken_task_is_an_item_that_errors(project: Project) -> None:
    project.task("good")
    project.task("bad-toml", config="[agent")
    project.task("bad-field", config='[agent]\ntimeout_sec = "soon"\n')
    (project.task("no-instruction") / "instruction.md").unlink()
    project.task("no-test", test=None)
    project.task("build-fails", dockerfile="FROM x\nRUN build-fails\n")
    cases = project.junit("-n2")
    assert {name: verdict_of(case)[0] for name, case in cases.items()} == {
        "good": "passed",
        "bad-toml": "error",
        "bad-field": "error",
        "no-instruction": "error",
        "no-test": "error",
        "build-fails": "error",
    }
    assert "timeout_sec" in cases["bad-field"].find("error").text


def test_expectations_of_task_file_and_agent(project: Project) -> None:
    own = '[metadata.rlenv]\nreward_range = [0, 1]\n[metadata.rlenv.expect]\noracle = ">= 0.55"\n'
    project.task("low-bar", test="# scripted: reward=0.6", config=own)
    project.task("bar-missed", test="# scripted: reward=0.5", config=own)
    project.task("out-of-range", test="# scripted: reward=1.5", config=own)
    cases = project.junit()
    assert {name: verdict_of(case)[0] for name, case in cases.items()} == {
        "low-bar": "passed",
        "bar-missed": "failed",
        "out-of-range": "error",
    }
    assert "expected >= 0.55 by the task's" in cases["bar-missed"].find("failure").text
    assert "rlenv.reward" not in properties(cases["out-of-range"])
    assert "reward contract" in cases["out-of-range"].find("error").text


def test_threshold_and_reward_key(project: Project) -> None:
    project.task("it", test='# scripted: json={"accuracy": 0.9, "speed": 0.1}')
    assert outcomes(project.demo("--rlenv-reward-key", "accuracy", "--rlenv-threshold", "0.9")) == {
        "passed": 1
    }
    assert outcomes(project.demo("--rlenv-reward-key", "speed")) == {"failed": 1}
    assert outcomes(project.demo("--rlenv-reward-key", "none")) == {"errors": 1}


def test_the_environment_beats_the_ini_file_and_the_command_line_both(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.pytester.makeini("[pytest]\nrlenv_threshold = 0.9\n")
    project.task("it", test="# scripted: reward=0.5")
    assert outcomes(project.demo()) == {"failed": 1}
    monkeypatch.setenv("RLENV_THRESHOLD", "0.5")
    assert outcomes(project.demo()) == {"passed": 1}
    assert outcomes(project.demo("--rlenv-threshold", "0.6")) == {"failed": 1}


def test_the_summary_shows_coverage_and_both_means(project: Project) -> None:
    project.tasks(a="# scripted: reward=1", b="# scripted: reward=0.5", c="# scripted: print=x")
    result = project.demo("--rlenv-output", "out")
    result.stdout.fnmatch_lines(
        [
            "*= rlenv: envs/demo =*",
            "oracle: scored 2 of 3, mean reward 0.750 (0.500 with errors as 0)",
            "*1 passed, 1 failed, 1 error (task)",
            "FAILED * b * 0.5 * reward 0.5 < 1.0",
            "ERROR * c * - * RewardMissing*",
            "rlenv: results and logs in */out",
        ]
    )
    assert all(len(line) <= 80 for line in result.outlines if line.startswith(("FAILED  ", "ERROR  ")))


def test_an_output_folder_holds_one_run_only(project: Project) -> None:
    project.tasks(a="# scripted: reward=1", b="# scripted: reward=1")
    project.demo("--rlenv-output", "out")
    (project.path / "out" / "mine.txt").write_text("keep")
    again = project.demo("--rlenv-output", "out", "--rlenv-task", "a")
    again.stdout.fnmatch_lines(["rlenv: the earlier run in */out is replaced (--rlenv-resume keeps it)"])
    lines = (project.path / "out" / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["task"] for line in lines] == ["a"]
    assert len([path for path in (project.path / "out" / "rollouts").iterdir() if path.is_dir()]) == 1
    assert (project.path / "out" / "mine.txt").read_text() == "keep"


def test_xfail_by_a_conftest_is_kept_apart_from_our_verdict(project: Project) -> None:
    project.tasks(a="# scripted: reward=0", b="# scripted: print=x")
    project.pytester.makeconftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.xfail(raises=pytest.fail.Exception, reason="known"))
        """
    )
    project.demo()
    records = {record["task"]: record for record in project.records()}
    assert records["a"]["verdict"] == "failed"
    assert records["a"]["outcome"] == "xfailed"
    assert records["b"]["verdict"] == "error"


@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_a_task_outside_the_project_is_skipped_like_any_other(
    project: Project, tmp_path_factory: pytest.TempPathFactory, workers: tuple[str, ...]
) -> None:
    """pytest wants a line to report a skip by a fixture at, also where no file of the project has one."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    write_task(elsewhere / "unsolved", solve=None)
    # unscored, so that this alone decides the exit code
    result = project.run(f"--rlenv={elsewhere}", "--rlenv-allow-unscored", *workers)
    assert outcomes(result) == {"skipped": 1}
    assert result.ret == pytest.ExitCode.OK
