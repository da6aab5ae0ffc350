"""A stored rollout as a JUnit test case, whatever strangers have written into it."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.reading import check_ctrf, check_junit

from pytest_rlenv.reports.ctrf import CtrfFile
from pytest_rlenv.reports.growing import may_be_replaced
from pytest_rlenv.reports.junit import properties
from pytest_rlenv.reports.junit_case import address, junit_case
from pytest_rlenv.reports.junit_file import JUnitFile, write_junit
from pytest_rlenv.reports.log_tails import CHARS, log_tails


def record(**fields: Any) -> dict[str, Any]:
    return {
        "node": "rlenv:org/repo::fix-it",
        "environment": "org/repo",
        "task": "fix-it",
        "agent": "oracle",
        "verdict": "passed",
        "outcome": "passed",
        "seconds": 1.25,
        "started_at": "2026-01-02T03:04:05.678Z",
        **fields,
    }


def error(message: str = "no reward", **fields: Any) -> dict[str, Any]:
    found = {
        "type": "RewardMissing",
        "stage": "verify",
        "kind": "task",
        "message": message,
        "hint": "",
        "detail": "",
    }
    return {**found, **fields}


def test_the_properties_say_all_and_nothing_that_is_not_there() -> None:
    given = record(
        reward=0.5,
        rewards={"reward": 0.5, "speed": 2.0},
        revision="0123",
        task_digest="sha256:1",
        image="img@sha256:2",
        model="vendor/m",
        attempt=2,
        tries=[{"error": error(type="SandboxFailed", stage="start"), "seconds": 1.0}] * 2,
        quarantine={"reason": "flaky upstream", "until": "2026-02-01"},
        stages={"build": 1.0, "verify": 0.25},
        usage={"cost_usd": 0.02, "n_input_tokens": 100},
        trajectories=["rollouts/x/agent/trajectory.json"],
        steps=[{"name": "one", "rewards": {"reward": 1.0}}, {"name": "two", "rewards": None}],
        checks={"passed": 3, "failed": 1},
        notes=[{"code": "agent-exit", "text": "exited 3"}, {"code": "agent-exit", "text": "again"}],
    )
    found = dict(properties(given))
    assert found == {
        "rlenv.repo": "org/repo",
        "rlenv.revision": "0123",
        "rlenv.task": "fix-it",
        "rlenv.task_digest": "sha256:1",
        "rlenv.agent": "oracle",
        "rlenv.model": "vendor/m",
        "rlenv.attempt": "2",
        "rlenv.image": "img@sha256:2",
        "rlenv.verdict": "passed",
        "rlenv.reward": "0.5",
        "rlenv.retries": "2",
        "rlenv.retried_errors": "SandboxFailed [start], SandboxFailed [start]",
        "rlenv.quarantine": "flaky upstream",
        "rlenv.trajectory": "rollouts/x/agent/trajectory.json",
        "rlenv.seconds": "1.25",
        "rlenv.reward.reward": "0.5",
        "rlenv.reward.speed": "2.0",
        "rlenv.seconds.build": "1.0",
        "rlenv.seconds.verify": "0.25",
        "rlenv.usage.cost_usd": "0.02",
        "rlenv.usage.n_input_tokens": "100",
        "rlenv.checks.passed": "3",
        "rlenv.checks.failed": "1",
        "rlenv.step.one": "1.0",
        "rlenv.note.agent-exit": "exited 3\nagain",
    }


def test_what_is_equal_in_many_rollouts_is_in_memory_once() -> None:
    """pytest keeps the properties of each test until a run's end."""
    one, other = properties(record(task="one", seconds=1.5)), properties(record(task="other", seconds=2.5))
    apart = [
        name for (name, _), given in zip(one, other, strict=True) if not any(given is each for each in one)
    ]
    assert set(apart) == {"rlenv.task", "rlenv.seconds"}
    assert properties(record(reward=1)) != properties(record(reward=1.0))  # 1 is not written as 1.0


def test_an_error_has_no_reward_whatever_was_written() -> None:
    found = dict(properties(record(error=error(), rewards={"reward": 1.0}, reward=None, verdict="error")))
    assert not any(name.startswith("rlenv.reward") for name in found)
    assert found["rlenv.error"] == "RewardMissing"
    assert found["rlenv.error_kind"] == "task"
    assert found["rlenv.error_stage"] == "verify"


def test_datadog_gets_each_property_as_a_tag_too() -> None:
    plain = properties(record(reward=1.0))
    assert properties(record(reward=1.0), datadog=True) == plain + [(f"dd_tags[{k}]", v) for k, v in plain]


@pytest.mark.parametrize(
    ("nodeid", "expected"),
    [
        ("rlenv:org/repo::fix-it", ("rlenv:org.repo", "fix-it")),
        ("rlenv:org/repo::fix-it::oracle::2", ("rlenv:org.repo.fix-it.oracle", "2")),
        ("evals/a.rlenv.toml::fix-it", ("evals.a.rlenv.toml", "fix-it")),
        ("tests/test_own.py::test_it[fix/it-1]", ("tests.test_own", "test_it[fix/it-1]")),
    ],
)
def test_a_case_has_the_name_that_pytest_gives_it(nodeid: str, expected: tuple[str, str]) -> None:
    assert address(nodeid) == expected


@pytest.mark.parametrize(
    ("outcome", "verdict", "tag"),
    [
        ("passed", "passed", None),
        ("failed", "failed", "failure"),
        ("error", "error", "error"),
        ("skipped", "skipped", "skipped"),
        ("skipped", "failed", "skipped"),
        ("xfailed", "failed", "skipped"),
        ("xpassed", "passed", None),
        ("passed", "failed", None),
        ("failed", "passed", "failure"),
        (None, "error", "error"),
    ],
)
def test_pytests_word_on_the_test_decides(outcome: str | None, verdict: str, tag: str | None) -> None:
    fields = {"error": error()} if verdict == "error" else {}
    case = ET.fromstring(junit_case(record(outcome=outcome, verdict=verdict, message="why", **fields)))
    assert [child.tag for child in case if child.tag != "properties"] == ([tag] if tag else [])


def test_the_text_has_the_hint_the_evidence_and_the_notes() -> None:
    given = record(
        verdict="error",
        outcome="error",
        message="no reward",
        error=error(hint="write one", detail="a\nb"),
        notes=[{"code": "agent-exit", "text": "exited 3"}, {"code": "task-warning", "text": "hush"}],
        logs="rollouts/x",
    )
    element = ET.fromstring(junit_case(given)).find("error")
    assert element is not None
    assert element.attrib == {"type": "RewardMissing", "message": "RewardMissing [verify]: no reward"}
    assert element.text == (
        "RewardMissing [verify]: no reward\nhint: write one\noutput:\n    a\n    b\nnote: exited 3\n"
        "logs: rollouts/x"
    )


anything = st.text(st.characters(codec=None), max_size=60)


@settings(max_examples=50)
@given(message=anything, name=anything.filter(lambda text: "::" not in text), note=anything)
def test_no_text_makes_a_file_that_is_not_valid(
    tmp_path_factory: pytest.TempPathFactory, message: str, name: str, note: str
) -> None:
    folder = tmp_path_factory.mktemp("reports")
    given = record(
        node=f"rlenv:org/repo::{name}",
        verdict="failed",
        outcome="failed",
        message=message,
        notes=[{"code": "x", "text": note}],
        usage={note: message},
    )
    write_junit(folder / "junit.xml", [given], run_dir=folder, scratch=folder / "s")
    assert list(check_junit(folder / "junit.xml").values()) == ["failed"]


def test_logs_are_cut_to_their_end_and_say_where_the_whole_is(tmp_path: Path) -> None:
    (tmp_path / "rollouts/x/verifier").mkdir(parents=True)
    (tmp_path / "rollouts/x/agent").mkdir(parents=True)
    text = "".join(f"line {n} \x1b[31mred\x1b[0m \x00\x0b\ufffe\n" for n in range(20_000)) + "the end"
    (tmp_path / "rollouts/x/verifier/test-stdout.txt").write_text(text, encoding="utf-8")
    (tmp_path / "rollouts/x/agent/session.log").write_bytes(b"\xff\xfe odd")
    (tmp_path / "rollouts/x/agent/trajectory.json").write_text("{}")
    given = record(logs="rollouts/x")
    agent, verifier = log_tails(tmp_path, given)
    assert agent.path == "rollouts/x/agent/session.log"
    assert verifier.text.endswith("the end")
    assert len(verifier.text) < CHARS + 100
    assert verifier.size == len(text.encode())
    write_junit(tmp_path / "junit.xml", [given], run_dir=tmp_path, scratch=tmp_path / "s")
    check_junit(tmp_path / "junit.xml")
    out = ET.parse(tmp_path / "junit.xml").getroot().findtext(".//system-out") or ""
    assert f"the end of rollouts/x/verifier/test-stdout.txt ({verifier.size} bytes)" in out
    assert "the end\n" in out


def test_the_logs_of_several_steps_are_those_of_the_last(tmp_path: Path) -> None:
    for step in ("one", "two"):
        (tmp_path / f"x/steps/{step}/verifier").mkdir(parents=True)
        (tmp_path / f"x/steps/{step}/verifier/test-stdout.txt").write_text(step)
    (found,) = log_tails(tmp_path, record(logs="x", steps=[{"name": "one"}, {"name": "two"}]))
    assert (found.path, found.text) == ("x/steps/two/verifier/test-stdout.txt", "two")


def test_a_file_is_valid_after_every_rollout_and_before_the_first(tmp_path: Path) -> None:
    file = JUnitFile(tmp_path / "junit.xml", scratch=tmp_path / "s", run_dir=tmp_path)
    document = CtrfFile(tmp_path / "out/ctrf.json", scratch=tmp_path / "s", run_dir=tmp_path, run="word")
    file.begin()
    document.begin()
    assert check_junit(tmp_path / "junit.xml") == {}
    assert check_ctrf(tmp_path / "out/ctrf.json")["runId"] == "word"
    for number in range(1, 4):
        given = record(node=f"rlenv:org/repo::t{number}", verdict="error", outcome="error", error=error())
        file.add(given)
        document.add(given)
        file._file.publish()
        document._file.publish()
        assert len(check_junit(tmp_path / "junit.xml")) == number
        assert len(check_ctrf(tmp_path / "out/ctrf.json")["results"]["tests"]) == number
    file.add(record(outcome="rerun"))
    file.finish()
    document.finish()
    assert len(check_junit(tmp_path / "junit.xml")) == 3
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"junit.xml", "ctrf.json"}


def test_writing_takes_a_small_part_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]

    def clock() -> float:
        now[0] += 0.5  # each look at it: writing takes 0.5 s, so the next is due 10 s later
        return now[0]

    monkeypatch.setattr("pytest_rlenv.reports.growing.time.monotonic", clock)
    file = JUnitFile(tmp_path / "junit.xml", scratch=tmp_path / "s", run_dir=tmp_path)
    file.begin()
    file.add(record())
    assert check_junit(tmp_path / "junit.xml") == {}
    now[0] += 20
    file.refresh()
    assert check_junit(tmp_path / "junit.xml") == {"fix-it": "success"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"reward": 1.0}, ("passed", "passed")),
        ({"outcome": "failed", "verdict": "failed", "reward": 0.1}, ("failed", "failed")),
        ({"outcome": "error", "verdict": "error", "error": error()}, ("other", "error")),
        ({"outcome": "skipped", "verdict": "skipped"}, ("skipped", "skipped")),
        ({"outcome": "xfailed", "verdict": "failed"}, ("skipped", "xfailed")),
    ],
)
def test_ctrf_tells_an_error_from_a_failure(
    tmp_path: Path, fields: dict[str, Any], expected: tuple[str, str]
) -> None:
    document = CtrfFile(tmp_path / "ctrf.json", scratch=tmp_path, run_dir=tmp_path, run="word")
    document.begin()
    document.add(record(**fields))
    document.finish()
    (test,) = check_ctrf(tmp_path / "ctrf.json")["results"]["tests"]
    assert (test["status"], test["rawStatus"]) == expected
    assert ("reward" in test["extra"]) is ("reward" in fields)
    assert (test["start"], test["stop"]) == (1767323045678, 1767323046928)


def test_ctrf_has_every_try(tmp_path: Path) -> None:
    earlier = {"error": error(type="SandboxFailed"), "seconds": 2.0, "started_at": "2026-01-02T03:04:00Z"}
    document = CtrfFile(tmp_path / "ctrf.json", scratch=tmp_path, run_dir=tmp_path, run="word")
    document.begin()
    document.add(record(tries=[earlier, earlier]))
    document.finish()
    found = check_ctrf(tmp_path / "ctrf.json")
    (test,) = found["results"]["tests"]
    assert (test["retries"], test["flaky"], found["results"]["summary"]["flaky"]) == (2, True, 1)
    assert [each["attempt"] for each in test["retryAttempts"]] == [1, 2]
    assert test["retryAttempts"][0]["message"] == "SandboxFailed [verify]: no reward"


def test_what_is_no_file_of_its_own_is_written_once_and_stays_what_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "kept.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "kept.json")
    assert not may_be_replaced(Path("/dev/stdout"))
    assert not may_be_replaced(tmp_path / "pipe")
    assert may_be_replaced(tmp_path / "kept.json")
    assert may_be_replaced(tmp_path / "new.json")
    document = CtrfFile(tmp_path / "link.json", scratch=tmp_path / "s", run_dir=tmp_path, run="word")
    document.begin()
    document.add(record())
    assert (tmp_path / "kept.json").read_text() == "old"
    document.finish()
    assert (tmp_path / "link.json").is_symlink()
    assert len(check_ctrf(tmp_path / "kept.json")["results"]["tests"]) == 1
