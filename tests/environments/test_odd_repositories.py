"""Repositories that no Git makes, and folders with nothing in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.environments import Resolve, repo_files
from support.fake_hub import FakeHub

from pytest_rlenv.environments.materialise import materialise
from pytest_rlenv.environments.nothing_found import nothing_found
from pytest_rlenv.environments.resolve import fetch
from pytest_rlenv.errors import FetchFailed, RlenvError


def test_a_name_that_is_a_file_and_a_folder_is_a_conflict(tmp_path: Path) -> None:
    (tmp_path / "blob").touch()
    names = ("task.toml", "tests/a", "tests/a/b/c")
    with pytest.raises(FetchFailed, match="'tests/a' is both a file and the folder of 'tests/a/b/c'"):
        materialise(dict.fromkeys(names, tmp_path / "blob"), tmp_path / "task", tmp_path / "scratch")
    assert not (tmp_path / "task").exists()


def test_an_absolute_path_is_called_one(tmp_path: Path) -> None:
    (tmp_path / "blob").touch()
    with pytest.raises(FetchFailed, match="'/etc/x' is an absolute path"):
        materialise({"/etc/x": tmp_path / "blob"}, tmp_path / "task", tmp_path / "scratch")


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"tasks/t1/tests/a": "x", "tasks/t1/tests/a/b": "y"}, "tests/a"),
        ({"/etc/evil": "x"}, "cannot be an absolute"),
    ],
)
def test_a_repository_with_odd_paths_says_so(
    odd: dict[str, str], words: str, hub: FakeHub, resolve_one: Resolve, cache_dir: Path
) -> None:
    files = repo_files("t1") if "/etc/evil" not in odd else {}
    if not files:  # the repository is one task, with all of its files
        files = {name.removeprefix("tasks/t1/"): text for name, text in repo_files("t1").items()}
    hub.add("org/odd", files | odd)
    environment = resolve_one("org/odd")
    with pytest.raises(RlenvError) as raised:
        fetch(environment, environment.tasks, cache_dir)
    assert words in raised.value.message
    assert "RLENV_CACHE" not in raised.value.hint
    assert "HF_ENDPOINT" not in raised.value.hint


def test_the_hint_for_an_empty_place_fits_it(tmp_path: Path) -> None:
    assert "push" in nothing_found("org/repo@0123456789ab", []).hint
    local = nothing_found(str(tmp_path), []).hint
    assert "push" not in local
    assert "revision" not in local
    assert "another folder" in local
