"""``python -m pytest_rlenv merge``: several runs made one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.stored_runs import record, run_of, write_run

from pytest_rlenv.__main__ import main
from pytest_rlenv.reports.stored import read_run

ENDED = {
    "started_at": "2030-01-01T00:00:00+00:00",
    "finished_at": "2030-01-01T01:00:00+00:00",
    "exit_code": 0,
}


def shard(folder: Path, number: int, *tasks: str, of: int = 2, logs: str = "", **fields: Any) -> Path:
    """Write a run of one shard whose rollouts have a log each."""
    records = []
    for task in tasks:
        place = f"rollouts/{logs or task}__0"
        path = folder / place / "agent" / "trajectory.json"
        path.parent.mkdir(parents=True)
        path.write_text(f'"{task}"')
        made = record(task, logs=place, trajectories=[f"{place}/agent/trajectory.json"], **fields)
        records.append(
            made | {"rewards": {"reward": made["reward"]}, "started_at": "2030-01-01T00:00:00+00:00"}
        )
    return write_run(
        folder,
        run_of(*records),
        **ENDED,
        settings={"shard": f"{number}/{of}", "model": "m"},
        sandbox="docker 20.10",
        environments=[{"name": "org/repo", "tasks_selected": 3}],
    )


def merge(*args: object) -> int:
    return main(["merge", *map(str, args)])


def test_shards_are_one_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = shard(tmp_path / "1", 1, "a", "b"), shard(tmp_path / "2", 2, "c")
    assert merge(one, two, "--output", tmp_path / "all", "--junitxml", tmp_path / "junit.xml") == 0
    said = capsys.readouterr()
    assert said.out == f"2 runs, 3 rollouts (3 passed) in {tmp_path / 'all'}\n"
    assert said.err == ""
    whole = read_run(tmp_path / "all")
    assert whole.problems == ()
    assert [each["task"] for each in whole.records] == ["a", "b", "c"]
    for each in whole.records:
        assert (tmp_path / "all" / each["trajectories"][0]).read_text() == f'"{each["task"]}"'
    facts = whole.facts
    assert facts["finished_at"] == ENDED["finished_at"]
    assert (facts["exit_code"], facts["sandbox"], facts["settings"]) == (
        0,
        "docker 20.10",
        {"shard": None, "model": "m"},
    )
    assert facts["environments"] == [{"name": "org/repo", "tasks_selected": 3}]
    assert [(each["shard"], each["rollouts"]) for each in facts["merged_from"]] == [("1/2", 2), ("2/2", 1)]
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot().find("testsuite")
    assert suite is not None
    assert suite.get("tests") == "3"
    assert len(suite.findall("testcase")) == 3


def test_logs_of_one_name_do_not_meet(tmp_path: Path) -> None:
    one, two = shard(tmp_path / "1", 1, "a", logs="same"), shard(tmp_path / "2", 2, "b", logs="same")
    assert merge(one, two, "--output", tmp_path / "all") == 0
    first, second = read_run(tmp_path / "all").records
    assert first["logs"] != second["logs"]
    for each in (first, second):
        assert (tmp_path / "all" / each["trajectories"][0]).read_text() == f'"{each["task"]}"'


def test_logs_of_earlier_tries_come_along(tmp_path: Path) -> None:
    folder = shard(tmp_path / "1", 1, "a", of=1)
    (folder / "rollouts" / "try").mkdir()
    (folder / "rollouts" / "try" / "log").write_text("first try")
    (made,) = read_run(folder).records
    error = {"type": "SandboxFailed", "stage": "start", "kind": "infra", "message": "gone"}
    made["tries"] = [
        {"error": error, "logs": "rollouts/try", "seconds": 1.0, "started_at": made["started_at"]}
    ]
    (folder / "results.jsonl").write_text(json.dumps(made) + "\n")
    assert merge(folder, "--output", tmp_path / "all") == 0
    (found,) = read_run(tmp_path / "all").records
    assert (tmp_path / "all" / found["tries"][0]["logs"] / "log").read_text() == "first try"


def test_a_file_alone_is_merged_without_logs(tmp_path: Path) -> None:
    one = shard(tmp_path / "1", 1, "a", of=1)
    (one / "run.json").unlink()
    assert merge(one / "results.jsonl", "--output", tmp_path / "all") == 0
    (found,) = read_run(tmp_path / "all").records
    assert (found["logs"], found["trajectories"]) == (None, [])


def test_a_record_cannot_have_other_files_copied(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    folder = shard(tmp_path / "1", 1, "a", of=1)
    (made,) = read_run(folder).records
    (folder / "results.jsonl").write_text(json.dumps(made | {"logs": "rollouts/../../secret"}) + "\n")
    assert merge(folder, "--output", tmp_path / "all") == 0
    assert read_run(tmp_path / "all").records[0]["logs"] is None


def test_a_test_that_is_in_two_runs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = shard(tmp_path / "1", 1, *"abcde"), shard(tmp_path / "2", 2, *"abcde")
    assert merge(one, two, "--output", tmp_path / "all") == 4
    said = capsys.readouterr().err
    assert (
        f"the same test is in more than one run: rlenv:org/repo::a::oracle::1 is in {one} and in {two}"
        in said
    )
    assert ", and 2 more" in said
    assert not (tmp_path / "all").exists()


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([{"number": 1, "of": 3}, {"number": 3, "of": 3}], "not all shards are there: 2/3 missing"),
        (
            [{"number": 1, "revision": "a" * 40}, {"number": 2, "revision": "b" * 40}],
            "org/repo is not of one commit: aaaaaaaaaaaa in 0, bbbbbbbbbbbb in 1; name one with @revision",
        ),
        (
            [{"number": 1, "conditions": {"build": True}}, {"number": 2, "conditions": {"build": False}}],
            "rollouts were not all run in one way, see 0 and 1",
        ),
    ],
)
def test_what_makes_it_less_than_one_run_is_told_of(
    tmp_path: Path,
    parts: list[dict[str, Any]],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = [shard(Path(str(i)), fields.pop("number"), f"t{i}", **fields) for i, fields in enumerate(parts)]
    assert merge(*folders, "--output", "all") == 0
    assert f"warning: {said}\n" in capsys.readouterr().err


def test_a_run_that_was_killed_is_told_of_and_has_no_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = shard(tmp_path / "1", 1, "a", of=1)
    facts = json.loads((one / "run.json").read_text())
    (one / "run.json").write_text(json.dumps(facts | {"finished_at": None, "exit_code": None}))
    assert merge(one, "--output", tmp_path / "all") == 0
    assert f"warning: {one} did not come to its end" in capsys.readouterr().err
    merged = read_run(tmp_path / "all").facts
    assert (merged["finished_at"], merged["exit_code"]) == (None, None)


def test_a_folder_that_holds_something_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = shard(tmp_path / "1", 1, "a")
    assert merge(one, "--output", one) == 4
    assert "there is something already" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert merge(one, "--output", tmp_path / "empty") == 0


def test_a_place_that_cannot_be_written_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = shard(tmp_path / "1", 1, "a")
    (tmp_path / "file").write_text("")
    assert merge(one, "--output", tmp_path / "file" / "all") == 4
    assert "cannot be written" in capsys.readouterr().err
    assert merge(one, "--output", tmp_path / "all", "--junitxml", tmp_path / "no" / "x.xml") == 4
    assert "--junitxml" in capsys.readouterr().err
