"""Reports of single checks beside a reward: what is told of them, and that they never change a verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rollouts import Runner
from support.tasks import write_task

from pytest_rlenv.frameworks.harbor.checks import (
    MAX_FAILING,
    MAX_NAME,
    MAX_REPORT_BYTES,
    note_checks,
)
from pytest_rlenv.rollout import Checks, StepRecord
from pytest_rlenv.verdict import expectation_for, judge


def read(folder: Path, **files: bytes | str | Any) -> StepRecord:
    record = StepRecord(name="")
    for name, content in files.items():
        data = content if isinstance(content, (bytes, str)) else json.dumps(content)
        path = folder / name.replace("_", "-").replace("DOT", ".")
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    note_checks(folder, record)
    return record


def ctrf(*tests: tuple[Any, Any], **summary: Any) -> dict[str, Any]:
    return {"results": {"summary": summary, "tests": [{"name": n, "status": s} for n, s in tests]}}


def test_a_ctrf_report(tmp_path: Path) -> None:
    report = ctrf(
        ("a.py::ok", "passed"),
        ("a.py::bad", "failed"),
        ("later", "skipped"),
        ("odd", "other"),
        ("x", "pending"),
        ("y", "skipped"),
        ("z", ["no word"]),
    )
    record = read(tmp_path, ctrfDOTjson=report)
    assert record.notes == []
    assert record.checks == Checks(
        source="ctrf.json",
        passed=1,
        failed=1,
        other=5,
        statuses={"skipped": 2, "other": 2, "pending": 1},
        failing=["a.py::bad"],
    )


def test_a_ctrf_report_without_tests_counts_by_its_summary(tmp_path: Path) -> None:
    report = {"results": {"summary": {"tests": 9, "passed": 3, "failed": 1, "skipped": 2, "pending": 1}}}
    assert read(tmp_path, ctrfDOTjson=report).checks == Checks(
        source="ctrf.json", passed=3, failed=1, other=5, statuses={"skipped": 2, "pending": 1, "other": 2}
    )


@pytest.mark.parametrize(
    ("report", "counts"),
    [
        (ctrf(tests=0), ""),
        ({"results": {"summary": {"tests": 0}}}, ""),
        ({"results": {"tests": ["x", None]}}, ""),
        (ctrf(("a", "skipped"), ("b", "skipped"), ("c", "pending")), ": 2 skipped, 1 pending"),
    ],
)
def test_a_verifier_that_ran_no_check_is_flagged(tmp_path: Path, report: Any, counts: str) -> None:
    record = read(tmp_path, ctrfDOTjson=report)
    assert [(note.code, note.text) for note in record.notes] == [
        ("no-checks", f"the verifier ran no check, says its ctrf.json{counts}")
    ]


def criterion(name: Any, value: Any) -> dict[str, Any]:
    return {"name": name, "value": value, "weight": 1.0, "raw": value}


def test_reward_details(tmp_path: Path) -> None:
    details = {
        "correctness": {"kind": "programmatic", "criteria": [criterion("a", 1.0), criterion("b", 0)]},
        "quality": [{"kind": "llm", "criteria": [criterion("style", 0.5), criterion("odd", "x")]}],
        "all": {
            "kind": "group",
            "components": [{"name": "c", "detail": {"criteria": [criterion("deep", 0)]}}, 3, {"name": "d"}],
        },
        "other": None,
    }
    record = read(tmp_path, reward_detailsDOTjson=details)
    assert record.checks == Checks(
        source="reward-details.json",
        passed=1,
        failed=3,
        other=1,
        statuses={"other": 1},
        failing=["correctness: b", "quality: style (0.5)", "all: deep"],
    )


def test_one_reward_needs_no_name(tmp_path: Path) -> None:
    record = read(tmp_path, reward_detailsDOTjson={"reward": {"criteria": [criterion("a", 0)]}})
    assert record.checks is not None
    assert record.checks.failing == ["a"]


def test_a_ctrf_report_comes_first(tmp_path: Path) -> None:
    details = {"reward": {"criteria": [criterion("a", 0)]}}
    record = read(tmp_path, ctrfDOTjson=ctrf(("t", "passed")), reward_detailsDOTjson=details)
    assert record.checks is not None
    assert record.checks.source == "ctrf.json"


def test_details_stand_in_for_a_broken_ctrf_report(tmp_path: Path) -> None:
    details = {"reward": {"criteria": [criterion("a", 0)]}}
    record = read(tmp_path, ctrfDOTjson="{", reward_detailsDOTjson=details)
    assert record.checks is not None
    assert record.checks.source == "reward-details.json"
    assert [note.code for note in record.notes] == ["checks-unreadable"]


def test_names_are_cut_and_counted(tmp_path: Path) -> None:
    tests = [(f"{n} " + "x\n" * MAX_NAME, "failed") for n in range(50)]
    record = read(tmp_path, ctrfDOTjson=ctrf(*tests))
    assert record.checks is not None
    assert (record.checks.failed, len(record.checks.failing)) == (50, MAX_FAILING)
    assert all(len(name) == MAX_NAME + 3 and "\n" not in name for name in record.checks.failing)


UNREADABLE = {
    "not-json": b"{",
    "empty": b"",
    "not-utf8": b'"\xff"',
    "too-many-digits": b"1" * 5000,
    "too-deep": b"[" * 100_000,
    "a-list": b"[]",
    "a-number": b"1",
    "no-results": b"{}",
    "results-are-text": b'{"results": "x"}',
    "neither": b'{"results": {}}',
    "tests-are-text": b'{"results": {"tests": "x"}}',
    "huge": b" " * (MAX_REPORT_BYTES + 1),
}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_a_note(tmp_path: Path, content: bytes) -> None:
    record = read(tmp_path, ctrfDOTjson=content)
    assert record.checks is None
    (note,) = record.notes
    assert note.code == "checks-unreadable"
    assert note.text.startswith("/logs/verifier/ctrf.json: ")
    assert len(note.text) < 200


def test_no_report_and_what_is_no_file(tmp_path: Path) -> None:
    assert read(tmp_path).notes == []
    (tmp_path / "ctrf.json").mkdir()
    (tmp_path / "reward-details.json").symlink_to("/etc/passwd")
    record = read(tmp_path)
    assert [note.text.rpartition(": ")[2] for note in record.notes] == ["not a regular file"] * 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["results", "tests", "summary", "name", "status", "criteria", "components", "detail", "value"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(report=JSON, details=JSON)
def test_nothing_in_a_report_raises(
    tmp_path_factory: pytest.TempPathFactory, report: object, details: object
) -> None:
    folder = tmp_path_factory.mktemp("checks")
    record = read(
        folder, ctrfDOTjson=json.dumps({"results": report}), reward_detailsDOTjson=json.dumps(details)
    )
    StepRecord.model_validate_json(record.model_dump_json())


@given(st.binary(max_size=50))
def test_no_bytes_raise(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    read(tmp_path_factory.mktemp("bytes"), ctrfDOTjson=content, reward_detailsDOTjson=content)


def test_failing_checks_are_named_in_the_message(tmp_path: Path) -> None:
    report = json.dumps(ctrf(*[(f"test_{n}", "failed") for n in range(5)], ("fine", "passed")))
    task = write_task(
        tmp_path / "task", test=f"# scripted: write=/logs/verifier/ctrf.json {report}\n# scripted: reward=0.4"
    )
    done = Runner(tmp_path)(task)
    assert done.rollout.checks is not None
    assert done.rollout.checks.failed == 5
    message = judge(done.rollout, expectation_for(must_not_score=False, threshold=1.0)).message
    assert message == "reward 0.4 < 1.0; 5 of 6 checks failed: test_0, test_1, test_2, +2 more"


@pytest.mark.parametrize("content", ["{", "[1]", '{"results": {"tests": 7}}'])
def test_a_broken_report_changes_no_verdict(tmp_path: Path, content: str) -> None:
    task = write_task(
        tmp_path / "task", test=f"# scripted: write=/logs/verifier/ctrf.json {content}\n# scripted: reward=1"
    )
    done = Runner(tmp_path)(task)
    assert done.error is None
    assert done.rollout.rewards == {"reward": 1.0}
    assert done.codes() == ["checks-unreadable"]
