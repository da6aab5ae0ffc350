"""``python -m pytest_rlenv compare``, and the forms in which it takes a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest
from support.stored_runs import record, rewards, run_of, write_run

from pytest_rlenv.__main__ import main
from pytest_rlenv.errors import SpecError
from pytest_rlenv.reports.comparison.baseline import read_baseline
from pytest_rlenv.reports.stored import read_run

FIELDS = {
    "repo": "environment",
    "task": "task",
    "agent": "agent",
    "task_digest": "task_digest",
    "verdict": "verdict",
    "reward": "reward",
    "attempt": "attempt",
    "expected": "expected",
}


def write_junit(path: Path, *records: dict[str, object], extra: str = "") -> Path:
    cases = ""
    for each in records:
        given = [
            f"<property name={quoteattr('rlenv.' + name)} value={quoteattr(str(each[field]))}/>"
            for name, field in FIELDS.items()
            if each[field] is not None
        ]
        cases += f'<testcase classname="rlenv:org.repo" name={quoteattr(str(each["task"]))}>'
        cases += f"<properties>{''.join(given)}</properties></testcase>"
    path.write_text(f"<testsuites><testsuite>{cases}{extra}</testsuite></testsuites>")
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write_run(tmp_path / "good", rewards([1.0] * 40))


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return write_run(tmp_path / "bad", rewards([0.0] * 8 + [1.0] * 32))


def test_output_that_nobody_reads_to_its_end_is_no_fault_of_ours(good: Path, bad: Path) -> None:
    unread, output = os.pipe()
    os.close(unread)
    try:
        command = [sys.executable, "-m", "pytest_rlenv", "compare", good, bad]
        done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(output)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ([], 0),
        (["--fail-on", "regression"], 1),
        (["--fail-on=inconclusive,broken"], 1),
        (["--fail-on", "inconclusive"], 0),
    ],
)
def test_the_exit_code_is_what_was_asked_for(
    good: Path, bad: Path, args: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(good), str(bad), *args]) == code
    said = capsys.readouterr()
    assert "regression: the mean reward fell by 0.200, more than chance explains" in said.out
    assert ("failed: " in said.err) == bool(code)


def test_an_equal_run_passes(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(good), str(good), "--fail-on=regression,inconclusive,broken"]) == 0
    assert "no regression: no sign of a fall, and one of 0.05 or more is ruled out" in capsys.readouterr().out
    assert main(["compare", str(good), str(good), "--fail-on=inconclusive", "--margin=0.01"]) == 1


def test_agents_of_different_names_are_compared_if_asked_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = write_run(tmp_path / "old", rewards([1.0] * 40, agent="v1"))
    new = write_run(tmp_path / "new", rewards([0.0] * 40, agent="v2"))
    assert main(["compare", str(old), str(new)]) == 0
    assert "--agent v1=v2" in capsys.readouterr().out
    assert main(["compare", str(old), str(new), "--agent", "v1=v2", "--fail-on=regression"]) == 1
    assert "v2: 40 tasks, 1 attempt each" in capsys.readouterr().out
    assert main(["compare", str(old), str(new), "--agent", "v3=v2"]) == 4
    assert "the baseline has no agent 'v3'\n  it has v1" in capsys.readouterr().err


def test_json_and_markdown(good: Path, bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "comment.md"
    assert main(["compare", str(good), str(bad), "--json", "--markdown", str(target)]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["broken"] == 8
    assert target.read_text().startswith("### Compared with the baseline: regression\n")


@pytest.mark.parametrize("args", [["--fail-on=worse"], ["--margin=0"], ["--margin=much"], ["--agent=a"], []])
def test_what_is_wrong_on_the_command_line_is_a_usage_error(
    good: Path, args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [str(good), str(good)] if args else [str(good)]
    with pytest.raises(SystemExit) as ended:
        main(["compare", *runs, *args])
    assert ended.value.code == 4
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("absent", None, "absent: there is no such file or folder"),
        ("absent.xml", None, "absent.xml cannot be read: No such file or directory"),
        ("empty", {}, "empty: it holds no results.jsonl"),
        ("text.jsonl", "hello\n", "text.jsonl: no line of it is the record of a rollout"),
        ("cut.xml", "<testsuites><testcase", "cut.xml is no whole XML"),
        (
            "foreign.xml",
            '<testsuite><testcase classname="a" name="b"/></testsuite>',
            "foreign.xml: none of its 1 test cases has the properties that say which task",
        ),
    ],
)
def test_what_is_no_run_is_a_usage_error_that_says_so(
    good: Path,
    tmp_path: Path,
    name: str,
    content: str | dict[str, str] | None,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / name
    if isinstance(content, str):
        path.write_text(content)
    elif content is not None:
        path.mkdir()
    assert main(["compare", str(path), str(good)]) == 4
    assert said in capsys.readouterr().err


def test_a_markdown_file_that_cannot_be_written_is_a_usage_error(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(good), str(good), "--markdown", str(tmp_path / "no" / "x.md")]) == 4
    assert "cannot be written: No such file or directory" in capsys.readouterr().err


# ---- the forms of a run


def test_all_forms_say_the_same(
    bad: Path, good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit = write_junit(tmp_path / "junit.xml", *read_run(good).records, extra='<testcase name="plain"/>')
    said = []
    for form in (good, good / "results.jsonl", junit):
        assert main(["compare", str(form), str(bad), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        said.append([found[key] for key in ("verdict", "counts", "excluded", "agents")])
    assert said[0] == said[1] == said[2]


def test_of_a_junit_file_what_says_too_little_is_told_of(tmp_path: Path) -> None:
    verdict_only = '<properties><property name="rlenv.verdict" value="error"/></properties>'
    path = write_junit(
        tmp_path / "junit.xml",
        record("a"),
        record("b", None),
        extra=f'<testcase name="x">{verdict_only}</testcase>',
    )
    run = read_baseline(path)
    assert [(each["task"], each["reward"]) for each in run.records] == [("a", 1.0), ("b", None)]
    assert run.problems == (f"{path}: 1 test cases do not say which rollout they are, left out",)


def test_a_torn_last_line_is_left_out_and_told_of(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rewards([1.0, 1.0]))
    with (folder / "results.jsonl").open("a") as file:
        file.write('{"node": "rlenv:org/re')
    run = read_run(folder)
    assert len(run.records) == 2
    assert run.problems == (f"{folder / 'results.jsonl'}: the last line is torn, and left out",)
    with (folder / "results.jsonl").open("a") as file:
        file.write("\n" + json.dumps(record("later")) + "\n")
    run = read_run(folder)
    assert len(run.records) == 3
    assert run.problems == (f"{folder / 'results.jsonl'}: line 3 is no record, and left out",)


@pytest.mark.parametrize(
    "fields",
    [
        {"reward": float("nan")},
        {"reward": float("inf")},
        {"reward": "1"},
        {"reward": True},
        {"attempt": "x"},
        {"attempt": None},
        {"task": 3},
        {"agent": None},
        {"verdict": "great"},
        {"verdict": ["passed"]},
    ],
)
def test_a_line_with_what_no_rollout_has_is_left_out_and_told_of(
    tmp_path: Path, fields: dict[str, object]
) -> None:
    odd = record("odd") | fields
    folder = write_run(tmp_path / "run", run_of(odd, record("good")))
    run = read_run(folder)
    assert [each["task"] for each in run.records] == ["good"]
    assert run.problems == (f"{folder / 'results.jsonl'}: line 1 is no record, and left out",)
    assert main(["compare", str(folder), str(folder)]) == 0
    assert main(["report", str(folder), "--output", str(tmp_path / "report.html")]) == 0
    assert main(["merge", str(folder), "--output", str(tmp_path / "whole")]) == 0


def test_of_a_test_that_was_run_again_the_last_record_counts(tmp_path: Path) -> None:
    twice = run_of(record("a", 0.0, node="n"), record("b"), record("a", 1.0, node="n"))
    found = read_run(write_run(tmp_path / "run", twice)).records
    assert [(each["task"], each["reward"]) for each in found] == [("a", 1.0), ("b", 1.0)]


def test_a_newer_versions_record_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", run_of(record("a", schema_version=99)))
    with pytest.raises(
        SpecError, match=r"line 1: a record of version 99, and this pytest-rlenv knows up to 1"
    ):
        read_run(folder)


@pytest.mark.parametrize("facts", ["", "[]", "{"])
def test_facts_that_cannot_be_read_are_a_problem_and_no_end(tmp_path: Path, facts: str) -> None:
    folder = write_run(tmp_path / "run", rewards([1.0]))
    (folder / "run.json").write_text(facts)
    run = read_run(folder)
    assert run.facts == {}
    assert len(run.problems) == 1
    assert run.folder == folder


def test_a_file_alone_has_no_folder(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rewards([1.0]))
    assert read_run(folder / "results.jsonl").folder == folder
    (folder / "run.json").unlink()
    assert read_run(folder / "results.jsonl").folder is None
