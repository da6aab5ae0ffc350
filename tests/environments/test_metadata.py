from __future__ import annotations

from pathlib import Path

import pytest
from support.environments import Resolve, repo_files
from support.fake_hub import FakeHub

from pytest_rlenv.environments.model import LOCAL, Environment, TaskRef, dumps, loads
from pytest_rlenv.environments.resolve import fetch, read_metadata


def local(tmp_path: Path, manifest: str | bytes) -> TaskRef:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/task.toml").write_bytes(manifest if isinstance(manifest, bytes) else manifest.encode())
    environment = Environment("env", LOCAL, tmp_path, tasks=(TaskRef("a", "a"),))
    return read_metadata(environment, tmp_path / "cache").tasks[0]


@pytest.mark.parametrize(
    ("manifest", "tags", "attributes"),
    [
        ('[metadata]\ntags = ["x", "y"]\ndifficulty = "hard"', ("x", "y"), {"difficulty": "hard"}),
        (
            '[task]\nname = "o/t"\nkeywords = ["y", "z"]\n[metadata]\ntags = ["x", "y"]',
            ("x", "y", "z"),
            {},
        ),
        (
            '[metadata]\ncategory = "git"\nminutes = 5\nhard = true\nshare = 0.5\n[metadata.x]\ny = 1',
            (),
            {"category": "git", "minutes": 5, "hard": True, "share": 0.5},
        ),
        ('[metadata]\ntags = "one"', ("one",), {}),
        ("[metadata]\ntags = [1, {a = 2}, '']", (), {}),
        ("metadata = 3\ntask = 4", (), {}),
        ("", (), {}),
        ("not toml", (), {}),
        (b"\xff\xfe", (), {}),
    ],
)
def test_metadata(
    manifest: str | bytes, tags: tuple[str, ...], attributes: dict[str, object], tmp_path: Path
) -> None:
    task = local(tmp_path, manifest)
    assert (task.tags, task.attributes) == (tags, attributes)


def test_a_manifest_that_vanished(tmp_path: Path) -> None:
    task = TaskRef("a", "a")
    environment = Environment("env", LOCAL, tmp_path, tasks=(task,))
    assert read_metadata(environment, tmp_path / "cache").tasks == (task,)


def test_on_the_hub_only_the_manifests_are_fetched(
    hub: FakeHub, resolve_one: Resolve, cache_dir: Path
) -> None:
    hub.add("org/repo", repo_files("a", "b", "c") | {"tasks/d/instruction.md": "", "tasks/d/tests/t": ""})
    environment = resolve_one("org/repo")
    fetch(environment, environment.tasks[:1], cache_dir)
    hub.clear()
    read = read_metadata(environment, cache_dir)
    assert [task.tags for task in read.tasks] == [("tasks/a",), ("tasks/b",), ("tasks/c",), ()]
    assert read.tasks[1].attributes == {"difficulty": "easy"}
    assert hub.count() == hub.count("task.toml") == 4
    assert not environment.folder(environment.tasks[1]).exists()
    hub.clear()
    assert read_metadata(environment, cache_dir) == read
    assert hub.count() == 0
    assert loads(dumps([read])) == [read]


def test_manifests_that_do_not_come_are_left_out(
    hub: FakeHub, resolve_one: Resolve, cache_dir: Path, naps: list[float]
) -> None:
    hub.add("org/repo", repo_files("a"))
    environment = resolve_one("org/repo")
    hub.fail("/resolve/", times=-1, status=503)
    assert read_metadata(environment, cache_dir).tasks == environment.tasks
