from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.errors import RewardMissing
from pytest_rlenv.frameworks.terminal_bench.pytest_summary import TestResult, read_summary
from pytest_rlenv.frameworks.terminal_bench.scoring import score
from pytest_rlenv.rollout import StepRecord
from pytest_rlenv.sandboxes.model import Completed

HEAD = "=========================== short test summary info ============================\n"
REAL = """\
import pytest

def test_passes(): pass
def test_fails(): assert "a - b" == "c", "x - y"
@pytest.mark.parametrize("p", ["a - b", "a - c", "[", "x::y"])
def test_each(p): assert p != "a - c"
@pytest.mark.skip(reason="no - reason")
def test_skipped(): pass
@pytest.mark.xfail
def test_xfails(): assert False
@pytest.mark.xfail
def test_xpasses(): pass
@pytest.fixture
def broken(): raise RuntimeError("broken - fixture")
def test_errors(broken): pass
class TestGroup:
    def test_in_it(self): pass
"""


def statuses(output: str) -> dict[str, str]:
    return {result.name: result.status for result in read_summary(output) or []}


def test_what_pytest_itself_prints(tmp_path: Path) -> None:
    (tmp_path / "test_outputs.py").write_text(REAL)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-rA",
        "--color=yes",
        "-p",
        "no:cacheprovider",
        "test_outputs.py",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = statuses(done.stdout)
    skipped = [name for name, status in found.items() if status == "SKIPPED"]
    assert len(skipped) == 1
    assert "no - reason" not in skipped[0]
    assert {name: status for name, status in found.items() if status != "SKIPPED"} == {
        "test_passes": "PASSED",
        "test_fails": "FAILED",
        "test_each[a - b]": "PASSED",
        "test_each[a - c]": "FAILED",
        "test_each[[]": "PASSED",
        "test_each[x::y]": "PASSED",
        "test_xfails": "XFAIL",
        "test_xpasses": "XPASS",
        "test_errors": "ERROR",
        "TestGroup::test_in_it": "PASSED",
    }


@pytest.mark.parametrize(
    ("lines", "passed"),
    [
        ("PASSED a.py::x\n", True),
        ("PASSED a.py::x\nFAILED a.py::y - assert 1 == 2\n", False),
        ("SKIPPED [1] a.py:3: why\n", True),
        ("XFAIL a.py::x\n", True),
        ("XPASS a.py::x\n", False),
        ("ERROR a.py - ImportError: no\n!!!! Interrupted: 1 error during collection !!!!\n", False),
        ("ERROR: file or directory not found: /tests/x.py\n", False),
        ("  PASSED   a.py::x  \r\n", True),
        ("passed a.py::x\nPASSEDx\nPASSED\nPASSED a.py::z\n", True),
        ("FAILED a.py::x - first\n===== short test summary info =====\nPASSED a.py::x\n", True),
        ("FAILED a.py::x - E\nPASSED b.py::x\n", False),
        ("\x1b[32mPASSED\x1b[0m a.py::\x1b[1mx\x1b[0m\n\x1b[31mFAILED\x1b[0m a.py::y - z\n", False),
    ],
)
def test_one_failure_is_enough(lines: str, passed: bool) -> None:
    record = StepRecord(name="")
    output = f"FAILED before.py::the_summary\n{HEAD}{lines}===== 1 passed in 0.1s =====\n".encode()
    assert score(Completed(1, output=output, output_bytes=len(output)), record) == {"reward": float(passed)}


def test_the_tests_are_in_the_record() -> None:
    record = StepRecord(name="")
    lines = "PASSED a.py::x\nFAILED a.py::y - why\nERROR a.py::z\nSKIPPED [1] a.py:1: no\n"
    output = (HEAD + lines + f"FAILED a.py::{'n' * 500}\n").encode()
    assert score(Completed(1, output=output, output_bytes=len(output)), record) == {"reward": 0.0}
    assert record.checks is not None
    assert (record.checks.passed, record.checks.failed, record.checks.other) == (1, 3, 1)
    assert record.checks.failing[:2] == ["y", "z"]
    assert len(record.checks.failing[2]) < 130
    assert [note.text for note in record.notes] == ["1 of 5 tests were skipped, which counts as passed"]


@pytest.mark.parametrize(
    ("output", "exit_code", "message", "hint"),
    [
        ("5 passed in 0.1s", 0, "no 'short test summary info' (it exited 0)", "-rA"),
        ("", 127, "no 'short test summary info' (it exited 127)", "was not found"),
        ("curl: (6)", 6, "(it exited 6)", "did not run"),
        (HEAD + "no tests ran\n", 5, "a summary without a test (it exited 5)", "did not run"),
    ],
)
def test_no_result_is_no_reward(output: str, exit_code: int, message: str, hint: str) -> None:
    with pytest.raises(RewardMissing) as caught:
        score(Completed(exit_code, output=output.encode(), output_bytes=len(output)), StepRecord(name=""))
    assert caught.value.message.startswith("no reward: the output of run-tests.sh has ")
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.detail == output.rstrip("\n")


def test_output_that_was_cut_is_told() -> None:
    with pytest.raises(RewardMissing, match=r"it exited 1; 3 of 9000 bytes were kept"):
        score(Completed(1, output=b"abc", output_bytes=9000), StepRecord(name=""))


NAMES = st.text(alphabet="abc:[]-.é", min_size=1)
STATUSES = st.sampled_from(["PASSED", "FAILED", "SKIPPED", "XFAIL", "XPASS", "ERROR"])


@given(st.text(alphabet="=PASSED shortumy\n"), st.dictionaries(NAMES, STATUSES))
def test_every_line_with_a_status_is_a_test(before: str, tests: dict[str, str]) -> None:
    lines = [f"{status} t.py::{name}" for name, status in tests.items()]
    assert statuses("\n".join([before, HEAD, *lines])) == tests


@given(st.text())
def test_any_output_is_read(text: str) -> None:
    assert read_summary(text) is None or "short test summary info" in text.lower()
    assert all(isinstance(result, TestResult) for result in read_summary(HEAD + text) or [])
