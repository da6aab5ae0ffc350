"""The digest of a task, equal to the one in the lock file of Harbor 0.26."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.harbor import ignore
from pytest_rlenv.frameworks.harbor.digest import task_digest

CASES = Path(__file__).parents[2] / "cases" / "harbor"

BY_HARBOR = {
    "plain-pass": "cfcb7b33a6126578b0999497f24e29c6cb2f43deee1ec51d016fbfb213595599",
    "bad-toml": "dfc3aae481c405cb05115b90740c36f118e0130a2a11c3ff41d25e0258e7bf3a",
    "loose-solution-files": "51ea41f50cd9d42ab98df4c82801d4e442d6445eac42c1633927cfddd3714400",
    "steps-mean": "482862d416fa12a8f950a47a686b1a891d615740e49f791ce69bcff8b6cc5026",
    "image-entrypoint": "cad1ae42589f7a0817ea85fb22e8fc1b9cf0d3e898751269aca7d3f5fabd99ff",
    "image-missing": "bb9a0ed12140e54fc9aa8a7af7bb329acaa1f009ee9933bd5d54733c0b5c0d19",
}
"""What Harbor 0.26.0 itself gives for these tasks."""


@pytest.mark.parametrize(("case", "expected"), BY_HARBOR.items())
def test_the_same_as_harbors(case: str, expected: str) -> None:
    assert task_digest(CASES / case) == f"sha256:{expected}"


def test_names_that_many_tasks_have_are_matched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    task_digest(CASES / "plain-pass")
    monkeypatch.setattr(ignore, "match_part", lambda *_: pytest.fail("matched again"))
    task_digest(CASES / "plain-pass")


@pytest.fixture
def task(tmp_path: Path) -> Path:
    for name in (
        "task.toml",
        "instruction.md",
        "environment/Dockerfile",
        "tests/test.sh",
        "solution/solve.sh",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def expected(root: Path, names: list[str]) -> str:
    lines = [f"{name}\0{hashlib.sha256((root / name).read_bytes()).hexdigest()}\n" for name in sorted(names)]
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


BASE = ["task.toml", "instruction.md", "environment/Dockerfile", "tests/test.sh", "solution/solve.sh"]


def test_the_formula(task: Path) -> None:
    assert task_digest(task) == expected(task, BASE)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("README.md", True),
        ("trajectory.json", True),
        ("tests/data/x", True),
        ("environment/deep/er/x", True),
        ("steps/one/instruction.md", True),
        ("notes.md", False),
        ("other/x", False),
        ("tests/__pycache__/x.cpython-311.pyc", False),
        ("tests/x.pyc", False),
        ("tests/x~", False),
        ("environment/.DS_Store", False),
        ("tests/.harborignore", False),
    ],
)
def test_what_counts(task: Path, name: str, counts: bool) -> None:
    (task / name).parent.mkdir(parents=True, exist_ok=True)
    (task / name).write_text("")
    assert task_digest(task) == expected(task, BASE + [name] * counts)


def test_own_gitignore_replaces_the_list_of_litter(task: Path) -> None:
    (task / ".gitignore").write_text("solution/\n!tests/\n")
    (task / "tests" / "x.pyc").write_text("x")
    assert task_digest(task) == expected(task, [*BASE[:4], "tests/x.pyc"])


def test_harborignore_counts(task: Path) -> None:
    (task / "tests" / "x").write_text("x")
    (task / "tests" / ".harborignore").write_text("x")
    assert task_digest(task) == expected(task, BASE)


def test_content_counts_and_mode_does_not(task: Path) -> None:
    before = task_digest(task)
    (task / "tests" / "test.sh").chmod(0o755)
    assert task_digest(task) == before
    (task / "tests" / "test.sh").write_text("other")
    assert task_digest(task) != before


def test_links(task: Path) -> None:
    (task / "tests" / "file").symlink_to("test.sh")
    (task / "tests" / "folder").symlink_to("../solution")
    (task / "tests" / "nothing").symlink_to("nowhere")
    os.mkfifo(task / "environment" / "pipe")
    assert task_digest(task) == expected(task, [*BASE, "tests/file"])


def test_a_name_that_is_not_utf8(task: Path) -> None:
    before = task_digest(task)
    name = os.fsdecode(b"\xff")
    try:
        (task / "tests" / name).write_text("x")
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    assert task_digest(task) != before


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_named(task: Path) -> None:
    (task / "tests" / "test.sh").chmod(0)
    with pytest.raises(TaskInvalid, match=r"tests/test\.sh: cannot be read"):
        task_digest(task)
