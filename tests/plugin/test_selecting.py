"""The matrix of ways to select: pytest's own options hold for tasks as for tests, on every pytest."""

from __future__ import annotations

import pytest
from support.project import Project, ids, outcomes

ALL = [f"rlenv:envs/demo::task-0000{n}" for n in range(6)]


def test_the_whole_environment(six: Project) -> None:
    result = six.demo()
    assert outcomes(result) == {"passed": 4, "failed": 1, "errors": 1}
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize(
    ("args", "chosen"),
    [
        ([], [0, 1, 2, 3, 4, 5]),
        (["-k", "00001 or 00003"], [1, 3]),
        (["-k", "envs/demo"], [0, 1, 2, 3, 4, 5]),
        (["-k", "not 00001"], [0, 2, 3, 4, 5]),
        (["--deselect", ALL[1]], [0, 2, 3, 4, 5]),
        ([ALL[1]], [1]),
        ([ALL[1], ALL[4]], [1, 4]),
        (["--rlenv-task", "*-0000[12]"], [1, 2]),
        (["--rlenv-task", "*1", "--rlenv-task", "*2"], [1, 2]),
        (["--rlenv-exclude-task", "*5"], [0, 1, 2, 3, 4]),
        (["--rlenv-limit", "2"], [0, 1]),
        (["-p", "no:cacheprovider", ALL[2]], [2]),
        (["-p", "no:xdist", ALL[2]], [2]),
        (["-c", "other.ini"], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_what_is_listed(six: Project, args: list[str], chosen: list[int]) -> None:
    (six.path / "other.ini").write_text("[pytest]\n")
    result = six.demo("--co", "-q", *args)
    assert ids(result) == [ALL[n] for n in chosen]
    assert result.ret == 0
    assert not (six.path / ".rlenv").exists(), "a listing leaves nothing behind"


def test_an_id_alone_names_its_environment(six: Project) -> None:
    assert outcomes(six.run(ALL[0])) == {"passed": 1}
    assert outcomes(six.run("rlenv:envs/demo")) == {"passed": 4, "failed": 1, "errors": 1}


def test_a_printed_id_works_from_another_folder(six: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (six.path / "sub").mkdir()
    monkeypatch.chdir(six.path / "sub")
    assert outcomes(six.run(ALL[0])) == {"passed": 1}
    assert ids(six.run("--rlenv", "../envs/demo", "--co", "-q")) == ALL


def test_last_failed_failed_first_new_first_stepwise(six: Project) -> None:
    six.demo()
    assert outcomes(six.demo("--lf"))["failed"] == 1
    lf = six.demo("--lf", "--co", "-q")
    assert ids(lf) == [ALL[2], ALL[5]]
    assert ids(six.demo("--ff", "--co", "-q")) == [ALL[2], ALL[5], ALL[0], ALL[1], ALL[3], ALL[4]]
    assert len(ids(six.demo("--nf", "--co", "-q"))) == 6
    stepwise = six.demo("--sw")
    assert outcomes(stepwise)["failed"] == 1
    assert "errors" not in outcomes(stepwise)


def test_last_failed_beside_own_tests(six: Project) -> None:
    six.pytester.makepyfile(test_own="def test_good(): pass\ndef test_bad(): assert 0")
    six.demo(".")
    result = six.demo(".", "--lf")
    assert outcomes(result) == {"failed": 2, "errors": 1}


@pytest.mark.parametrize(
    ("args", "counts"),
    [
        (["--rlenv", "envs/demo"], {"passed": 4, "failed": 1, "errors": 1}),
        (["--rlenv", "envs/demo", "."], {"passed": 5, "failed": 1, "errors": 1}),
        (["--rlenv", "envs/demo", "test_own.py::test_unit"], {"passed": 5, "failed": 1, "errors": 1}),
        (["test_own.py::test_unit", ALL[1]], {"passed": 2}),
        ([], {"passed": 1}),
    ],
)
def test_beside_own_tests(six: Project, args: list[str], counts: dict[str, int]) -> None:
    six.pytester.makepyfile(test_own="def test_unit(): pass")
    assert outcomes(six.run(*args)) == counts


@pytest.mark.parametrize(
    ("ini", "args", "counts"),
    [
        ("rlenv_repos = envs/demo", [], {"passed": 4, "failed": 1, "errors": 1}),
        ("rlenv_repos = envs/demo\ntestpaths = own", [], {"passed": 5, "failed": 1, "errors": 1}),
        ("rlenv_repos = envs/demo", ["own"], {"passed": 1}),
        ("testpaths = own", ["--rlenv", "envs/demo"], {"passed": 4, "failed": 1, "errors": 1}),
    ],
)
def test_the_ini_key_acts_like_testpaths(
    six: Project, ini: str, args: list[str], counts: dict[str, int]
) -> None:
    six.pytester.makeini(f"[pytest]\n{ini}\n")
    own = six.path / "own"
    own.mkdir()
    (own / "test_own.py").write_text("def test_unit(): pass")
    assert outcomes(six.run(*args)) == counts


def test_marks_come_from_the_tasks_metadata(project: Project) -> None:
    config = 'schema_version = "1.4"\n[metadata]\ndifficulty = "hard"\ntags = ["file-operations", "slow"]\n'
    project.task("one", config=config)
    project.task("two")
    assert ids(project.demo("--co", "-q", "-m", "slow", "--strict-markers")) == ["rlenv:envs/demo::one"]
    assert ids(project.demo("--co", "-q", "-m", "file_operations")) == ["rlenv:envs/demo::one"]
    assert ids(project.demo("--co", "-q", "-m", "not slow")) == ["rlenv:envs/demo::two"]


@pytest.mark.parametrize("option", ["--setup-plan", "--fixtures-per-test"])
def test_planning_runs_nothing(six: Project, option: str) -> None:
    result = six.demo(option)
    result.stdout.fnmatch_lines(["*rollout*"])
    assert not (six.path / "scripted").exists()
    assert not (six.path / ".rlenv").exists()


def test_setup_show_runs(six: Project) -> None:
    result = six.demo("--setup-show", "-k", "00001")
    result.stdout.fnmatch_lines(["*SETUP    F rollout*"])
    assert outcomes(result)["passed"] == 1


def test_the_tree(six: Project) -> None:
    result = six.demo("--co")
    result.stdout.fnmatch_lines(["*<EnvironmentNode rlenv:envs/demo>", "*<RolloutItem task-00000>"])
    assert "rlenv:envs/demo: 6" in six.demo("--co", "-qq").outlines


def test_several_agents_are_a_level_of_their_own(six: Project) -> None:
    args = ["--agent", "oracle,nop", "--rlenv-limit", "2"]
    assert ids(six.demo("--co", "-q", *args)) == [
        f"{task}::{agent}" for task in ALL[:2] for agent in ("oracle", "nop")
    ]
    assert outcomes(six.demo(*args)) == {"passed": 4}
    assert outcomes(six.run("--agent", "oracle,nop", f"{ALL[0]}::nop")) == {"passed": 1}


def test_odd_names_survive_last_failed(project: Project) -> None:
    for name in ("with[brackets]", "a b", "grüße", "per%cent"):
        project.task(name, test="# scripted: reward=0")
    assert outcomes(project.demo()) == {"failed": 4}
    assert outcomes(project.demo("--lf")) == {"failed": 4}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--rlenv", "nowhere"], "*nowhere*"),
        (["--rlenv", "./nowhere"], "*nowhere*"),
        (["--rlenv", "envs/demo", "--agent", "magic"], "*magic*no such agent*"),
        (["--rlenv", "envs/demo", "--agent", "no.module:Cls"], "*cannot import 'no.module'*"),
        (["--rlenv", "envs/demo", "--rlenv-threshold", "high"], "*--rlenv-threshold = 'high'*"),
        (["--rlenv", "envs/demo", "--rlenv-task", "zzz*"], "*--rlenv-task 'zzz?' matches none of 6 tasks*"),
        (["rlenv:envs/demo::task-0000x"], "*not found: rlenv:envs/demo::task-0000x*"),
        (["rlenv:envs/demo::task-00001::magic"], "*agent 'magic' is not part of this run*"),
        (["--rlenv", "envs/demo", "--rlenv-sandbox", "podman"], "*podman*"),
    ],
)
@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_a_users_mistake_is_one_message_and_exit_code_4(
    six: Project, args: list[str], words: str, workers: list[str]
) -> None:
    own = any("sandbox" in arg for arg in args)
    result = six.run(*args, *workers, sandbox=None if own else "support.scripted:ScriptedSandbox")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [*result.outlines, *result.errlines]
    assert "Traceback" not in "\n".join(lines)
    result.stderr.fnmatch_lines([f"ERROR: rlenv: {words}"])


def test_an_environment_without_tasks_is_an_error(project: Project) -> None:
    project.environment.mkdir(parents=True)
    (project.environment / "data.parquet").write_text("")
    result = project.demo()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: rlenv: *task.toml*"])
