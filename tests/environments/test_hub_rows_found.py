"""Rows of a Hub repository, as a finder comes by them: brought once, whole, or with one message."""

from __future__ import annotations

from pathlib import Path

import pytest
import support.scripted_framework as scripted_framework
from support.fake_hub import FakeHub
from support.scripted_episodes import rows

from pytest_rlenv.environments.finders import Others
from pytest_rlenv.environments.layouts import NEMO_GYM, OPENENV
from pytest_rlenv.environments.model import Environment
from pytest_rlenv.environments.resolve import resolve
from pytest_rlenv.environments.selection import Selection
from pytest_rlenv.errors import FetchFailed, RlenvError, SpecError

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
CARD = "---\ntags:\n- rl-environment\n- nemo-gym\n---\n"
ROWS = {"README.md": CARD, "data/rows.jsonl": rows(one={"kind": "tools"}), "data/train.parquet": "x"}


def found(tmp_path: Path, spec: str = "org/repo", framework: str | None = None) -> Environment:
    finders = (scripted_framework.LineFinder(OPENENV), scripted_framework.LineFinder(NEMO_GYM))
    (environment,) = resolve(
        [spec],
        base=tmp_path,
        rootdir=tmp_path,
        cache_dir=tmp_path / "cache",
        selection=Selection(),
        others=Others(lambda: finders, framework),
    )
    return environment


def refusal(tmp_path: Path) -> RlenvError:
    with pytest.raises(RlenvError) as caught:
        found(tmp_path)
    return caught.value


@pytest.mark.parametrize("lfs", [[], ["*.jsonl"]])
def test_what_a_finder_opens_is_brought_once(hub: FakeHub, tmp_path: Path, lfs: list[str]) -> None:
    hub.add("org/repo", ROWS, lfs=lfs)
    environment = found(tmp_path)
    (task,) = environment.tasks
    assert (task.id, task.path, task.framework, task.manifest) == ("one", "data", "nemo-gym", "rows.jsonl")
    assert (environment.folder(task) / "rows.jsonl").read_text() == ROWS["data/rows.jsonl"]
    assert hub.count("train.parquet") == 0
    hub.clear()
    assert found(tmp_path).tasks == environment.tasks
    assert hub.count("/resolve/") == 0


def test_a_pinned_commit_is_found_without_a_request(hub: FakeHub, tmp_path: Path) -> None:
    sha = hub.add("org/repo", ROWS)
    found(tmp_path)
    hub.clear()
    assert [task.id for task in found(tmp_path, f"org/repo@{sha}").tasks] == ["one"]
    assert hub.count() == 0


def test_a_new_commit_has_new_rows(hub: FakeHub, tmp_path: Path) -> None:
    hub.add("org/repo", ROWS)
    found(tmp_path)
    hub.commit("org/repo", ROWS | {"data/rows.jsonl": rows(other={"kind": "tools"})})
    assert [task.id for task in found(tmp_path).tasks] == ["other"]


def test_a_file_that_was_lost_here_is_brought_again(hub: FakeHub, tmp_path: Path) -> None:
    sha = hub.add("org/repo", ROWS)
    environment = found(tmp_path)
    (environment.root / "data" / "rows.jsonl").unlink()
    assert [task.id for task in found(tmp_path, f"org/repo@{sha}").tasks] == ["one"]


def test_rows_of_a_gated_repository_need_access(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("org/repo", ROWS, gated="manual")
    error = refusal(tmp_path)
    assert isinstance(error, SpecError)
    assert "gated" in error.message
    hub.add_token("hf_good", reads=["org/repo"])
    monkeypatch.setenv("HF_TOKEN", "hf_good")
    assert [task.id for task in found(tmp_path).tasks] == ["one"]


def test_a_pointer_in_the_place_of_rows_is_no_row(hub: FakeHub, tmp_path: Path) -> None:
    hub.add("org/repo", ROWS | {"data/rows.jsonl": POINTER})
    error = refusal(tmp_path)
    assert isinstance(error, FetchFailed)
    assert error.message.startswith("data/rows.jsonl is a Git LFS pointer")
    assert not list((tmp_path / "cache").rglob("rows.jsonl"))


@pytest.mark.usefixtures("naps")
@pytest.mark.parametrize("status", [404, 500])
def test_a_refusal_names_the_file(hub: FakeHub, tmp_path: Path, status: int) -> None:
    hub.add("org/repo", ROWS)
    hub.fail("/resolve/.*/data/rows.jsonl", times=10_000, status=status)
    assert "data/rows.jsonl could not be fetched: " in refusal(tmp_path).message


@pytest.mark.parametrize("base", ["", "/data"])
def test_a_tag_without_rows_says_what_is_missing(hub: FakeHub, tmp_path: Path, base: str) -> None:
    hub.add("org/repo", {name: text for name, text in ROWS.items() if "jsonl" not in name})
    with pytest.raises(SpecError, match="0 tasks found in org/repo@") as caught:
        found(tmp_path, f"org/repo{base}")
    assert "looked for folders with task.toml" in caught.value.message
    assert caught.value.hint == "it is tagged nemo-gym, and has no rows.jsonl"


def test_a_folder_of_the_repository_narrows_the_rows_down(hub: FakeHub, tmp_path: Path) -> None:
    hub.add("org/repo", ROWS | {"more/rows.jsonl": rows(two={"kind": "tools"})})
    assert [task.id for task in found(tmp_path).tasks] == ["one", "two"]
    assert [task.id for task in found(tmp_path, "org/repo/more").tasks] == ["two"]
    assert [task.path for task in found(tmp_path, "org/repo/more").tasks] == ["more"]


def test_nothing_is_brought_for_a_framework_that_is_not_wanted(hub: FakeHub, tmp_path: Path) -> None:
    hub.add("org/repo", ROWS | {"tasks/a/task.toml": ""})
    assert [task.id for task in found(tmp_path, framework="harbor").tasks] == ["a"]
    assert hub.count("rows.jsonl") == 0
