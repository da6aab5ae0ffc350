"""A task's folder: what makes it one, and what is named when it is none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pytest_rlenv.errors import Stage, TaskInvalid
from pytest_rlenv.frameworks.harbor.config_text import MAX_CONFIG_BYTES
from pytest_rlenv.frameworks.harbor.steps import steps_of
from pytest_rlenv.frameworks.harbor.task import HarborTask, load_task

CASES = Path(__file__).parents[2] / "cases" / "harbor"
NAMES = sorted(path.name for path in CASES.iterdir() if path.is_dir())
EXPECTED = json.loads((CASES / "expected.json").read_text())
INVALID = {
    "bad-toml": "task.toml",
    "bad-field": "timeout_sec",
    "no-instruction": "instruction.md",
    "no-test-script": "test.sh",
}


def test_every_case_has_an_expectation() -> None:
    assert set(NAMES) == set(EXPECTED)


@pytest.mark.parametrize("case", [name for name in NAMES if name not in INVALID])
def test_a_valid_case(case: str) -> None:
    task = load_task(CASES / case, case)
    assert task.name == case
    assert bool(task.instruction) is not bool(task.config.steps)
    for step in steps_of(task):
        assert [entry.mode for entry in step.tests_entries() if entry.path == "test.sh"] == [0o755]
    assert bool(task.warnings) is (case == "unknown-field")
    assert task.digest.startswith("sha256:")


@pytest.mark.parametrize(("case", "named"), INVALID.items())
def test_an_invalid_case(case: str, named: str) -> None:
    with pytest.raises(TaskInvalid) as caught:
        load_task(CASES / case, case)
    assert named in caught.value.message
    assert caught.value.stage is Stage.LOAD
    assert all(word in caught.value.message for word in EXPECTED[case]["oracle"][2])


def test_the_missing_solution_is_named() -> None:
    (step,) = steps_of(load_task(CASES / "no-solution", "no-solution"))
    assert step.solution_entries() is None
    assert (
        step.missing_solution == "no reference solution: solution/solve.sh not found (there is no solution/)"
    )


def test_loose_solution_files_travel_with_it() -> None:
    entries = steps_of(load_task(CASES / "loose-solution-files", "x"))[0].solution_entries()
    assert entries is not None
    assert [(entry.path, entry.mode) for entry in entries] == [
        ("data", 0o755),
        ("data/answer.txt", 0o644),
        ("solve.sh", 0o755),
    ]


def test_exec_bits_are_restored() -> None:
    (step,) = steps_of(load_task(CASES / "not-executable", "x"))
    assert [entry.mode for entry in [*step.tests_entries(), *(step.solution_entries() or [])]] == [
        0o755,
        0o755,
    ]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    task = tmp_path / "task"
    write(
        task,
        {
            "task.toml": "",
            "instruction.md": "do it",
            "environment/Dockerfile": "FROM x",
            "tests/test.sh": "x",
        },
    )
    return task


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def load(root: Path) -> HarborTask:
    return load_task(root, "t")


def refused(root: Path) -> str:
    with pytest.raises(TaskInvalid) as caught:
        load(root)
    assert caught.value.message.isprintable()
    return caught.value.message


def test_the_smallest_task(root: Path) -> None:
    task = load(root)
    assert (task.name, task.instruction, task.warnings) == ("t", "do it", ())
    assert task.dockerfile == root / "environment" / "Dockerfile"
    assert task.compose_file is None
    assert task.environment_entries() == []
    assert task.rlenv.expect == {}


def test_no_such_folder(tmp_path: Path) -> None:
    assert "no such folder" in refused(tmp_path / "nowhere")


def test_the_folder_may_be_reached_through_a_link(root: Path) -> None:
    alias = root.parent / "alias"
    alias.symlink_to(root)
    assert load(alias).root == root


class TestConfigFile:
    def test_missing(self, root: Path) -> None:
        (root / "task.toml").unlink()
        assert refused(root).startswith(
            "task.toml: not found (the task's folder holds environment, instruction.md"
        )

    def test_a_folder(self, root: Path) -> None:
        (root / "task.toml").unlink()
        (root / "task.toml").mkdir()
        assert refused(root) == "task.toml: a folder, not a file"

    def test_a_fifo_does_not_block(self, root: Path) -> None:
        (root / "task.toml").unlink()
        os.mkfifo(root / "task.toml")
        assert refused(root) == "task.toml: not a regular file"

    def test_huge(self, root: Path) -> None:
        with (root / "task.toml").open("wb") as file:
            file.truncate(10 * MAX_CONFIG_BYTES)
        assert refused(root) == f"task.toml: more than {MAX_CONFIG_BYTES} bytes"

    def test_leaves_the_task(self, root: Path) -> None:
        (root / "task.toml").rename(root.parent / "elsewhere.toml")
        (root / "task.toml").symlink_to("../elsewhere.toml")
        assert refused(root).startswith("task.toml: leaves the task")


class TestEnvironmentFolder:
    def test_missing(self, root: Path) -> None:
        (root / "environment" / "Dockerfile").unlink()
        (root / "environment").rmdir()
        message = refused(root)
        assert message.startswith(
            "environment/: not found (the task's folder holds instruction.md, task.toml, tests)"
        )
        assert "environment.docker_image" in message

    def test_missing_with_an_image(self, root: Path) -> None:
        (root / "environment" / "Dockerfile").unlink()
        (root / "environment").rmdir()
        (root / "task.toml").write_text('[environment]\ndocker_image = "x"')
        assert load(root).environment_entries() == []

    def test_nothing_to_build_from(self, root: Path) -> None:
        (root / "environment" / "Dockerfile").rename(root / "environment" / "dockerfile.txt")
        assert "neither Dockerfile nor docker-compose.yaml (environment/ holds dockerfile.txt)" in refused(
            root
        )

    def test_compose_file(self, root: Path) -> None:
        (root / "environment" / "Dockerfile").rename(root / "environment" / "docker-compose.yaml")
        task = load(root)
        assert (task.dockerfile, task.compose_file) == (None, root / "environment" / "docker-compose.yaml")

    def test_loose_files_of_a_prebuilt_image(self, root: Path) -> None:
        (root / "task.toml").write_text('[environment]\ndocker_image = "x"')
        (root / "environment" / "Dockerfile").unlink()
        write(root, {"environment/data/in.csv": "1"})
        assert [entry.path for entry in load(root).environment_entries()] == ["data", "data/in.csv"]

    def test_no_loose_files_beside_a_dockerfile(self, root: Path) -> None:
        (root / "task.toml").write_text('[environment]\ndocker_image = "x"')
        write(root, {"environment/in.csv": "1"})
        assert load(root).environment_entries() == []

    def test_a_loose_file_that_leaves_the_task(self, root: Path) -> None:
        (root / "task.toml").write_text('[environment]\ndocker_image = "x"')
        (root / "environment" / "Dockerfile").unlink()
        (root / "environment" / "in.csv").symlink_to("/etc/passwd")
        assert refused(root).startswith("environment/in.csv: leaves the task")

    def test_a_dockerfile_that_leaves_the_task(self, root: Path) -> None:
        (root / "environment" / "Dockerfile").unlink()
        (root / "environment" / "Dockerfile").symlink_to("/etc/passwd")
        assert refused(root).startswith("environment/Dockerfile: leaves the task")

    def test_a_dockerfile_that_is_a_folder(self, root: Path) -> None:
        (root / "environment" / "Dockerfile").unlink()
        (root / "environment" / "Dockerfile").mkdir()
        assert refused(root) == "environment/Dockerfile: not a regular file"

    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            (
                "w.bin",
                b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
                "a git-lfs pointer",
            ),
            ("entry.sh", b"#!/bin/sh\r\necho\r\n" + b"x" * 2000, "its lines end in CR LF"),
            ("entry", b"#!/bin/sh\r\n", "its lines end in CR LF"),
            ("data.csv", b"a\r\n", None),
        ],
    )
    def test_odd_files_of_the_build_context_are_warnings(
        self, root: Path, name: str, content: bytes, words: str | None
    ) -> None:
        (root / "environment" / name).write_bytes(content)
        warnings = load(root).warnings
        assert len(warnings) == bool(words)
        assert all(text.startswith(f"environment/{name}: {words}") for text in warnings)

    @pytest.mark.parametrize(
        ("target", "words"),
        [
            ("Dockerfile", None),
            ("../tests/test.sh", "a link to '../tests/test.sh': the image gets the link"),
            ("/etc/passwd", "a link to '/etc/passwd': the image gets the link"),
            ("link", "links that lead in a circle"),
        ],
    )
    def test_links_that_leave_the_build_context_are_warnings(
        self, root: Path, target: str, words: str | None
    ) -> None:
        (root / "environment" / "link").symlink_to(target)
        warnings = load(root).warnings
        assert len(warnings) == bool(words)
        assert all(text.startswith(f"environment/link: {words}") for text in warnings)

    def test_fields_that_a_verifier_has_no_use_for(self, root: Path) -> None:
        table = '[verifier.environment]\nskills_dir = "/x"\nhealthcheck = {command = "x"}\ncpus = 1\n'
        (root / "task.toml").write_text(table)
        assert load(root).warnings == (
            "task.toml: verifier.environment.healthcheck: not used for a verifier, as in Harbor",
            "task.toml: verifier.environment.skills_dir: not used for a verifier, as in Harbor",
        )


class TestTests:
    def test_another_script_is_named(self, root: Path) -> None:
        (root / "tests" / "test.sh").rename(root / "tests" / "test.py")
        assert refused(root) == "tests/test.sh: not found (tests/ holds test.py)"

    def test_empty_folder(self, root: Path) -> None:
        (root / "tests" / "test.sh").unlink()
        assert refused(root) == "tests/test.sh: not found (tests/ is empty)"

    def test_many_files(self, root: Path) -> None:
        (root / "tests" / "test.sh").unlink()
        write(root, {f"tests/{i}": "" for i in range(9)})
        assert refused(root) == "tests/test.sh: not found (tests/ holds 0, 1, 2, 3, 4, ...)"

    def test_kept_out(self, root: Path) -> None:
        write(root, {"tests/.harborignore": "*.sh"})
        assert refused(root) == "tests/test.sh: kept out by .harborignore, but required"

    def test_a_folder(self, root: Path) -> None:
        (root / "tests" / "test.sh").unlink()
        (root / "tests" / "test.sh").mkdir()
        assert refused(root) == "tests/test.sh: not a regular file"

    def test_leaves_the_task(self, root: Path) -> None:
        (root / "tests" / "extra").symlink_to("/etc")
        assert refused(root).startswith("tests/extra: leaves the task (a link to '/etc')")

    def test_windows(self, root: Path) -> None:
        (root / "task.toml").write_text('[environment]\nos = "windows"')
        assert refused(root) == "tests/test.bat: not found (tests/ holds test.sh)"
        write(root, {"tests/test.bat": "x"})
        assert (
            steps_of(load(root))[0].missing_solution
            == "no reference solution: solution/solve.bat not found (there is no solution/)"
        )

    @pytest.mark.parametrize(
        "config",
        [
            '[verifier.environment]\ndocker_image = "x"',
            '[verifier]\nenvironment_mode = "separate"\nenvironment = {docker_image = "x"}',
        ],
    )
    def test_not_needed_where_a_separate_image_has_them(self, root: Path, config: str) -> None:
        (root / "task.toml").write_text(config)
        (root / "tests" / "test.sh").unlink()
        load(root)

    def test_not_needed_where_a_separate_image_is_built_with_them(self, root: Path) -> None:
        (root / "task.toml").write_text('[verifier]\nenvironment_mode = "separate"')
        (root / "tests" / "test.sh").rename(root / "tests" / "Dockerfile")
        load(root)

    def test_needed_by_a_separate_verifier_without_an_image(self, root: Path) -> None:
        (root / "task.toml").write_text('[verifier]\nenvironment_mode = "separate"')
        (root / "tests" / "test.sh").unlink()
        assert refused(root).startswith("tests/test.sh: not found")


class TestSolution:
    def test_another_script_is_named(self, root: Path) -> None:
        write(root, {"solution/solve.py": ""})
        (step,) = steps_of(load(root))
        assert step.solution_entries() is None
        assert (
            step.missing_solution
            == "no reference solution: solution/solve.sh not found (solution/ holds solve.py)"
        )

    def test_kept_out(self, root: Path) -> None:
        write(root, {"solution/solve.sh": "", "solution/.harborignore": "solve.sh"})
        assert refused(root) == "solution/solve.sh: kept out by .harborignore, but required"

    def test_leaves_the_task(self, root: Path) -> None:
        write(root, {"solution/solve.sh": ""})
        (root / "solution" / "secret").symlink_to("/etc/passwd")
        assert refused(root).startswith("solution/secret: leaves the task")


class TestSteps:
    @pytest.fixture(autouse=True)
    def two_steps(self, root: Path) -> None:
        write(
            root,
            {
                "task.toml": '[[steps]]\nname = "one"\n[[steps]]\nname = "two"',
                "steps/one/instruction.md": "first",
                "steps/two/instruction.md": "second",
                "steps/two/tests/test.sh": "x",
            },
        )
        (root / "instruction.md").unlink()

    def test_a_step_may_use_the_tests_of_the_task(self, root: Path) -> None:
        assert load(root).instruction == ""

    def test_no_folder(self, root: Path) -> None:
        (root / "steps" / "two").rename(root / "steps" / "Two")
        assert refused(root).startswith("steps/two/: not found")

    def test_no_instruction(self, root: Path) -> None:
        (root / "steps" / "one" / "instruction.md").unlink()
        assert refused(root).startswith("steps/one/instruction.md: not found")

    def test_no_script(self, root: Path) -> None:
        (root / "tests" / "test.sh").unlink()
        message = refused(root)
        assert message.startswith("steps/one/tests/test.sh or tests/test.sh: not found")
        assert "there is no steps/one/tests/; tests/ is empty" in message

    def test_a_link_out_of_the_task(self, root: Path) -> None:
        write(root, {"steps/two/workdir/a": ""})
        (root / "steps" / "two" / "workdir" / "b").symlink_to("/etc/passwd")
        assert refused(root).startswith("steps/two/workdir/b: leaves the task")

    def test_a_folder_that_is_a_link_out_of_the_task(self, root: Path) -> None:
        (root / "steps" / "two").rename(root.parent / "two")
        (root / "steps" / "two").symlink_to("../../two")
        assert refused(root).startswith("steps/two: leaves the task")


def test_warnings_of_all_files_come_together(root: Path) -> None:
    write(root, {"task.toml": "bogus = 1", "instruction.md": ""})
    (root / "tests" / "test.sh").write_bytes(b"#!/bin/bash\r\n")
    assert [warning.split(":")[0] for warning in load(root).warnings] == [
        "task.toml",
        "instruction.md",
        "tests/test.sh",
    ]


def test_own_metadata(root: Path) -> None:
    write(root, {"task.toml": '[metadata.rlenv]\nreward_key = "acc"\nreward_range = [0, 1]'})
    assert (load(root).rlenv.reward_key, load(root).rlenv.reward_range) == ("acc", (0.0, 1.0))
