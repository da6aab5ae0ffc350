"""Images as the plugin sees them: the next one made meanwhile, Dockerfiles forced, and full disks."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from support.image_making import images_asked_for
from support.project import Project, outcomes, properties, read_junit
from support.tiny_disk import needs_mounts, tiny_disk

MAKING = "support.image_making:Making"
PASSES = "# scripted: reward=1"
AHEAD = "rlenv-images"

_numbers = itertools.count()


def dockerfile(*directives: str) -> str:
    lines = [f"# image: {each}" for each in directives]
    return "\n".join(["FROM debian:bookworm-slim", f"# {next(_numbers)}", *lines, ""])


def run(
    project: Project, *args: str | Path, sandbox: str = MAKING, process: bool = False
) -> pytest.RunResult:
    return project.run("--rlenv", "envs/demo", *args, sandbox=sandbox, process=process)


# ---- the next image is made while a rollout runs


def meeting(project: Project) -> Path:
    return project.path / "meeting"


def waits(project: Project) -> str:
    """Return a verifier that ends when the next task's image has been prepared."""
    return f"# scripted: meet={meeting(project)} 2\n{PASSES}"


@pytest.mark.parametrize("workers", [[], ["-n1"]])
def test_the_next_image_is_made_while_a_rollout_runs(project: Project, workers: list[str]) -> None:
    project.task("a", test=waits(project), dockerfile=dockerfile())
    project.task("b", test=PASSES, dockerfile=dockerfile(f"meet={meeting(project)}"))
    assert outcomes(run(project, *workers)) == {"passed": 2}
    asked = images_asked_for(project.path)
    assert ("b", AHEAD) in asked
    assert [name for name, thread in asked if thread != AHEAD] == ["a", "b"]


def test_a_marked_test_has_its_image_made_too(project: Project) -> None:
    project.task("a", test=waits(project), dockerfile=dockerfile())
    project.task("b", test=PASSES, dockerfile=dockerfile(f"meet={meeting(project)}"))
    project.pytester.makepyfile(
        """
        import pytest

        @pytest.mark.rlenv("envs/demo")
        def test_it(rollout):
            assert rollout.reward == 1.0
        """
    )
    assert outcomes(project.run(sandbox=MAKING)) == {"passed": 2}
    assert ("b", AHEAD) in images_asked_for(project.path)


def test_no_image_is_asked_for_twice_in_advance(project: Project) -> None:
    """Nor that of the same task again, for another agent."""
    for name in "abc":
        project.task(name, test=PASSES, config='[environment]\ndocker_image = "one"\n')
    assert outcomes(run(project, "--agent=oracle,nop")) == {"passed": 3, "failed": 3}
    assert [name for name, thread in images_asked_for(project.path) if thread == AHEAD] == []


@pytest.mark.parametrize(
    ("sandbox", "conftest"),
    [
        ("support.image_making:OneByOne", ""),
        (
            MAKING,
            """
            import pytest
            from support.image_making import Making

            @pytest.fixture
            def rlenv_sandbox(rlenv_sandbox):
                return Making(rlenv_sandbox.context)
            """,
        ),
    ],
    ids=["a sandbox for one thread", "a sandbox of the user's own"],
)
def test_where_no_image_is_made_ahead(project: Project, sandbox: str, conftest: str) -> None:
    project.pytester.makeconftest(conftest)
    for name in "abc":
        project.task(name, test=PASSES, dockerfile=dockerfile())
    assert outcomes(run(project, sandbox=sandbox)) == {"passed": 3}
    asked = images_asked_for(project.path)
    assert [name for name, _ in asked] == ["a", "b", "c"]
    assert AHEAD not in {thread for _, thread in asked}


def test_what_goes_wrong_ahead_is_the_next_tasks_own_error(project: Project) -> None:
    project.task("a", test=waits(project), dockerfile=dockerfile())
    broken = dockerfile(f"meet={meeting(project)}") + "RUN build-fails\n"
    project.task("b", test=PASSES, dockerfile=broken)
    project.task("c", test=PASSES, dockerfile=dockerfile())
    result = run(project)
    assert outcomes(result) == {"passed": 2, "errors": 1}
    assert {record["task"] for record in project.records() if record["error"]} == {"b"}


def test_an_image_that_is_never_done_does_not_keep_a_run_from_ending(project: Project) -> None:
    fails = f"# scripted: meet={meeting(project)} 2\n# scripted: reward=0"
    project.task("a", test=fails, dockerfile=dockerfile())
    project.task("b", test=PASSES, dockerfile=dockerfile(f"meet={meeting(project)}", "hang"))
    result = run(project, "-x", process=True)
    assert outcomes(result) == {"failed": 1}
    assert result.ret == pytest.ExitCode.TESTS_FAILED


# ---- what takes long is told


@pytest.mark.parametrize(("options", "told"), [([], True), (["-n1"], True), (["-q"], False), (["-s"], True)])
def test_who_waits_is_told_what_for(project: Project, options: list[str], told: bool) -> None:
    """Although pytest captures what is written meanwhile, and a worker has no terminal."""
    project.task("a", test=PASSES, dockerfile=dockerfile("notify=pulling some/image:1: 3 of 7 layers"))
    result = run(project, *options, process=True)
    assert outcomes(result) == {"passed": 1}
    lines = [line for line in result.errlines if line.startswith("rlenv: ")]
    assert lines == (["rlenv: pulling some/image:1: 3 of 7 layers"] if told else [])


# ---- which image is used


def records(project: Project, *args: str) -> dict[str, dict[str, Any]]:
    run(project, *args)
    return {record["task"]: record for record in project.records()}


@pytest.fixture
def prebuilt(project: Project) -> Project:
    """Two tasks with a prebuilt image, of which one could be built."""
    config = '[environment]\ndocker_image = "some/image:1"\n'
    project.task("both", test=PASSES, config=config, dockerfile=dockerfile())
    folder = project.task("image-only", test=PASSES, config=config)
    (folder / "environment" / "Dockerfile").unlink()
    (folder / "environment" / "data").write_text("x")
    return project


def test_a_prebuilt_image_is_preferred_and_named_by_its_digest(prebuilt: Project) -> None:
    found = records(prebuilt)
    assert [found[name]["image"] for name in ("both", "image-only")] == ["some/image:1@sha256:d"] * 2
    assert {name for name, _ in images_asked_for(prebuilt.path)} == {"some/image:1"}


@pytest.mark.parametrize("how", ["option", "ini"])
def test_dockerfiles_can_be_forced(prebuilt: Project, how: str) -> None:
    if how == "ini":
        prebuilt.pytester.makeini("[pytest]\nrlenv_build = true\n")
    found = records(prebuilt, *(["--rlenv-build"] if how == "option" else []))
    assert found["both"]["image"].startswith("rlenv/both@")
    assert found["both"]["notes"] == []
    assert found["image-only"]["image"].startswith("some/image:1@")
    (note,) = found["image-only"]["notes"]
    assert note["code"] == "not-built"
    assert "no Dockerfile" in note["text"]
    assert "some/image:1" in note["text"]
    assert {name for name, _ in images_asked_for(prebuilt.path)} == {"both", "some/image:1"}


# ---- full disks


@pytest.mark.parametrize("how", [[], ["-n1"], ["--rlenv-jobs=2"]])
def test_a_full_disk_stops_the_run(project: Project, how: list[str]) -> None:
    for name in "abcdef":
        directives = ["disk-full"] if name == "b" else []
        project.task(name, test=PASSES, dockerfile=dockerfile(*directives))
    result = run(project, "--junitxml=junit.xml", *how)
    found = outcomes(result)
    assert found["errors"] == 1
    assert found["skipped"] >= 2, "three are begun at most"
    assert sum(found.values()) == 6
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    cases = read_junit(project.path / "junit.xml")
    assert properties(cases["b"])["rlenv.error"] == "DiskFull"
    skipped = [case.find("skipped") for case in cases.values()]
    reasons = {each.get("message") for each in skipped if each is not None}
    why = "cannot build b: no space left on the engine's disk"
    assert reasons == {f"not started: no space left, as the rollout of b found: {why}"}
    assert len(project.records()) == 6


def test_a_full_disk_stops_all_workers(project: Project) -> None:
    """Those that run something go on with that, and start nothing else."""
    project.task("a", test=PASSES, dockerfile=dockerfile("disk-full"))
    for number in range(9):
        project.task(f"b{number}", test=f"# scripted: sleep=0.3\n{PASSES}", dockerfile=dockerfile())
    found = outcomes(run(project, "-n2"))
    assert found["errors"] == 1
    assert found["skipped"] >= 5


@needs_mounts
def test_a_results_folder_without_space_is_refused(project: Project, tmp_path: Path) -> None:
    for name in "abc":
        project.task(name, test=PASSES, dockerfile=dockerfile())
    with tiny_disk(project.path / "tiny", 1 << 20) as tiny:
        result = run(project, f"--rlenv-output={tiny}/out", "-rs")
        assert outcomes(result) == {"skipped": 2, "errors": 1}
        result.stdout.fnmatch_lines([f"*DiskFull*no space left at {tiny}/out: *KiB free, 64.0 MiB needed*"])
        assert outcomes(run(project, f"--rlenv-output={tiny}/out", "--rlenv-min-free=0")) == {"passed": 3}


@needs_mounts
def test_a_results_folder_that_fills_up_stops_the_run(project: Project) -> None:
    words = "x" * (2 << 20)
    project.task("a", test=PASSES, dockerfile=dockerfile())
    project.task("b", test=f"# scripted: print={words}\n{PASSES}", dockerfile=dockerfile())
    project.task("c", test=PASSES, dockerfile=dockerfile())
    with tiny_disk(project.path / "tiny", 1 << 20) as tiny:
        result = run(
            project, f"--rlenv-output={tiny}/out", "--rlenv-min-free=0", "-rs", "--junitxml=junit.xml"
        )
        assert outcomes(result) == {"passed": 1, "errors": 1, "skipped": 1}
        assert properties(read_junit(project.path / "junit.xml")["b"])["rlenv.error"] == "DiskFull"
        result.stdout.fnmatch_lines(["*not started: no space left*"])
        assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("value", ["much", "-1", "5 parsecs"])
def test_a_size_that_is_none_is_a_usage_error(project: Project, value: str) -> None:
    project.tasks(a=PASSES)
    result = run(project, f"--rlenv-min-free={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--rlenv-min-free = *is not a size*"])
