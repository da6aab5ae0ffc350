"""A Hub repository through the whole plugin: the real client, a fake Hub on loopback, real workers."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fake_hub import FakeHub
from support.project import Project, ids, outcomes
from support.tasks import write_task, write_tasks

CARD = "---\ntags:\n- rl-environment\n- harbor\n---\n# Demo\n"


@pytest.fixture
def source(project: Project) -> Path:
    judge = "# scripted: reward-if=/app/answer"
    source = project.path / "source"
    write_tasks(
        source / "tasks",
        apple=judge,
        berry=judge,
        cherry="# scripted: reward=0.25",
        date="# scripted: print=x",
    )
    (source / "README.md").write_text(CARD)
    return source


def run(project: Project, *args: str) -> pytest.RunResult:
    return project.run("--rlenv", "org/repo", *args, process=True)


@pytest.mark.parametrize("workers", [[], ["-n4"]])
def test_the_hub_and_a_folder_give_the_same_verdicts(
    project: Project, hub: FakeHub, source: Path, workers: list[str]
) -> None:
    sha = hub.add("org/repo", source)
    result = run(project, *workers)
    assert outcomes(result) == {"passed": 2, "failed": 1, "errors": 1}
    assert outcomes(project.run("--rlenv", "source", *workers, "--rlenv-output", "local")) == outcomes(result)
    assert f"rlenv: org/repo@{sha[:12]}: 4 tasks" in result.outlines
    assert {record["revision"] for record in project.records()} == {sha}
    assert {record["environment"] for record in project.records()} == {"org/repo"}
    assert hub.count("/revision/main") <= 1
    assert all("warning" not in line for line in result.outlines)


def test_a_moved_branch_is_seen_and_a_pinned_commit_stays(
    project: Project, hub: FakeHub, source: Path
) -> None:
    sha = hub.add("org/repo", source)
    assert outcomes(run(project, "-n2"))["passed"] == 2
    newer = hub.commit("org/repo", {"README.md": CARD, "tasks/new/task.toml": ""})
    assert newer != sha
    assert ids(run(project, "--co", "-q")) == ["rlenv:org/repo::new"]
    assert len(ids(project.run("--rlenv", f"org/repo@{sha}", "--co", "-q", process=True))) == 4


def test_only_the_selected_tasks_are_fetched(project: Project, hub: FakeHub, source: Path) -> None:
    hub.add("org/repo", source)
    for args in (["-k", "apple or berry"], ["-n2", "-k", "apple or berry"], ["-n2", "--rlenv-task", "[ab]*"]):
        hub.clear()
        assert outcomes(run(project, *args)) == {"passed": 2}
        assert hub.count("/resolve/.*/tasks/[cd]") == 0
    hub.clear()
    run(project, "--co", "-q")
    assert hub.count("/resolve/") == 0


def test_a_warm_pinned_run_asks_nothing(project: Project, hub: FakeHub, source: Path) -> None:
    sha = hub.add("org/repo", source)
    spec = f"org/repo@{sha}"
    assert outcomes(project.run("--rlenv", spec, process=True))["passed"] == 2
    hub.clear()
    assert outcomes(project.run("--rlenv", spec, process=True))["passed"] == 2
    assert outcomes(project.run("--rlenv", spec, "-n2"))["passed"] == 2
    assert hub.count() == 0


def test_offline_runs_from_the_cache(
    project: Project, hub: FakeHub, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("org/repo", source)
    run(project)
    hub.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert outcomes(run(project, "-n2")) == {"passed": 2, "failed": 1, "errors": 1}
    assert hub.count() == 0


def test_tags_of_the_hub_are_marks(project: Project, hub: FakeHub, source: Path) -> None:
    write_task(source / "tasks" / "slow", config='[metadata]\ntags = ["slow-one"]\n')
    hub.add("org/repo", source)
    result = run(project, "--co", "-q", "-m", "slow_one", "--strict-markers")
    assert ids(result) == ["rlenv:org/repo::slow"]


def test_a_card_without_tags_is_a_warning(project: Project, hub: FakeHub, source: Path) -> None:
    (source / "README.md").write_text("# no front matter\n")
    hub.add("org/repo", source)
    result = run(project)
    assert outcomes(result)["passed"] == 2
    result.stdout.fnmatch_lines(["rlenv: warning: *rl-environment*"])


@pytest.mark.parametrize("workers", [[], ["-n2"]])
@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("missing", "*org/repo*not found*"),
        ("gated", "*gated*"),
        ("revision", "*no-such-branch*"),
        ("folder", "*nowhere*"),
        ("token", "*token*"),
        ("offline", "*offline*"),
        ("rate", "*rate*"),
        ("down", "*does not answer*"),
    ],
)
def test_a_refusal_is_one_message_and_exit_code_4(
    project: Project,
    hub: FakeHub,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    words: str,
    workers: list[str],
) -> None:
    spec = "org/repo"
    if what != "missing":
        hub.add("org/repo", source, gated="manual" if what == "gated" else False)
    if what == "revision":
        spec += "@no-such-branch"
    if what == "folder":
        spec += "/nowhere"
    if what == "token":
        monkeypatch.setenv("HF_TOKEN", "hf_bad")
    if what == "offline":
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    if what == "rate":
        hub.limit_rate("/api/", times=1000, seconds=200)
    if what == "down":
        hub.stop()
    result = project.run("--rlenv", spec, *workers, process=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: rlenv: {words}"])
    text = result.stdout.str() + result.stderr.str()
    assert "Traceback" not in text
    assert "hf_bad" not in text
    assert not (project.path / "scripted").exists(), "no sandbox was started"


def test_files_that_do_not_come_are_errors_of_their_tasks(
    project: Project, hub: FakeHub, source: Path
) -> None:
    """Found out after collection, by a worker that cannot end the run any more."""
    hub.add("org/repo", source)
    hub.fail("/resolve/.*/tasks/apple/", times=10_000, status=404)
    result = run(project, "-n2", "-k", "apple or berry")
    assert outcomes(result) == {"passed": 1, "errors": 1}
    result.stdout.fnmatch_lines(["ERROR * apple * FetchFailed*"])


def test_marks_and_files_name_hub_environments_too(project: Project, hub: FakeHub, source: Path) -> None:
    hub.add("org/repo", source)
    (project.path / "demo.rlenv.toml").write_text('repo = "org/repo"\ntask = ["apple", "berry"]\n')
    project.pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.rlenv("org/repo", task="[ab]*")
        def test_it(rollout):
            assert rollout.reward == 1
        """
    )
    assert outcomes(project.run("-n4")) == {"passed": 4}
    assert hub.count("/revision/main") <= 2
