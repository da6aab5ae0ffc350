"""A run that names no sandbox: one choice for all of its processes, and what people see of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.fake_hub import FakeHub
from support.project import Project, outcomes, properties, read_junit
from support.tasks import write_task

from pytest_rlenv.sandboxes.loading import BUILT_IN

FAKES = {"docker": "support.machine:Docker", "local-host": "support.machine:Host"}
CONFTEST = f"""
import os, pathlib
from pytest_rlenv.sandboxes.loading import BUILT_IN

BUILT_IN.update({FAKES!r})

def pytest_configure_node(node):
    # the machine changes after the controller has made its choice
    here = pathlib.Path(os.environ["MACHINE_DIR"])
    for name in ("docker", "local-host"):
        if (here / f"later-no-{{name}}").exists():
            (here / f"no-{{name}}").touch()
        if (here / f"later-{{name}}").exists():
            (here / f"no-{{name}}").unlink(missing_ok=True)
"""
HOST = "local (host userland)"
NEEDS_IMAGE = "FROM debian:bookworm-slim\nWORKDIR /app\nRUN touch /app/x\n"


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, *names: str) -> None:
        """Set marks: ``no-docker``, ``later-docker`` ..."""
        for name in names:
            (self.folder / name).touch()

    @property
    def asked(self) -> list[str]:
        file = self.folder / "asked"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def machine(project: Project, monkeypatch: pytest.MonkeyPatch) -> Machine:
    folder = project.path / "machine"
    folder.mkdir()
    monkeypatch.setenv("MACHINE_DIR", str(folder))
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "RLENV_SANDBOX"):
        monkeypatch.delenv(name, raising=False)
    for name, path in FAKES.items():
        monkeypatch.setitem(BUILT_IN, name, path)
    project.pytester.makeconftest(CONFTEST)
    return Machine(folder)


def run(project: Project, *args: str) -> pytest.RunResult:
    return project.run("--rlenv", "envs/demo", *args, sandbox=None)


def sandboxes(project: Project) -> set[str]:
    return {record["sandbox"] for record in project.records()}


def started_nothing(project: Project) -> bool:
    return not (project.path / "scripted").exists() and not list(project.path.glob(".rlenv/*/results.jsonl"))


@pytest.mark.parametrize(
    ("marks", "sandbox", "asked"),
    [
        (["later-no-docker"], "docker", ["main docker"]),
        (["no-docker", "later-docker", "later-no-local-host"], HOST, ["main docker", "main local-host"]),
    ],
    ids=["the engine goes", "an engine comes"],
)
def test_workers_do_as_the_controller_chose(
    six: Project, machine: Machine, marks: list[str], sandbox: str, asked: list[str]
) -> None:
    machine.has(*marks)
    result = run(six, "-n2")
    assert outcomes(result) == {"passed": 4, "failed": 1, "errors": 1}
    assert {record["worker"] for record in six.records()} == {"gw0", "gw1"}
    assert sandboxes(six) == {sandbox}
    assert machine.asked == asked


def test_it_is_named_wherever_a_reader_looks(six: Project, machine: Machine) -> None:
    machine.has("no-docker")
    result = run(six, "--junitxml=junit.xml")
    result.stdout.fnmatch_lines(
        [
            f"rlenv: agent=oracle sandbox={HOST} for tests",
            f"rlenv: ran in sandbox {HOST}",
        ]
    )
    assert json.loads((six.run_dir / "run.json").read_text())["sandbox"] == f"{HOST} for tests"
    assert sandboxes(six) == {HOST}
    cases = read_junit(six.path / "junit.xml").values()
    assert {properties(case)["rlenv.sandbox"] for case in cases} == {HOST}


def test_a_lost_rollout_names_it_too(project: Project, machine: Machine) -> None:
    machine.has("no-docker")
    project.tasks(a="# scripted: kill-worker", b="# scripted: reward=1")
    assert outcomes(run(project, "-n1")) == {"passed": 1, "errors": 1}
    assert sandboxes(project) == {HOST}


def test_a_task_that_needs_an_image_stops_the_run_before_it_starts(
    project: Project, machine: Machine
) -> None:
    machine.has("no-docker")
    project.task("free")
    project.task("needs-image", dockerfile=NEEDS_IMAGE)
    project.task("prebuilt", config='[environment]\ndocker_image = "some/image:1"\n')
    project.task("broken", config="[environment\n")
    result = run(project)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: rlenv: no Docker engine answers, and 2 of 4 tasks cannot run without one; nothing*",
            "    docker: no docker here",
            "    local: an image is needed by 2 of 4 tasks:",
            "        needs-image: environment/Dockerfile line 3: RUN touch /app/x: *",
            "        prebuilt: it starts from the prebuilt image some/image:1",
            "  1) *get docker*DOCKER_HOST*",
            "  2) *--rlenv-sandbox local",
            "  3) *--rlenv-task *",
        ],
        consecutive=True,
    )
    assert "Traceback" not in result.stderr.str() + result.stdout.str()
    assert started_nothing(project)


@pytest.mark.parametrize(
    "selection", [["--rlenv-exclude-task", "needs-*"], ["--rlenv-limit", "1"], ["rlenv:envs/demo::free"]]
)
def test_only_selected_tasks_count(project: Project, machine: Machine, selection: list[str]) -> None:
    machine.has("no-docker")
    project.task("free")
    project.task("needs-image", dockerfile=NEEDS_IMAGE)
    assert outcomes(run(project, *selection)) == {"passed": 1}
    assert sandboxes(project) == {HOST}


def test_where_nothing_works(six: Project, machine: Machine) -> None:
    machine.has("no-docker", "no-local-host")
    result = run(six)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: rlenv: no sandbox works on this machine, so nothing was started",
            "    docker: no docker here",
            "    local: no local-host here",
            "  1) *get docker*DOCKER_HOST*",
            "  2) *get local-host",
            "  3) *--rlenv-sandbox module:Class",
        ],
        consecutive=True,
    )
    assert started_nothing(six)


def test_an_engine_that_is_named_is_the_only_one(
    six: Project, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.has("no-docker")
    monkeypatch.setenv("DOCKER_HOST", "tcp://build-box:2375")
    result = run(six)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: rlenv: no docker here", "*get docker; *unset DOCKER_HOST*"])
    assert machine.asked == ["main docker"]


def test_a_list_asks_for_nothing(six: Project, machine: Machine) -> None:
    result = run(six, "--co")
    assert result.ret == pytest.ExitCode.OK
    assert "rlenv: agent=oracle sandbox=auto" in result.outlines
    assert machine.asked == []


def test_a_sandbox_that_is_named_is_taken(six: Project, machine: Machine) -> None:
    run(six, "--rlenv-sandbox=local-host")
    assert sandboxes(six) == {HOST}
    assert machine.asked == ["main local-host"]


OWN = """
import pytest

@pytest.mark.rlenv("envs/demo")
def test_it(rollout):
    assert rollout.reward >= 0.2
"""


@pytest.mark.parametrize(
    ("marks", "sandbox", "workers"),
    [([], "docker", []), (["no-docker"], HOST, []), (["no-docker"], HOST, ["-n2"])],
    ids=["engine", "no engine", "no engine, workers"],
)
def test_where_only_marks_name_tasks_one_process_chooses_for_all(
    six: Project, machine: Machine, marks: list[str], sandbox: str, workers: list[str]
) -> None:
    machine.has(*marks)
    six.pytester.makepyfile(test_own=OWN)
    result = six.run(*workers, sandbox=None)
    assert outcomes(result) == {"passed": 5, "errors": 1}
    assert sandboxes(six) == {sandbox}
    assert f"rlenv: ran in sandbox {sandbox}" in result.outlines
    assert len({asked.split()[0] for asked in machine.asked}) == 1
    assert len(machine.asked) == len(marks) + 1


def test_where_only_marks_name_tasks_and_nothing_works(six: Project, machine: Machine) -> None:
    machine.has("no-docker", "no-local-host")
    six.pytester.makepyfile(test_own=OWN)
    result = six.run(sandbox=None)
    assert outcomes(result) == {"errors": 6}
    assert result.stdout.str().count("rlenv: no sandbox works on this machine") >= 6
    assert "Traceback" not in result.stdout.str()
    assert machine.asked == ["main docker", "main local-host"]


@pytest.mark.parametrize(
    ("marks", "dockerfile", "outcome", "fetched"),
    [
        (["no-docker"], NEEDS_IMAGE, pytest.ExitCode.USAGE_ERROR, True),
        (["no-docker", "no-local-host"], NEEDS_IMAGE, pytest.ExitCode.USAGE_ERROR, False),
        (["no-docker"], "FROM x\n", pytest.ExitCode.OK, True),
    ],
)
def test_tasks_on_the_hub_are_fetched_if_they_must_be_looked_at(
    project: Project,
    machine: Machine,
    hub: FakeHub,
    marks: list[str],
    dockerfile: str,
    outcome: pytest.ExitCode,
    fetched: bool,
) -> None:
    machine.has(*marks)
    source = project.path / "source"
    write_task(source / "tasks" / "apple", dockerfile=dockerfile)
    (source / "README.md").write_text("---\ntags:\n- rl-environment\n- harbor\n---\n# Demo\n")
    hub.add("org/repo", source)
    result = project.run("--rlenv", "org/repo", sandbox=None, process=True)
    assert result.ret == outcome
    assert (hub.count("/resolve/.*/tasks/apple/environment/Dockerfile") > 0) is fetched
    if fetched and outcome is not pytest.ExitCode.OK:
        result.stderr.fnmatch_lines(["*apple: environment/Dockerfile line 3: RUN touch*"])
