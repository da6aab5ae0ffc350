from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.environments import CARD, Resolve, ids, repo_files, task_files
from support.fake_hub import FakeHub

from pytest_rlenv.environments.model import HUB, Environment, dumps, loads
from pytest_rlenv.environments.resolve import resolve
from pytest_rlenv.environments.selection import Selection
from pytest_rlenv.errors import SpecError


def test_an_environment_is_pinned_and_nothing_is_fetched(
    hub: FakeHub, resolve_one: Resolve, cache_dir: Path
) -> None:
    sha = hub.add("org/repo", repo_files("b", "a"))
    environment = resolve_one("org/repo")
    assert environment.name == environment.repo_id == "org/repo"
    assert environment.source == HUB
    assert environment.revision == sha
    assert environment.requested_revision is None
    assert environment.title == f"org/repo@{sha[:12]}"
    assert environment.tags == ("rl-environment", "harbor")
    assert [(t.id, t.path) for t in environment.tasks] == [("a", "tasks/a"), ("b", "tasks/b")]
    assert environment.warnings == ()
    assert environment.root == cache_dir / "hub" / "org--repo" / sha
    assert not environment.root.exists()
    assert hub.count("GET /datasets/") == 1  # the card
    assert loads(dumps([environment])) == [environment]


@pytest.mark.parametrize(
    ("revision", "commit"),
    [("main", "new"), ("v1", "old"), ("dev", "dev"), ("feature%2Fx", "branch"), ("refs/pr/7", "pull")],
)
def test_revisions(revision: str, commit: str, hub: FakeHub, resolve_one: Resolve) -> None:
    commits = {"old": hub.add("org/repo", repo_files("old"))}
    hub.tag("org/repo", "v1")
    commits["new"] = hub.commit("org/repo", repo_files("new"))
    for name, branch in (("dev", "dev"), ("branch", "feature/x"), ("pull", "refs/pr/7")):
        commits[name] = hub.commit("org/repo", repo_files(name), branch=branch)
    environment = resolve_one(f"org/repo@{revision}")
    assert environment.revision == commits[commit]
    assert environment.requested_revision == revision.replace("%2F", "/")
    assert ids(environment) == [commit]
    assert resolve_one(f"org/repo@{commits[commit]}").revision == commits[commit]


def test_a_warm_branch_costs_one_request_and_a_warm_commit_none(hub: FakeHub, resolve_one: Resolve) -> None:
    sha = hub.add("org/repo", repo_files("a", "b"))
    first = resolve_one("org/repo")
    for spec, requests in (("org/repo", 1), (f"org/repo@{sha}", 0), (f"org/repo@{sha}/tasks/b", 0)):
        hub.clear()
        environment = resolve_one(spec)
        assert hub.count() == requests
        assert environment.revision == sha
        assert all(task in first.tasks for task in environment.tasks)
        assert environment.tags == first.tags


def test_a_moved_branch_is_listed_anew(hub: FakeHub, resolve_one: Resolve) -> None:
    hub.add("org/repo", repo_files("a"))
    resolve_one("org/repo")
    hub.commit("org/repo", repo_files("a", "b"))
    assert ids(resolve_one("org/repo")) == ["a", "b"]


def test_thousands_of_files_take_a_handful_of_requests(hub: FakeHub, resolve_one: Resolve) -> None:
    files = repo_files(*(f"t{i:04}" for i in range(1300)))
    files |= {f"data/{i}.parquet": str(i) for i in range(100)} | {"docs/img/x.png": ""}
    assert len(files) > 10_000
    hub.add("org/repo", files)
    environment = resolve_one("org/repo")
    assert len(environment.tasks) == 1300
    assert hub.count() <= 15
    assert hub.count("recursive=true") == 0


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({f"t{i}/task.toml": "" for i in range(40)}, id="at the root"),
        pytest.param({"task.toml": "", "tests/test.sh": ""}, id="the repository is the task"),
        pytest.param({f"tasks/{i % 30}/{i % 7}/t{i}/task.toml": "" for i in range(99)}, id="grouped"),
        pytest.param({"1/2/3/4/5/6/task.toml": "", "1/2/3/4/5/6/7/task.toml": ""}, id="deep"),
        pytest.param(
            {"tasks/a/task.toml": "", "more/x/b/task.toml": "", ".h/c/task.toml": ""}, id="two places"
        ),
        pytest.param(
            task_files("tasks/a") | {"tasks/b/instruction.md": "", "tasks/b/tests/t": ""}, id="broken"
        ),
        pytest.param({f"tasks/b{i}/instruction.md": "" for i in range(30)} | {"a/task.toml": ""}, id="mixed"),
        pytest.param({"tasks/[x] é::1/task.toml": "", "tasks/a+b & c%2F/task.toml": ""}, id="odd names"),
    ],
)
def test_the_hub_and_a_folder_find_the_same_tasks(
    files: dict[str, str], hub: FakeHub, resolve_one: Resolve, tmp_path: Path
) -> None:
    hub.page_size = 7
    hub.add("org/repo", {**files, "README.md": CARD})
    for path in files:
        (tmp_path / "repo" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "repo" / path).touch()
    assert resolve_one("org/repo").tasks == resolve_one("./repo").tasks


def test_a_listing_in_the_hugging_face_cache_is_used(hub: FakeHub, resolve_one: Resolve) -> None:
    from huggingface_hub import snapshot_download

    from pytest_rlenv.environments.hub_client import HubClient

    hub.add("org/repo", repo_files("a", "b"))
    snapshot_download("org/repo", repo_type="dataset", endpoint=hub.endpoint, cache_dir=HubClient().cache_dir)
    hub.clear()
    assert ids(resolve_one("org/repo")) == ["a", "b"]
    assert hub.count() == 1


def test_folders_of_a_repository(hub: FakeHub, resolve_one: Resolve) -> None:
    hub.add("org/repo", repo_files("f/a", "f/b", "g/c"))
    environment = resolve_one("org/repo/tasks/f")
    assert [(t.id, t.path) for t in environment.tasks] == [("f/a", "tasks/f/a"), ("f/b", "tasks/f/b")]
    assert environment.folders == ("tasks/f",)
    assert resolve_one("org/repo").folders == ()
    assert ids(resolve_one("org/repo/tasks/g/c")) == ["g/c"]
    assert ids(resolve_one("org/repo")) == ["f/a", "f/b", "g/c"]


def test_duplicates_and_revisions(hub: FakeHub, tmp_path: Path, cache_dir: Path) -> None:
    hub.add("org/repo", repo_files("f/a", "g/b"))
    hub.tag("org/repo", "v1")
    hub.commit("org/repo", repo_files("f/a", "g/b", "g/c"))

    def named(*specs: str) -> list[Environment]:
        return resolve(specs, base=tmp_path, rootdir=tmp_path, cache_dir=cache_dir, selection=Selection())

    def names(*specs: str) -> dict[str, list[str]]:
        return {environment.name: ids(environment) for environment in named(*specs)}

    assert names("org/repo", "hf://datasets/org/repo") == {"org/repo": ["f/a", "g/b", "g/c"]}
    assert names("org/repo/tasks/f", "org/repo/tasks/g") == {"org/repo": ["f/a", "g/b", "g/c"]}
    assert named("org/repo/tasks/f", "org/repo/tasks/g")[0].folders == ("tasks/f", "tasks/g")
    assert named("org/repo/tasks/f", "org/repo")[0].folders == ()
    assert names("org/repo", "org/repo@v1") == {
        "org/repo": ["f/a", "g/b", "g/c"],
        "org/repo@v1": ["f/a", "g/b"],
    }
    assert list(names("org/repo@main", "org/repo@v1")) == ["org/repo@main", "org/repo@v1"]
    assert list(names("org/repo@v1")) == ["org/repo"]
    folder = tmp_path / "org/other/a"
    folder.mkdir(parents=True)
    (folder / "task.toml").touch()
    assert list(names("org/other", "./org/other/", "org/repo")) == ["org/other", "org/repo"]


def test_a_folder_named_like_a_repository(hub: FakeHub, tmp_path: Path, cache_dir: Path) -> None:
    hub.add("org/repo", repo_files("a"))
    (tmp_path / "org/repo/b").mkdir(parents=True)
    (tmp_path / "org/repo/b/task.toml").touch()
    found = resolve(
        ["org/repo", "hf://datasets/org/repo"],
        base=tmp_path,
        rootdir=tmp_path,
        cache_dir=cache_dir,
        selection=Selection(),
    )
    assert [e.name for e in found] == [str(tmp_path / "org/repo"), "org/repo"]


def test_all_specs_are_read_before_the_first_request(hub: FakeHub, tmp_path: Path, cache_dir: Path) -> None:
    hub.add("org/repo", repo_files("a"))
    with pytest.raises(SpecError):
        resolve(
            ["org/repo", "nonsense"],
            base=tmp_path,
            rootdir=tmp_path,
            cache_dir=cache_dir,
            selection=Selection(),
        )
    assert hub.count() == 0


@pytest.mark.parametrize(
    ("readme", "warnings"),
    [
        (None, ["org/repo: there is no dataset card (README.md)"]),
        ("---\ntags: [x\n---\n", ["org/repo: the front matter of README.md is not valid YAML"]),
        ("---\ntags: [harbor]\n---\n", ["org/repo: the card (README.md) lacks the tag 'rl-environment'"]),
    ],
)
def test_cards(readme: str | None, warnings: list[str], hub: FakeHub, resolve_one: Resolve) -> None:
    hub.add("org/repo", task_files("tasks/a") | ({"README.md": readme} if readme else {}))
    for _ in ("first", "again, from the cache"):
        found = resolve_one("org/repo").warnings
        assert len(found) == len(warnings)
        for line, expected in zip(found, warnings, strict=True):
            assert line.startswith(expected)


def test_a_renamed_repository(hub: FakeHub, resolve_one: Resolve) -> None:
    sha = hub.add("old/name", repo_files("a"))
    hub.rename("old/name", "new/name")
    environment = resolve_one("old/name")
    assert environment.name == environment.repo_id == "new/name"
    assert environment.warnings == ("old/name was renamed to new/name: use the new name",)
    hub.clear()
    assert resolve_one(f"old/name@{sha}").repo_id == "new/name"
    assert hub.count() == 0


def registry(version: str, commit: str | None, *names: str) -> dict[str, object]:
    where = {"git_url": "https://huggingface.co/datasets/org/repo", "git_commit_id": commit} if commit else {}
    return {
        "name": "ds",
        "version": version,
        "tasks": [{"name": f"ds-{name}", "path": f"tasks/{name}", **where} for name in names],
    }


def test_a_dataset_of_the_registry(hub: FakeHub, resolve_one: Resolve) -> None:
    old = hub.add("org/repo", repo_files("a", "b"))
    files = repo_files("a", "c")
    files["registry.json"] = json.dumps([registry("1.0", old, "a", "b"), registry("2.0", None, "c", "gone")])
    new = hub.commit("org/repo", files)

    latest = resolve_one("org/repo", dataset="ds")
    assert latest.revision == new
    assert [(t.id, t.path) for t in latest.tasks] == [("ds-c", "tasks/c"), ("ds-gone", "tasks/gone")]
    assert [bool(t.problem) for t in latest.tasks] == [False, True]

    pinned = resolve_one("org/repo", dataset="ds@1.0")
    assert pinned.revision == old
    assert [(t.id, t.problem) for t in pinned.tasks] == [("ds-a", None), ("ds-b", None)]

    assert ids(resolve_one("org/repo/tasks/b", dataset="ds@1.0")) == ["ds-b"]
    with pytest.raises(SpecError, match="no 'tasks/x' in org/repo@"):
        resolve_one("org/repo/tasks/x", dataset="ds@1.0")

    hub.clear()
    resolve_one(f"org/repo@{new}", dataset="ds@1.0")
    assert hub.count() == 0
    with pytest.raises(SpecError, match="has no version '3'"):
        resolve_one("org/repo", dataset="ds@3")


def test_a_dataset_needs_a_registry(hub: FakeHub, resolve_one: Resolve) -> None:
    sha = hub.add("org/repo", repo_files("a"))
    with pytest.raises(SpecError) as raised:
        resolve_one("org/repo", dataset="ds")
    assert (
        raised.value.message == f"org/repo@{sha[:12]} has no registry.json, which --rlenv-dataset 'ds' needs"
    )


def test_a_cache_of_another_version_is_not_used(hub: FakeHub, resolve_one: Resolve, cache_dir: Path) -> None:
    sha = hub.add("org/repo", repo_files("a"))
    resolve_one("org/repo")
    stored = cache_dir / "hub/org--repo" / f"{sha}.json"
    for text in ("", "{", "[]", '{"format": 99}', '{"format": 1, "tasks": 3}'):
        stored.write_text(text)
        assert ids(resolve_one(f"org/repo@{sha}")) == ["a"]


def test_a_dataset_without_tasks(hub: FakeHub, resolve_one: Resolve) -> None:
    hub.add("org/repo", repo_files("a") | {"registry.json": json.dumps([registry("1", None)])})
    with pytest.raises(SpecError, match="lists no tasks for 'ds'"):
        resolve_one("org/repo", dataset="ds")


def test_a_cache_that_cannot_be_written_does_not_stop_collection(
    hub: FakeHub, resolve_one: Resolve, cache_dir: Path
) -> None:
    hub.add("org/repo", repo_files("a"))
    cache_dir.write_text("not a folder")
    assert ids(resolve_one("org/repo")) == ids(resolve_one("org/repo")) == ["a"]
