"""Artifacts: where they go, what becomes of each, what a task is told that declares them wrongly."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rollouts import Runner, Scripted, write_steps
from support.scripted import ScriptedBox
from support.tasks import write_task

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.harbor import collect_hooks, collecting
from pytest_rlenv.frameworks.harbor.artifact_places import overlap_warnings, place_of, source_of
from pytest_rlenv.frameworks.harbor.artifacts import Artifact
from pytest_rlenv.frameworks.harbor.collecting import Collection, collect
from pytest_rlenv.frameworks.harbor.tar_exclude import excluder
from pytest_rlenv.frameworks.harbor.task import load_task
from pytest_rlenv.rollout import StepRecord
from pytest_rlenv.sandboxes.model import Entry


@pytest.fixture
def box(tmp_path: Path) -> ScriptedBox:
    box = ScriptedBox(tmp_path / "up")
    box.put(
        [
            Entry("app/out.txt", b"out", 0o600),
            Entry("app/data/a.csv", b"a"),
            Entry("app/data/cache/b.bin", b"b"),
            Entry("app/data/link", link="a.csv"),
            Entry("app/empty"),
            Entry("app/alias", link="data"),
            Entry("app/round", link="round"),
            Entry("logs/artifacts"),
        ]
    )
    return box


def artifact(source: str, **more: object) -> Artifact:
    return Artifact.model_validate({"source": source, **more})


def collected(
    box: ScriptedBox, tmp_path: Path, *artifacts: Artifact
) -> tuple[Collection, StepRecord, set[str]]:
    record = StepRecord(name="")
    folder = tmp_path / "artifacts"
    done = collect(artifacts, {"main": box}, folder, record)
    assert json.loads((folder / "manifest.json").read_text()) == done.manifest
    here = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    assert not any(path.is_symlink() for path in folder.rglob("*"))
    return done, record, here - {"manifest.json"}


def rows(done: Collection) -> list[tuple[str, str, str, str]]:
    return [(row["source"], row["destination"], row["type"], row["status"]) for row in done.manifest]


PUBLISHED = ("/logs/artifacts", "artifacts/logs/artifacts", "directory", "empty")


@pytest.mark.parametrize(
    ("declared", "row", "here"),
    [
        ([], None, set()),
        (["/app/out.txt"], ("/app/out.txt", "artifacts/app/out.txt", "file", "ok"), {"app/out.txt"}),
        (["app/out.txt"], ("app/out.txt", "artifacts/app/out.txt", "file", "ok"), {"app/out.txt"}),
        (
            [("/app/out.txt", {"destination": "answer"})],
            ("/app/out.txt", "artifacts/answer", "file", "ok"),
            {"answer"},
        ),
        (
            ["/app/data"],
            ("/app/data", "artifacts/app/data", "directory", "ok"),
            {"app/data/a.csv", "app/data/cache/b.bin"},
        ),
        (
            [("/app/data/", {"destination": "d/e", "exclude": ["cache"]})],
            ("/app/data/", "artifacts/d/e", "directory", "ok"),
            {"d/e/a.csv"},
        ),
        (
            ["/app/alias"],
            ("/app/alias", "artifacts/app/alias", "directory", "ok"),
            {"app/alias/a.csv", "app/alias/cache/b.bin"},
        ),
        (["/app/empty"], ("/app/empty", "artifacts/app/empty", "directory", "empty"), set()),
        (["/app/none.txt"], ("/app/none.txt", "artifacts/app/none.txt", "file", "failed"), set()),
        (["/app/none"], ("/app/none", "artifacts/app/none", "directory", "failed"), set()),
        (["/app/round"], ("/app/round", "artifacts/app/round", "directory", "failed"), set()),
        (["/manifest.json"], ("/manifest.json", "artifacts/manifest.json", "file", "skipped"), set()),
    ],
)
def test_what_becomes_of_an_artifact(
    box: ScriptedBox,
    tmp_path: Path,
    declared: list[object],
    row: tuple[str, str, str, str] | None,
    here: set[str],
) -> None:
    artifacts = [artifact(d[0], **d[1]) if isinstance(d, tuple) else artifact(str(d)) for d in declared]
    done, record, found = collected(box, tmp_path, *artifacts)
    assert rows(done) == [PUBLISHED, *([row] if row else [])]
    assert found == here
    failed = bool(row) and row is not None and row[3] == "failed"
    assert [note.code for note in record.notes] == (["artifact-missing"] if failed else [])


def test_a_link_to_a_file_is_the_file_and_noted(box: ScriptedBox, tmp_path: Path) -> None:
    box.put([Entry("app/latest", link="out.txt")])
    done, record, found = collected(box, tmp_path, artifact("/app/latest"))
    assert found == {"app/latest"}
    assert rows(done)[1] == ("/app/latest", "artifacts/app/latest", "file", "ok")
    assert [(note.code, note.text) for note in record.notes] == [
        ("artifact-link", "artifact /app/latest: a link; what it leads to, /app/out.txt, was taken")
    ]


def test_the_first_claim_wins(box: ScriptedBox, tmp_path: Path) -> None:
    declared = [
        artifact("/app/data", destination="x"),
        artifact("/app/out.txt", destination="x/out.txt"),
        artifact("/app/out.txt"),
        artifact("/app/out.txt"),
    ]
    done, _, found = collected(box, tmp_path, *declared)
    assert [row["status"] for row in done.manifest] == ["empty", "ok", "skipped", "ok", "skipped"]
    assert found == {"x/a.csv", "x/cache/b.bin", "app/out.txt"}
    assert [item.source for item in done.found] == ["/logs/artifacts", "/app/data", "/app/out.txt"]


def test_a_declared_conventional_folder_replaces_the_implied_one(box: ScriptedBox, tmp_path: Path) -> None:
    box.put([Entry("logs/artifacts/a.log", b""), Entry("logs/artifacts/b.txt", b"")])
    done, _, found = collected(box, tmp_path, artifact("/logs/artifacts/", exclude=["*.log"]))
    assert [(row["source"], row["exclude"]) for row in done.manifest] == [("/logs/artifacts/", ["*.log"])]
    assert found == {"logs/artifacts/b.txt"}


def test_what_is_carried_on_is_as_it_was(box: ScriptedBox, tmp_path: Path) -> None:
    done, _, _ = collected(box, tmp_path, artifact("/app/out.txt", destination="o"), artifact("/app/data"))
    _, file, folder = done.found
    assert [(entry.path, entry.mode) for entry in file.entries] == [("out.txt", 0o600)]
    assert file.entries[0].source == tmp_path / "artifacts" / "o"
    assert ("link", "a.csv") in [(entry.path, entry.link) for entry in folder.entries]


@pytest.mark.parametrize(("name", "value"), [("MAX_BYTES", 3), ("MAX_FILES", 1)])
def test_caps_hold_for_all_artifacts_together(
    box: ScriptedBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    monkeypatch.setattr(collecting, name, value)
    done, record, found = collected(box, tmp_path, artifact("/app/out.txt"), artifact("/app/data"))
    assert found == {"app/out.txt"}
    assert done.over_cap
    assert [note.code for note in record.notes] == ["artifacts-refused"]


def test_an_artifact_of_a_task_over_the_cap_is_only_a_note_in_a_shared_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "MAX_BYTES", 1)
    task = write_task(tmp_path / "task", config='artifacts = ["/app/answer"]\n', test="# scripted: reward=1")
    done = Runner(tmp_path)(task, Scripted("/app/answer"))
    assert done.rollout.rewards == {"reward": 1.0}
    assert done.codes() == ["artifacts-refused"]


@pytest.mark.parametrize(
    ("source", "destination", "place", "absolute"),
    [
        ("/a/b.txt", None, "a/b.txt", "/a/b.txt"),
        ("a/b", None, "a/b", "/a/b"),
        ("/a/b/", None, "a/b", "/a/b"),
        ("//a//b", "x/./y", "x/y", "/a/b"),
    ],
)
def test_places(source: str, destination: str | None, place: str, absolute: str) -> None:
    found = artifact(source, destination=destination)
    assert place_of(found).as_posix() == place
    assert source_of(found) == absolute


@pytest.mark.parametrize(
    ("artifacts", "warned"),
    [
        ([artifact("/a"), artifact("/b")], []),
        ([artifact("/a"), artifact("/a/b")], []),
        ([artifact("/a"), artifact("/a")], []),
        ([artifact("/a", exclude=["x"]), artifact("/a/b")], ["/a/b"]),
        ([artifact("/a", destination="x"), artifact("/b", destination="x")], ["/b"]),
        ([artifact("/a", destination="x"), artifact("/b", destination="x/y")], ["/b"]),
        ([artifact("/logs")], ["/logs"]),
        ([artifact("/a"), artifact("/a", service="db")], ["/a"]),
    ],
)
def test_artifacts_in_each_others_way_are_warnings(artifacts: list[Artifact], warned: list[str]) -> None:
    found = overlap_warnings(artifacts, "task.toml: artifacts")
    assert len(found) == len(warned)
    for text, source in zip(found, warned, strict=True):
        assert text.startswith(f"task.toml: artifacts: {source!r} would go to ")


def test_warnings_reach_the_task(tmp_path: Path) -> None:
    toml = 'artifacts = ["/a"]\n[[steps]]\nname = "one"\nartifacts = [{source = "/b", destination = "a"}]\n'
    task = write_steps(tmp_path / "t", toml, {"one": {"tests/test.sh": ""}})
    (warning,) = load_task(task, "t").warnings
    assert warning.startswith("task.toml: steps[0].artifacts: '/b' would go to a, where '/a' is")


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ('artifacts = [{source = "/a", service = "db"}]', "artifacts[0]"),
        ('[[verifier.collect]]\ncommand = "x"\nservice = "db"', "verifier.collect[0]"),
        (
            '[[steps]]\nname = "s"\nartifacts = ["/x", {source = "/a", service = "db"}]',
            "steps[0].artifacts[1]",
        ),
    ],
)
def test_a_service_that_nothing_defines(tmp_path: Path, config: str, field: str) -> None:
    task = write_steps(tmp_path / "t", config, {"s": {"tests/test.sh": ""}}, tests__test=" ")
    (task / "instruction.md").write_text("x")
    (task / "tests/test.sh").write_text("x")
    with pytest.raises(TaskInvalid) as caught:
        load_task(task, "t")
    assert caught.value.message == (
        f"task.toml: {field}.service = 'db': there is no environment/docker-compose.yaml that could define it"
    )


def test_hooks_run_between_the_agent_and_the_artifacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect_hooks, "GRACE", -0.5)  # the scripted box has no shell that would end a hook
    config = """artifacts = ["/app/dump"]
[[verifier.collect]]
command = "# scripted: write=/app/dump what the hook wrote"
user = "db"
timeout_sec = 7.9
[[verifier.collect]]
command = "# scripted: exit=3"
[[verifier.collect]]
command = "# scripted: hang"
timeout_sec = 1
"""
    task = write_task(tmp_path / "task", config=config, test="# scripted: reward-if=/app/dump")
    done = Runner(tmp_path)(task)
    assert done.rollout.rewards == {"reward": 1.0}
    assert (done.folder / "artifacts/app/dump").read_text() == "what the hook wrote"
    assert [note.text for note in done.rollout.notes] == [
        "collect hook `# scripted: exit=3` exited 3",
        "collect hook `# scripted: hang` did not end within 1.0 s; all that ran in the box was killed",
    ]
    order = [ran for ran in done.boxes[0].ran if ran.argv[0] == "bash"]
    assert [ran.argv[-1].partition(":")[2][:8] for ran in order[:2]] == ["", " write=/"]
    assert (order[1].user, order[1].timeout) == ("db", 6.5)


NAMES = st.lists(st.sampled_from(["a", "b", "build", "x.o", "a.txt", ".x", "c d"]), min_size=1, max_size=3)
ANCHORED = ["./a", "./build", "./*.txt", "build/*", "a/b", "b/x.o", "src/", "."]
FLOATING = [
    "a",
    "build",
    "*.o",
    "*/b",
    "[ab]*",
    "[!a]*",
    "*x*",
    "?",
    "??",
    "/",
    "*",
    "**/b",
    "\\a",
    "a*",
    ".*",
]
PATTERNS = st.sampled_from(ANCHORED + FLOATING)


@pytest.mark.skipif(not shutil.which("tar"), reason="compares with GNU tar")
@settings(max_examples=40)
@given(paths=st.lists(NAMES, min_size=1, max_size=6), pattern=PATTERNS)
def test_exclude_is_what_tar_leaves_out(
    tmp_path_factory: pytest.TempPathFactory, paths: list[list[str]], pattern: str
) -> None:
    folder = tmp_path_factory.mktemp("tar")
    for parts in paths:
        path = folder.joinpath(*parts)
        if not path.exists() and all(parent.is_dir() or not parent.exists() for parent in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    packed = subprocess.run(
        ["tar", "cf", "-", f"--exclude={pattern}", "-C", folder, "."], capture_output=True, check=True
    )
    listed = subprocess.run(["tar", "tf", "-"], input=packed.stdout, capture_output=True, check=True).stdout
    kept = {name.removeprefix("./").rstrip("/") for name in listed.decode().splitlines()} - {"", "."}
    excluded = excluder([pattern])
    assert excluded is not None

    def is_kept(path: Path) -> bool:
        parts = path.relative_to(folder).parts
        return not any(excluded("/".join(parts[:count])) for count in range(1, len(parts) + 1))

    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if is_kept(path)} == kept


def test_no_pattern_excludes_nothing() -> None:
    assert excluder([]) is None
    assert excluder(["["]) is None
