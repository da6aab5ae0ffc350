"""Rows on the Hub and a taskset that gives their reward, with a package that stands in for Verifiers."""

from __future__ import annotations

import shutil

import pytest
from support.fake_hub import FakeHub
from support.project import Project
from support.verifiers import EXAMPLE, TRUST, kinds, run


def test_rows_on_the_hub_are_handed_to_the_taskset_at_their_commit(toys: Project, hub: FakeHub) -> None:
    rows = {name: (EXAMPLE / name).read_bytes() for name in ("README.md", "good.jsonl")}
    sha = hub.add("org/words", rows)
    shutil.copy(EXAMPLE / "word_count.py", toys.path)

    result = run(toys, TRUST, "--rlenv=org/words", "--rlenv-taskset=word-count", process=True)

    result.assert_outcomes(passed=3)
    record = toys.records()[0]
    assert record["revision"] == sha
    (note,) = (each["text"] for each in record["notes"] if each["code"] == "taskset-data")
    assert note == f"the taskset loaded data of org/words@{sha[:12]}, as data_path"


def test_code_of_a_repository_is_not_imported_unless_it_is_trusted(toys: Project, hub: FakeHub) -> None:
    hub.add("org/words", EXAMPLE)
    options = ("--rlenv=org/words", "--rlenv-taskset=word-count")

    refused = run(toys, *options, process=True)
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*taskset word-count cannot be loaded*"])
    run(toys, TRUST, *options, process=True).assert_outcomes(passed=3)


def test_rows_on_the_hub_without_a_taskset_say_what_is_missing(toys: Project, hub: FakeHub) -> None:
    hub.add("org/words", {"README.md": (EXAMPLE / "README.md").read_bytes(), "data/train.parquet": b"PAR1"})

    result = run(toys, "--rlenv=org/words", process=True)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*(data/train.parquet) hold no code that gives a reward*"])


def test_a_taskset_that_takes_no_files_says_that_it_loaded_its_own(toys: Project, hub: FakeHub) -> None:
    hub.add("org/words", {"README.md": b"---\ntags: [rl-environment]\n---\n", "data.jsonl": b"{}"})

    result = run(toys, TRUST, "--rlenv=org/words", *kinds("good"), process=True)

    result.stdout.fnmatch_lines(["*warning*toy-kinds loaded data of its own: no field*org/words@*"])
