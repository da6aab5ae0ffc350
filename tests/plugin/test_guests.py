"""We are a guest in other people's projects: their files, options, marks and fixtures come first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.project import Project, ids, outcomes, read_junit


def test_an_output_folder_of_somebody_elses_is_not_touched(project: Project) -> None:
    project.tasks(a="# scripted: reward=1")
    for name in ("rollouts", "shared"):
        (project.path / name).mkdir()
        (project.path / name / "mine.txt").write_text("mine")
    result = project.demo("--rlenv-output=.")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: rlenv: --rlenv-output * holds rollouts, and not from a run of ours"])
    assert [(project.path / name / "mine.txt").read_text() for name in ("rollouts", "shared")] == ["mine"] * 2


def test_two_runs_cannot_write_to_one_folder(project: Project) -> None:
    project.tasks(a="# scripted: reward=1")
    project.pytester.makeconftest(
        """
        import subprocess, sys

        def pytest_runtest_setup(item):
            command = [sys.executable, "-m", "pytest", "--rlenv=envs/demo", "--rlenv-output=out"]
            sandbox = "--rlenv-sandbox=support.scripted:ScriptedSandbox"
            done = subprocess.run([*command, sandbox, "--noconftest"], capture_output=True)
            assert done.returncode == 4, done.stdout
            assert b"another run is writing there" in done.stderr
        """
    )
    assert outcomes(project.run("--rlenv=envs/demo", "--rlenv-output=out", process=True)) == {"passed": 1}


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/no"])
def test_an_output_folder_that_cannot_be_made_is_one_message(project: Project, place: str) -> None:
    project.tasks(a="# scripted: reward=1")
    (project.path / "file").write_text("")
    result = project.demo(f"--rlenv-output={place}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: rlenv: results cannot be written to *"])


RECIPE = """
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.xfail(raises=pytest.fail.Exception, reason="known"))
"""


def test_the_xfail_of_the_docs_catches_failures_and_no_errors(project: Project) -> None:
    assert "raises=pytest.fail.Exception" in (Path(__file__).parents[2] / "docs" / "ci-gate.md").read_text()
    project.tasks(low="# scripted: reward=0", broken="# scripted: print=x")
    project.pytester.makeconftest(RECIPE)
    result = project.demo("--junitxml=junit.xml")
    assert outcomes(result) == {"xfailed": 1, "errors": 1}
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    error = read_junit(project.path / "junit.xml")["broken"].find("error")
    assert error is not None
    assert "RewardMissing [verify]" in (error.get("message") or "")


@pytest.mark.parametrize("option", ["--agent", "--model"])
@pytest.mark.parametrize("where", ["conftest", "plugin"])
def test_a_short_option_of_somebody_elses_stays_theirs(project: Project, option: str, where: str) -> None:
    code = f"""
    import pytest

    def pytest_addoption(parser):
        parser.addoption("{option}", dest="mine", default="unset")

    def pytest_report_header(config):
        return f"mine is {{config.option.mine}}"
    """
    project.tasks(a="# scripted: reward=1")
    project.pytester.makepyfile(test_plain="def test_it(): pass")
    args = []
    if where == "conftest":
        project.pytester.makeconftest(code)
    else:
        project.pytester.makepyfile(theirs=code)
        args = ["-p", "theirs"]
    plain = project.run(*args, option, "x", "test_plain.py")
    assert outcomes(plain) == {"passed": 1}
    plain.stdout.fnmatch_lines(["mine is x"])
    assert outcomes(project.demo(*args, "--rlenv-agent=oracle")) == {"passed": 1}


@pytest.mark.parametrize("args", [["--agent", "nop"], ["--agent=nop"], ["--rlenv-agent=nop"]])
@pytest.mark.parametrize("workers", [[], ["-n1"]])
def test_the_short_option_is_ours_where_nobody_has_it(
    project: Project, args: list[str], workers: list[str]
) -> None:
    project.task("a")
    project.demo(*args, *workers)
    assert [record["agent"] for record in project.records()] == ["nop"]


@pytest.mark.parametrize("tag", ["skip", "skipif", "xfail", "parametrize", "usefixtures", "filterwarnings"])
def test_a_tag_cannot_turn_its_task_green(project: Project, tag: str) -> None:
    project.task("a", test="# scripted: reward=0", config=f'[metadata]\ntags = ["{tag}", "bash"]\n')
    assert outcomes(project.demo("-m", "bash")) == {"failed": 1}
    assert ids(project.demo("-m", f"tag_{tag}", "--co", "-q")) == ["rlenv:envs/demo::a"]


def test_a_mark_of_the_users_own_selects_tasks_too(project: Project) -> None:
    project.pytester.makeini("[pytest]\nmarkers = slow: takes long\n")
    project.task("a", config='[metadata]\ntags = ["slow"]\n')
    project.task("b")
    assert ids(project.demo("-m", "slow", "--co", "-q", "--strict-markers")) == ["rlenv:envs/demo::a"]


@pytest.mark.parametrize(
    ("conftest", "counts"),
    [
        (
            """
            import pytest

            @pytest.fixture
            def rlenv_agent():
                pytest.skip("no key")
            """,
            {"skipped": 2},
        ),
        (
            """
            import pytest

            @pytest.fixture
            def rlenv_agent():
                raise ConnectionError("no key")
            """,
            {"errors": 2},
        ),
        (
            """
            import pytest

            def pytest_collection_modifyitems(items):
                for item in items:
                    item.add_marker(pytest.mark.skip(reason="not today"))
            """,
            {"skipped": 2},
        ),
    ],
)
def test_what_never_came_to_a_rollout_is_in_the_coverage(
    project: Project, conftest: str, counts: dict[str, int]
) -> None:
    project.tasks(a="# scripted: reward=1", b="# scripted: reward=1")
    project.pytester.makeconftest(conftest)
    result = project.demo()
    assert outcomes(result) == counts
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert [record["reward"] for record in project.records()] == [None, None]
    result.stdout.fnmatch_lines(["oracle: scored 0 of 2*"])


def test_the_ini_key_counts_in_the_rootdir_only(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.tasks(a="# scripted: reward=1")
    project.pytester.makeini("[pytest]\nrlenv_repos = envs/demo\n")
    sub = project.path / "sub"
    sub.mkdir()
    (sub / "test_own.py").write_text("def test_it(): pass")
    monkeypatch.chdir(sub)
    assert ids(project.run("--co", "-q")) == ["sub/test_own.py::test_it"]
    monkeypatch.chdir(project.path)
    assert ids(project.run("--co", "-q")) == ["rlenv:envs/demo::a"]


def test_the_id_that_pytest_prints_in_a_folder_below_works_there(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.tasks(a="# scripted: reward=0")
    (project.path / "sub").mkdir()
    monkeypatch.chdir(project.path / "sub")
    result = project.run("--rlenv=../envs/demo")
    printed = next(line.split()[1] for line in result.outlines if line.startswith("FAILED ") and "::" in line)
    assert outcomes(project.run(printed)) == {"failed": 1}


def test_a_value_that_pytest_took_for_a_test_path_is_noticed(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """pytest looks for its ini file before it knows our options."""
    other = tmp_path_factory.mktemp("other")
    (other / "pytest.ini").write_text("[pytest]\nrlenv_threshold = 0\n")
    project.tasks(a="# scripted: reward=0.5")
    result = project.run("--rlenv=envs/demo", "--rlenv-output", str(other))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: rlenv: pytest took * for a test path and read *", f"*--rlenv-output={other}*"]
    )
    assert outcomes(project.run("--rlenv=envs/demo", f"--rlenv-output={other}")) == {"failed": 1}


def test_without_an_ini_file_both_ways_to_name_an_environment_agree(project: Project) -> None:
    (project.path / "tox.ini").unlink()
    project.tasks(a="# scripted: reward=1")
    assert ids(project.demo("--co", "-q")) == ["rlenv:envs/demo::a"]
    assert ids(project.run("rlenv:envs/demo::a", "--co", "-q")) == ["rlenv:envs/demo::a"]


def test_an_overridden_rollout_must_be_one(project: Project) -> None:
    project.tasks(a="# scripted: reward=1")
    project.pytester.makeconftest("import pytest\n\n@pytest.fixture\ndef rollout():\n    return 5\n")
    result = project.demo()
    result.stdout.fnmatch_lines(["rlenv: an overridden `rollout` fixture must ask for the original one*"])


def test_an_overridden_rollout_may_change_what_is_judged(project: Project) -> None:
    project.tasks(a="# scripted: reward=1")
    project.pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def rollout(rollout):
            return rollout.model_copy(update={"rewards": {"reward": 0.5}})
        """
    )
    result = project.demo()
    assert outcomes(result) == {"failed": 1}
    result.stdout.fnmatch_lines(["reward 0.5 < 1.0"])


def test_an_expectation_may_be_a_text(project: Project) -> None:
    project.tasks(a="# scripted: reward=0.5")
    project.pytester.makeconftest(
        "import pytest\n\n@pytest.fixture\ndef rlenv_expectation():\n    return '>= 0.5'\n"
    )
    assert outcomes(project.demo()) == {"passed": 1}


def test_results_that_cannot_be_stored_do_not_end_the_run(project: Project) -> None:
    project.tasks(a="# scripted: reward=1", b="# scripted: reward=1")
    project.pytester.makeconftest(
        """
        import pathlib

        def pytest_runtest_setup(item):
            path = pathlib.Path("out/results.jsonl")
            if path.is_file():
                path.unlink()
                path.mkdir()
        """
    )
    result = project.demo("--rlenv-output=out", "--junitxml=junit.xml")
    assert outcomes(result) == {"passed": 2}
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["rlenv: results are incomplete, Is a directory: *"])
    assert set(read_junit(project.path / "junit.xml")) == {"a", "b"}


def test_reruns_of_a_plugin_count_once(project: Project) -> None:
    """As pytest-rerunfailures reports them: an outcome "rerun", then the last run's own."""
    project.tasks(a="# scripted: reward=0")
    project.pytester.makeconftest(
        """
        import pytest
        from _pytest.runner import runtestprotocol

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_protocol(item, nextitem):
            for last in (False, True):
                for report in runtestprotocol(item, nextitem=nextitem, log=False):
                    if not last and report.when == "call":
                        report.outcome = "rerun"
                    if last or report.when == "call":
                        item.ihook.pytest_runtest_logreport(report=report)
                item.funcargs = {}
            return True

        def pytest_report_teststatus(report):
            if report.outcome == "rerun":
                return "rerun", "R", "RERUN"
        """
    )
    result = project.demo("--rlenv-output=out")
    result.stdout.fnmatch_lines(["oracle: scored 1 of 1, mean reward 0.000"])
    lines = (project.path / "out" / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["outcome"] for line in lines] == ["rerun", "failed"]
