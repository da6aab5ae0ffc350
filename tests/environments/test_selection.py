from __future__ import annotations

from pathlib import Path

import pytest
from support.environments import ids

from pytest_rlenv.environments.model import LOCAL, Environment, TaskRef
from pytest_rlenv.environments.selection import Selection, pick, select
from pytest_rlenv.errors import SpecError


def environment(*names: str, name: str = "env") -> Environment:
    tasks = tuple(TaskRef(n, f"tasks/{n.replace('%5B', '[').replace('%5D', ']')}") for n in names)
    return Environment(name, LOCAL, Path("/x"), tasks=tasks, found=len(tasks))


ENV = environment("git/merge", "git/rebase", "py/Merge", "py/sort%5B1%5D", "regex-log")


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), ["git/merge", "git/rebase", "py/Merge", "py/sort%5B1%5D", "regex-log"]),
        (Selection(include=("git/*",)), ["git/merge", "git/rebase"]),
        (Selection(include=("merge",)), ["git/merge"]),
        (Selection(include=("*erge",)), ["git/merge", "py/Merge"]),
        (Selection(include=("tasks/py/*",)), ["py/Merge", "py/sort%5B1%5D"]),
        (Selection(include=("sort[1]",)), ["py/sort%5B1%5D"]),
        (Selection(include=("regex-log", "git/*"), exclude=("rebase",)), ["git/merge", "regex-log"]),
        (Selection(exclude=("py/*", "git/*")), ["regex-log"]),
        (Selection(limit=2), ["git/merge", "git/rebase"]),
        (Selection(include=("py/*",), limit=1), ["py/Merge"]),
        (Selection(limit=99), ["git/merge", "git/rebase", "py/Merge", "py/sort%5B1%5D", "regex-log"]),
    ],
)
def test_select(selection: Selection, expected: list[str]) -> None:
    (chosen,) = select([ENV], selection)
    assert ids(chosen) == expected
    assert chosen.found == 5


@pytest.mark.parametrize(
    ("selection", "message", "hint"),
    [
        (Selection(include=("regexlog",)), "--rlenv-task 'regexlog' matches none of 5 tasks", "regex-log"),
        (Selection(include=("git/*", "rebse")), "--rlenv-task 'rebse'", "did you mean git/rebase?"),
        (Selection(include=("zzz",)), "--rlenv-task 'zzz'", "for example, git/merge"),
        (Selection(include=("MERGE",)), "--rlenv-task 'MERGE'", "did you mean git/merge, py/Merge?"),
        (Selection(exclude=("rgex-log",)), "--rlenv-exclude-task 'rgex-log'", "did you mean regex-log?"),
        (Selection(exclude=("*",)), "all 5 tasks are deselected", "widen"),
        (Selection(include=("merge",), exclude=("git/*",)), "all 5 tasks are deselected", "widen"),
        (Selection(limit=0), "--rlenv-limit 0", "1 or more"),
        (Selection(limit=-1), "--rlenv-limit -1", "1 or more"),
    ],
)
def test_a_selection_that_cannot_be_meant(selection: Selection, message: str, hint: str) -> None:
    with pytest.raises(SpecError) as raised:
        select([ENV], selection)
    assert message in raised.value.message
    assert hint in raised.value.hint


def test_no_more_than_five_names_are_suggested() -> None:
    many = environment(*(f"sorting-{i}" for i in range(50)))
    with pytest.raises(SpecError) as raised:
        select([many], Selection(include=("sorting",)))
    assert raised.value.hint.count("sorting-") == 5


def test_a_glob_need_match_in_one_of_the_environments_only() -> None:
    one, two = select([environment("a", "b"), environment("b", "c")], Selection(include=("c",)))
    assert (ids(one), ids(two)) == ([], ["c"])


def test_the_limit_is_for_each_environment() -> None:
    one, two = select([environment("a", "b"), environment("c", "d")], Selection(limit=1))
    assert (ids(one), ids(two)) == (["a"], ["c"])


def test_pick_exact_ids() -> None:
    assert [t.id for t in pick(ENV, ["regex-log", "git/merge", "regex-log"])] == ["regex-log", "git/merge"]
    with pytest.raises(SpecError) as raised:
        pick(ENV, ["regex-logs"])
    assert raised.value.message == "not found: rlenv:env::regex-logs"
    assert raised.value.hint == "did you mean regex-log?"
