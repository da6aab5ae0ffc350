"""Hub repositories whose tasks are rows, alone or beside folders: the real client, a fake Hub on loopback."""

from __future__ import annotations

import pytest
import support.scripted_framework as scripted_framework
from support.fake_hub import FakeHub
from support.project import Project, ids, outcomes
from support.scripted_episodes import rows
from support.tasks import write_task

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
ROWS = {
    "README.md": "---\ntags:\n- rl-environment\n- nemo-gym\n---\n",
    "data/rows.jsonl": rows(one={"kind": "tools"}, two={"kind": "tools"}),
    "data/train.parquet": "x" * 1000,
}


@pytest.fixture
def hub(hub: FakeHub, project: Project) -> FakeHub:
    project.pytester.makeconftest(scripted_framework.CONFTEST)
    return hub


def run(project: Project, *args: str, spec: str = "org/repo") -> pytest.RunResult:
    return project.run("--rlenv", spec, *args, process=True, sandbox=None)


def refused(result: pytest.RunResult) -> str:
    """Return the one message of a run that ended before it began."""
    assert result.ret == pytest.ExitCode.USAGE_ERROR, result.stdout.str()
    text = result.stderr.str() + result.stdout.str()
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text
    return text


def test_rows_are_collected_and_run_and_nothing_else_is_fetched(project: Project, hub: FakeHub) -> None:
    sha = hub.add("org/repo", ROWS)
    result = run(project, "-n2")
    assert outcomes(result) == {"passed": 2}
    assert f"rlenv: org/repo@{sha[:12]}: 2 tasks" in result.outlines
    assert {(each["framework"], each["revision"]) for each in project.records()} == {("nemo-gym", sha)}
    assert hub.count("/resolve/.*/data/rows.jsonl") <= 2  # HEAD and GET, by one process
    assert hub.count("train.parquet") == 0


def test_a_second_run_asks_the_hub_for_no_file_and_offline_for_nothing(
    project: Project, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha = hub.add("org/repo", ROWS)
    assert ids(run(project, "--co", "-q")) == ["rlenv:org/repo::one", "rlenv:org/repo::two"]
    hub.clear()
    assert outcomes(run(project)) == {"passed": 2}
    assert hub.count("/resolve/") == 0
    hub.clear()
    assert outcomes(run(project, spec=f"org/repo@{sha}")) == {"passed": 2}
    assert hub.count() == 0
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert outcomes(run(project, "-n2")) == {"passed": 2}
    assert hub.count() == 0


def test_rows_and_folders_of_one_repository(project: Project, hub: FakeHub) -> None:
    source = project.path / "source"
    write_task(source / "tasks" / "apple", test="# scripted: reward-if=/app/answer")
    write_task(source / "tasks" / "one", test="# scripted: reward-if=/app/answer")
    for path, text in ROWS.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(text)
    hub.add("org/repo", source)
    hub.clear()
    result = project.run("--rlenv", "org/repo", "-k", "apple or nemo", process=True)
    assert outcomes(result) == {"passed": 2}
    assert {(each["task"], each["framework"]) for each in project.records()} == {
        ("apple", "harbor"),
        ("nemo-gym/one", "nemo-gym"),
    }
    assert hub.count("/resolve/.*/tasks/one/") == 0
    assert ids(run(project, "--co", "-q", "--rlenv-framework=nemo-gym")) == [
        "rlenv:org/repo::one",
        "rlenv:org/repo::two",
    ]
    assert ids(run(project, "--co", "-q", spec="org/repo/data")) == [
        "rlenv:org/repo::one",
        "rlenv:org/repo::two",
    ]


def test_a_pointer_in_the_place_of_rows_is_one_message(project: Project, hub: FakeHub) -> None:
    hub.add("org/repo", ROWS | {"data/rows.jsonl": POINTER})
    text = refused(run(project))
    assert "data/rows.jsonl is a Git LFS pointer, not the file" in text


def test_a_file_names_a_repository_of_rows(project: Project, hub: FakeHub) -> None:
    hub.add("org/repo", ROWS)
    (project.path / "demo.rlenv.toml").write_text('repo = "org/repo"\nframework = "nemo-gym"\n')
    assert outcomes(project.run("-n2", sandbox=None)) == {"passed": 2}
    assert hub.count("/resolve/.*/data/rows.jsonl") <= 2
