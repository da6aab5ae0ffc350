"""Which images a task's boxes start from, as they are asked of every task before a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tasks import write_task

from pytest_rlenv.errors import TaskInvalid, Unsupported
from pytest_rlenv.frameworks.protocol import get_framework
from pytest_rlenv.sandboxes.model import ImageSpec

SEPARATE = '[verifier]\nenvironment_mode = "separate"\n'
PREBUILT = '[environment]\ndocker_image = "agent:1"\n'


def images(folder: Path) -> list[str]:
    """Return names of prebuilt images, and folders to build relative to the task."""
    found = get_framework("harbor").images(folder, "it")
    return [image.name or str((image.context or Path()).relative_to(folder.resolve())) for image in found]


@pytest.mark.parametrize(
    ("config", "files", "expected"),
    [
        ("", [], ["environment"]),
        (PREBUILT, [], ["agent:1"]),
        ("", ["tests/Dockerfile"], ["environment"]),
        (SEPARATE, [], ["environment"]),
        (SEPARATE, ["tests/Dockerfile"], ["environment", "tests"]),
        (PREBUILT + SEPARATE, ["tests/Dockerfile"], ["agent:1", "tests"]),
        ('[verifier.environment]\ndocker_image = "judge:1"\n', [], ["environment", "judge:1"]),
        ('[verifier.environment]\ndocker_image = "agent:1"\n' + PREBUILT, [], ["agent:1"]),
        (
            '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\nverifier.environment_mode = "separate"\n',
            ["steps/one/tests/Dockerfile", "steps/two/tests/Dockerfile"],
            ["environment", "steps/two/tests"],
        ),
    ],
)
def test_images(config: str, files: list[str], expected: list[str], tmp_path: Path) -> None:
    task = write_task(tmp_path / "it", config=config)
    for name in files:
        (task / name).parent.mkdir(parents=True, exist_ok=True)
        (task / name).write_text("FROM x\n")
    assert images(task) == expected


@pytest.mark.parametrize(
    ("config", "file"),
    [
        ("", "environment/docker-compose.yaml"),
        (PREBUILT, "environment/docker-compose.yaml"),
        (SEPARATE, "tests/docker-compose.yaml"),
    ],
)
def test_services_need_an_engine(config: str, file: str, tmp_path: Path) -> None:
    task = write_task(tmp_path / "it", config=config)
    (task / file).write_text("services: {}\n")
    with pytest.raises(Unsupported, match=file):
        images(task)


def test_the_image_that_is_asked_for_is_the_one_that_is_prepared(tmp_path: Path) -> None:
    task = write_task(tmp_path / "it")
    (found,) = get_framework("harbor").images(task, "it")
    assert found == ImageSpec(context=task.resolve() / "environment", slug="it")


def test_only_what_tells_is_read(tmp_path: Path) -> None:
    task = write_task(tmp_path / "it", test=None, instruction="")
    (task / "instruction.md").unlink()
    assert images(task) == ["environment"]
    (task / "task.toml").write_text("[environment\n")
    with pytest.raises(TaskInvalid, match=r"task\.toml"):
        images(task)
    with pytest.raises(TaskInvalid, match="no such folder"):
        images(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("prebuilt", "has_dockerfile", "build", "expected"),
    [
        (True, True, False, "image"),
        (True, True, True, "environment"),
        (True, False, True, "image"),
        (False, True, True, "environment"),
    ],
)
def test_dockerfiles_may_be_forced(
    prebuilt: bool, has_dockerfile: bool, build: bool, expected: str, tmp_path: Path
) -> None:
    config = '[environment]\ndocker_image = "image"\n' if prebuilt else ""
    task = write_task(tmp_path / "t", config=config)
    if not has_dockerfile:
        (task / "environment" / "Dockerfile").unlink()
    (found,) = get_framework("harbor").images(task, "it", build=build)
    assert (found.name or (found.context and found.context.name)) == expected
