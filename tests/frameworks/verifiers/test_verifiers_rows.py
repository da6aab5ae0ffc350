"""A taskset's list of tasks: ids, digests, and how the user configures what is listed."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.environments.finders import Place
from pytest_rlenv.errors import SpecError, TaskInvalid
from pytest_rlenv.frameworks.verifiers.configuring import give_data, user_options
from pytest_rlenv.frameworks.verifiers.limits import kill_after, stage_limits
from pytest_rlenv.frameworks.verifiers.rows import LONGEST_ID, Listed, _ids, read_row, store, task_refs

LISTED = Listed("toy", {"split": "test"}, (), "code", "its own")


def listed(folder: Path, rows: list[dict[str, Any]], about: Listed = LISTED) -> Path:
    lines = folder / "lines.jsonl"
    lines.write_text(
        "".join(
            json.dumps(
                {
                    "index": i,
                    "row": row,
                    "whole": True,
                    "container": "",
                    "tools": False,
                    **{k: row.get(k) for k in ("id", "name")},
                }
            )
            + "\n"
            for i, row in enumerate(rows)
        )
    )
    return store(about, lines)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLENV_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_old_lists_are_removed(folder: Path) -> None:
    old = listed(folder, [{"id": "a"}])
    os.utime(old, (0, 0))

    new = listed(folder, [{"id": "b"}])

    assert list(old.parent.iterdir()) == [new]


def test_a_task_is_named_by_its_id_else_name_else_position(folder: Path) -> None:
    stored = listed(folder, [{"id": "a", "name": "x"}, {"name": "b"}, {"prompt": "c"}, {"id": ""}])

    assert [ref.id for ref in task_refs(stored, file=None)] == ["a", "b", "2", "3"]


@given(st.lists(st.one_of(st.none(), st.text(max_size=200)), min_size=1, max_size=8))
def test_ids_are_unique_short_and_safe_in_node_ids(names: list[str | None]) -> None:
    ids = _ids([(name, None, index) for index, name in enumerate(names)])

    assert len(set(ids)) == len(names)
    for each in ids:
        assert each
        assert len(each) <= LONGEST_ID + 12
        assert "::" not in each
        assert not re.search(r"[\[\]\x00-\x1f\x7f-\x9f]", each)


def test_every_row_is_found_again_by_what_its_task_carries(folder: Path) -> None:
    rows = [{"id": f"é{n}", "prompt": "x" * n} for n in range(5)]

    refs = list(task_refs(listed(folder, rows), file="toy.py"))

    assert [read_row(ref.data).row for ref in refs] == rows
    assert {ref.manifest for ref in refs} == {"toy.py"}
    assert read_row(refs[3].data).listed == LISTED


def test_the_same_list_is_the_same_file(folder: Path) -> None:
    assert listed(folder, [{"id": "a"}]) == listed(folder, [{"id": "a"}])
    assert listed(folder, [{"id": "a"}]) != listed(folder, [{"id": "b"}])


def test_a_list_that_is_gone_is_told(folder: Path) -> None:
    (ref,) = task_refs(listed(folder, [{"id": "a"}]), file=None)
    Path(ref.data["rows"]).unlink()

    with pytest.raises(TaskInvalid, match="cannot be read"):
        read_row(ref.data)


def test_a_digest_is_of_row_options_and_code_and_not_of_the_position(folder: Path) -> None:
    def digest(row: dict[str, Any], about: Listed = LISTED) -> str:
        (ref,) = task_refs(listed(folder, [row], about), file=None)
        return read_row(ref.data).digest

    first = digest({"id": "a", "idx": 0})
    assert digest({"id": "a", "idx": 7}) == first
    assert digest({"id": "a", "prompt": "other"}) != first
    assert digest({"id": "a"}, Listed("toy", {"split": "test"}, (), "other", "")) != first
    assert digest({"id": "a"}, Listed("toy", {}, (), "code", "")) != first


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ((), {}),
        (("n=3", "split=test", 'names=["a"]'), {"n": 3, "split": "test", "names": ["a"]}),
        (("task.weight=0.5", "task.deep.er=true"), {"task": {"weight": 0.5, "deep": {"er": True}}}),
        (("text=a=b",), {"text": "a=b"}),
        (("text=",), {"text": ""}),
    ],
)
def test_options_are_json_else_text(pairs: tuple[str, ...], expected: dict[str, Any]) -> None:
    assert user_options(pairs) == expected


def test_an_option_is_a_value_or_a_table() -> None:
    with pytest.raises(SpecError, match="has a value already"):
        user_options(("task=1", "task.weight=2"))


TEXT, OTHER = {"text": True}, {"text": False}
HERE = Place("/envs/rows", "rows", Path("/envs/rows"), ("a.parquet",))
HUB = Place(
    "org/repo@abc", "org/repo", Path("/cache/root"), ("a.parquet",), repo_id="org/repo", revision="abc"
)


@pytest.mark.parametrize(
    ("fields", "place", "own", "options", "files"),
    [
        ({"data_path": TEXT, "dataset_name": TEXT}, HERE, {}, {"data_path": "/envs/rows"}, True),
        (
            {"dataset_name": TEXT, "revision": TEXT},
            HUB,
            {},
            {"dataset_name": "org/repo", "revision": "abc"},
            False,
        ),
        ({"dataset_name": TEXT}, HUB, {}, {"dataset_name": "/cache/root"}, True),
        ({"dataset_name": OTHER, "split": TEXT}, HUB, {}, {}, False),
        ({"data_path": TEXT}, HERE, {"data_path": "/mine"}, {}, False),
    ],
    ids=["folder", "repository and commit", "repository's folder", "none fits", "the user's own stays"],
)
def test_data_goes_into_the_field_that_takes_it(
    fields: dict[str, Any], place: Place, own: dict[str, Any], options: dict[str, Any], files: bool
) -> None:
    found = give_data(fields, place, own)

    assert (found.options, found.files) == (options, files)
    assert place.title in found.words


def test_limits_are_the_rows_own_else_ours() -> None:
    limits = stage_limits({"timeout": {"agent": 10, "setup": None}}, 2.0)

    assert limits == {"setup": 1200.0, "agent": 20.0, "finalize": 1200.0, "scoring": 1200.0}
    assert kill_after(limits) > sum(limits.values())
    assert kill_after(limits, several=True) > 4 * sum(limits.values())
