"""The files that a run writes: complete, valid, of one mind, and there also when the run is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from support.project import Project, properties, read_junit
from support.reading import check_ctrf, check_for_jenkins, check_junit, read_for_gitlab

LIMIT = 60.0
GITLAB = {"passed": "success", "failed": "failed", "error": "error", "skipped": "skipped"}


@pytest.fixture
def many(six: Project) -> Project:
    six.task("no-solution", solve=None)
    six.task("noisy", test="# scripted: print=\x1b[31mred\x1b[0m\x07 & <b>\n# scripted: reward=0.5")
    return six


@pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["one", "workers"])
def test_every_file_says_the_same_and_all_can_read_it(many: Project, workers: list[str]) -> None:
    many.demo("--junitxml=pytest.xml", "--rlenv-ctrf=out/ctrf.json", *workers)
    records = {record["task"]: record for record in many.records()}
    statuses = {task: GITLAB[record["verdict"]] for task, record in records.items()}
    assert len(statuses) == 8
    assert check_junit(many.run_dir / "junit.xml") == statuses
    assert check_junit(many.path / "pytest.xml") == statuses
    ours, theirs = (
        {(case.classname, case.name) for case in read_for_gitlab(path)}
        for path in (many.run_dir / "junit.xml", many.path / "pytest.xml")
    )
    assert ours == theirs
    in_ours, in_theirs = read_junit(many.run_dir / "junit.xml"), read_junit(many.path / "pytest.xml")
    assert {k: properties(v) for k, v in in_ours.items()} == {k: properties(v) for k, v in in_theirs.items()}
    document = check_ctrf(many.path / "out/ctrf.json")
    words = {test["name"]: test["rawStatus"] for test in document["results"]["tests"]}
    assert words == {task: record["outcome"] for task, record in records.items()}
    assert not list(many.path.rglob("*.part"))


def test_the_junit_file_has_the_end_of_the_logs(many: Project) -> None:
    many.demo("--rlenv-task=noisy")
    case = read_junit(many.run_dir / "junit.xml")["noisy"]
    text = case.findtext("system-out") or ""
    (record,) = many.records()
    assert f"verifier: the end of {record['logs']}/verifier/test-stdout.txt" in text
    assert "red\ufffd & <b>" in text


def test_pytests_own_file_has_them_where_it_copies_output(many: Project) -> None:
    cases = many.junit("--rlenv-task=noisy", "-o", "junit_logging=system-out")
    assert "red\ufffd & <b>" in (cases["noisy"].findtext("system-out") or "")
    check_for_jenkins(many.path / "junit.xml")


def test_properties_are_given_to_datadog_as_tags_if_asked(many: Project) -> None:
    cases = many.junit("--rlenv-task=noisy", "--rlenv-junit-dd-tags")
    found = properties(cases["noisy"])
    assert found["dd_tags[rlenv.reward]"] == found["rlenv.reward"] == "0.5"
    assert properties(read_junit(many.run_dir / "junit.xml")["noisy"]) == found


def test_a_test_that_is_run_again_is_there_once(project: Project) -> None:
    project.tasks(a="# scripted: reward=0.5")
    project.pytester.makeconftest(
        """
        import copy, pytest
        from _pytest.runner import runtestprotocol

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_protocol(item, nextitem):
            for again in (True, False):
                for report in runtestprotocol(item, nextitem=nextitem, log=False):
                    if again and report.when == "call":
                        report.outcome = "rerun"
                    item.ihook.pytest_runtest_logreport(report=report)
            return True
        """
    )
    project.demo("--rlenv-ctrf=ctrf.json")
    assert check_junit(project.run_dir / "junit.xml") == {"a": "failed"}
    assert len(check_ctrf(project.path / "ctrf.json")["results"]["tests"]) == 1


def ended_in(path: Path) -> set[str]:
    """Return the tests of a JUnit file that have ended: those with properties, which come last."""
    if not path.exists():
        return set()
    return {
        case.get("name", "")
        for case in ET.parse(path).iter("testcase")
        if case.find("properties") is not None
    }


def wait_for(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < give_up, "it did not come to that"
        time.sleep(0.02)


@pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["one", "workers"])
def test_a_killed_run_leaves_valid_files(project: Project, workers: list[str]) -> None:
    project.tasks(a="# scripted: reward=1", b="# scripted: print=none", z="# scripted: hang")
    project.pytester.makepyfile(test_own="def test_own(): assert False")
    order = ["test_own.py"] if not workers else []
    command = [sys.executable, "-m", "pytest", *order, "--rlenv", "envs/demo", "--junitxml=out/pytest.xml"]
    command += ["--rlenv-sandbox=support.scripted:ScriptedSandbox", "--rlenv-ctrf=ctrf.json", *workers]
    process = subprocess.Popen(
        command,
        cwd=project.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        results = project.path / ".rlenv"
        wait_for(lambda: sum(len(f.read_text().splitlines()) for f in results.glob("*/results.jsonl")) >= 2)
        wait_for(lambda: len(read_for_gitlab(project.run_dir / "junit.xml")) == 2)
        wait_for(lambda: len(check_ctrf(project.path / "ctrf.json")["results"]["tests"]) == 2)
        wait_for(lambda: {"a", "b"} <= ended_in(project.path / "out/pytest.xml"))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert check_junit(project.run_dir / "junit.xml") == {"a": "success", "b": "error"}
    check_for_jenkins(project.path / "out/pytest.xml")
    found = {case.name: case.status for case in read_for_gitlab(project.path / "out/pytest.xml")}
    own = {"test_own": "failed"} if order else {}
    assert {name: found[name] for name in ("a", "b", *own)} == {"a": "success", "b": "error", **own}
    document = check_ctrf(project.path / "ctrf.json")
    statuses = {test["name"]: test["status"] for test in document["results"]["tests"]}
    assert statuses == {"a": "passed", "b": "other"}


def test_a_report_that_cannot_be_written_is_a_usage_error(six: Project) -> None:
    (six.path / "file").write_text("")
    result = six.demo("--rlenv-ctrf=file/ctrf.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*a report cannot be written to *file: *", "*--rlenv-ctrf*"])


@pytest.mark.parametrize("option", ["--rlenv-ctrf", "--rlenv-markdown"])
@pytest.mark.parametrize("place", ["a folder", "below a file"])
def test_a_report_for_no_file_is_refused_before_the_run(six: Project, option: str, place: str) -> None:
    (six.path / "folder").mkdir()
    (six.path / "file").write_text("")
    result = six.demo(f"{option}={'folder' if place == 'a folder' else 'file/report'}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*a report cannot be written to *: *", f"*{option}*"])


def test_a_run_that_only_lists_writes_nothing(six: Project) -> None:
    six.demo("--co", "-q", "--rlenv-ctrf=ctrf.json", "--rlenv-markdown=m.md", "--rlenv-github=on")
    assert not (six.path / "ctrf.json").exists()
    assert not (six.path / ".rlenv").exists()


def test_a_rollouts_folder_has_its_record_and_the_trajectory_is_named(project: Project) -> None:
    project.task("a", solve="# scripted: write=/logs/agent/trajectory.json {}", test="# scripted: reward=1")
    project.demo()
    (record,) = project.records()
    assert record["trajectories"] == [f"{record['logs']}/agent/trajectory.json"]
    folder = project.run_dir / record["logs"]
    assert json.loads((folder / "rlenv.json").read_text()) == record
    assert (project.run_dir / record["trajectories"][0]).read_text() == "{}"
    case = read_junit(project.run_dir / "junit.xml")["a"]
    assert properties(case)["rlenv.trajectory"] == record["trajectories"][0]
