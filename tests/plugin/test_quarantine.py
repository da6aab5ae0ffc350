"""``--rlenv-quarantine``: what is known to be broken does not gate, for a reason and until a day."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from support.project import Project, outcomes, read_junit, verdict_of

PASSES = "# scripted: reward-if=/app/answer"
FAILS = "# scripted: reward=0.25"
NO_REWARD = "# scripted: print=judged"
FILE = "--rlenv-quarantine=known.toml"
TODAY = datetime.now(timezone.utc).date()
LATER = TODAY + timedelta(days=30)
GONE = TODAY - timedelta(days=2)


def write(project: Project, *entries: str) -> None:
    text = "".join(f"[[quarantine]]\n{entry}\n" for entry in entries)
    (project.path / "known.toml").write_text(text)


def entry(task: str, *, until: object = LATER, **fields: str) -> str:
    more = "".join(f'\n{name} = "{value}"' for name, value in fields.items())
    return f'task = "{task}"\nreason = "the mirror is down"\nuntil = {until}{more}'


@pytest.fixture
def three(project: Project) -> Project:
    counted = f"# scripted: count={project.path / 'runs'}\n"
    project.tasks(good=counted + PASSES, low=counted + FAILS, none=counted + NO_REWARD)
    return project


@pytest.mark.parametrize("how", [[], ["--rlenv-jobs=2"]])
@pytest.mark.parametrize(
    ("entries", "counts", "runs", "verdicts"),
    [
        ([entry("*")], {"skipped": 3}, 0, ["skipped"] * 3),
        ([entry("low"), entry("n*")], {"passed": 1, "skipped": 2}, 1, ["passed", "skipped", "skipped"]),
        ([entry("*", mode="run")], {"skipped": 3}, 3, ["passed", "failed", "error"]),
        (
            [entry("*", until=GONE)],
            {"passed": 1, "failed": 1, "errors": 1},
            3,
            ["passed", "failed", "error"],
        ),
    ],
)
def test_what_is_held_does_not_gate(
    three: Project, how: list[str], entries: list[str], counts: dict[str, int], runs: int, verdicts: list[str]
) -> None:
    write(three, *entries)
    result = three.demo(FILE, "--rlenv-allow-unscored", *how)
    assert outcomes(result) == counts
    found = {record["task"]: record for record in three.records()}
    assert [found[task]["verdict"] for task in ("good", "low", "none")] == verdicts
    runs_file = three.path / "runs"
    assert (runs_file.read_text().count("x") if runs_file.exists() else 0) == runs
    held = [record["quarantine"] for record in found.values() if record["quarantine"]]
    assert all(each["reason"] == "the mirror is down" and each["until"] == str(LATER) for each in held)
    assert len(held) == counts.get("skipped", 0)


def test_today_is_the_last_day(three: Project) -> None:
    write(three, entry("*", until=TODAY))
    assert outcomes(three.demo(FILE)) == {"skipped": 3}


def test_an_entry_may_be_for_one_agent(project: Project) -> None:
    project.tasks(good=PASSES)
    write(project, entry("good", agent="o*"))
    project.demo(FILE, "--agent=oracle,nop")
    assert {r["agent"]: r["verdict"] for r in project.records()} == {"oracle": "skipped", "nop": "passed"}


def test_the_skip_says_why_and_what_came_of_a_run(three: Project) -> None:
    write(three, entry("low"), entry("none", mode="run"))
    three.demo(FILE, "--junitxml=junit.xml")
    cases = read_junit(three.path / "junit.xml")
    until = f"quarantined until {LATER}: the mirror is down"
    assert verdict_of(cases["low"])[0] == verdict_of(cases["none"])[0] == "skipped"
    assert until in verdict_of(cases["low"])[1]
    assert f"{until} (error: no reward" in verdict_of(cases["none"])[1]


def test_a_worker_that_dies_under_what_is_held_does_not_gate(project: Project) -> None:
    project.tasks(dies="# scripted: kill-worker", good=PASSES)
    write(project, entry("dies", mode="run"))
    result = project.demo(FILE, "-n1", "--junitxml=junit.xml")
    assert outcomes(result) == {"passed": 1, "skipped": 1}
    assert result.ret == pytest.ExitCode.OK
    assert verdict_of(read_junit(project.path / "junit.xml")["dies"])[0] == "skipped"
    held = {r["task"]: (r["verdict"], bool(r["quarantine"])) for r in project.records()}
    assert held == {"dies": ("error", True), "good": ("passed", False)}


def test_a_run_of_nothing_but_quarantine_is_not_green(three: Project) -> None:
    write(three, entry("*", mode="run"))
    result = three.demo(FILE)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*no task was scored*"])


def test_numbers_leave_it_out(three: Project) -> None:
    write(three, entry("low", mode="run"), entry("none", mode="run"))
    result = three.demo(FILE)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        ["oracle: scored 1 of 3, mean reward 1.000", "*1 passed, 2 skipped", "*2 in quarantine"]
    )
    result.stdout.fnmatch_lines(["rlenv: known.toml: 2 rollouts do not gate"])


@pytest.mark.parametrize("how", [[], ["-n1"]])
def test_old_and_unneeded_entries_are_told(three: Project, how: list[str]) -> None:
    write(
        three,
        entry("low"),
        entry("none", until=GONE),
        entry("gone"),
        entry("good", mode="run"),
        entry("n*", mode="run"),
    )
    text = three.demo(FILE, *how).stdout.str()
    assert f"rlenv: known.toml, entry 2 (task 'none') expired on {GONE}: it holds no longer" in text
    assert "rlenv: known.toml, entry 3 (task 'gone') is not needed: it is for no task of this run" in text
    assert "rlenv: known.toml, entry 4 (task 'good') is not needed: its rollout passed" in text
    assert "entry 1" not in text
    assert "entry 5" not in text


@pytest.mark.parametrize("args", [["-k", "low"], ["--rlenv-task=low"], ["rlenv:envs/demo::low"], ["-x"]])
def test_part_of_a_run_tells_of_no_unneeded_entry(three: Project, args: list[str]) -> None:
    write(three, entry("gone"), entry("none", until=GONE))
    text = three.demo(FILE, *args).stdout.str()
    assert "not needed" not in text
    assert "expired" in text


def test_a_wrong_file_is_a_usage_error(three: Project) -> None:
    write(three, entry("a", until=5))
    result = three.demo(FILE)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    words = "known.toml, entry 1: until = 5: a date is needed, such as 2031-12-24"
    result.stderr.fnmatch_lines([f"*rlenv: *{words}"])
    assert "Traceback" not in result.stderr.str()


def test_a_file_that_is_not_there_is_a_usage_error(three: Project) -> None:
    result = three.demo(FILE)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*known.toml: No such file or directory", "*[[[]quarantine]]*"])


def test_an_ini_file_names_it_relative_to_itself(three: Project) -> None:
    write(three, entry("low"), entry("none"))
    three.pytester.makeini("[pytest]\nrlenv_quarantine = known.toml\n")
    below = three.path / "below"
    below.mkdir()
    three.pytester.chdir()
    result = three.pytester.runpytest_subprocess(
        f"--rootdir={three.path}", "-c", three.path / "tox.ini", "--rlenv=envs/demo",
        "--rlenv-sandbox=support.scripted:ScriptedSandbox",
    )  # fmt: skip
    assert outcomes(result) == {"passed": 1, "skipped": 2}


def test_a_users_own_test_is_held_too(three: Project) -> None:
    write(three, entry("low", mode="run"), entry("none"))
    three.pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.rlenv("envs/demo")
        def test_it(rollout):
            assert rollout.reward == 1
        """
    )
    result = three.run(FILE, "test_own.py")
    assert outcomes(result) == {"passed": 1, "skipped": 2}
    assert "not needed" not in result.stdout.str()
