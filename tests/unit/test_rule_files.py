"""Files of rules: which rollouts an entry is for, which of several holds, and how a wrong one is refused."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.errors import SpecError
from pytest_rlenv.rules.expectations import Expectations
from pytest_rlenv.rules.of_run import Rules
from pytest_rlenv.rules.quarantine import Quarantine, Seen

TODAY = datetime.now(timezone.utc).date()
LATER = TODAY + timedelta(days=30)
ENTRY = 'task = "a"\nreason = "known"\nuntil = 2031-12-24'


def quarantine(tmp_path: Path, *entries: str) -> Quarantine:
    file = tmp_path / "known.toml"
    file.write_text("".join(f"[[quarantine]]\n{entry}\n" for entry in entries))
    return Quarantine.read(file)


def expectations(tmp_path: Path, *entries: str) -> Expectations:
    file = tmp_path / "expected.toml"
    file.write_text("".join(f"[[expectation]]\n{entry}\n" for entry in entries))
    return Expectations.read(file)


def rule(task: str, expect: str, environment: str = "") -> str:
    more = f'\nenvironment = "{environment}"' if environment else ""
    return f'task = "{task}"\nexpect = "{expect}"{more}'


# ---- quarantine


@pytest.mark.parametrize(
    ("fields", "held"),
    [
        ("", True),
        ('agent = "oracle"', True),
        ('agent = "o*"', True),
        ('agent = "nop"', False),
        ('environment = "org/repo"', True),
        ('environment = "repo"', True),
        ('environment = "org/*"', True),
        ('environment = "other/*"', False),
        ('mode = "run"', True),
    ],
)
def test_an_entry_is_for_some_rollouts(tmp_path: Path, fields: str, held: bool) -> None:
    found = quarantine(tmp_path, f"{ENTRY}\n{fields}")
    assert (found.entry_for("org/repo", "a", "oracle") is not None) == held
    assert found.entry_for("org/repo", "b", "oracle") is None


@pytest.mark.parametrize(
    ("until", "holds"), [(TODAY, True), (TODAY + timedelta(1), True), (TODAY - timedelta(1), False)]
)
def test_an_entry_holds_through_its_last_day(tmp_path: Path, until: date, holds: bool) -> None:
    found = quarantine(tmp_path, ENTRY.replace("2031-12-24", str(until)))
    assert (found.entry_for("org/repo", "a", "oracle") is not None) == holds
    assert bool(list(found.expired())) != holds


def test_the_first_entry_that_holds_today_is_the_one(tmp_path: Path) -> None:
    old = ENTRY.replace("2031-12-24", "2001-01-01").replace("known", "old")
    entry = quarantine(tmp_path, old, ENTRY, ENTRY.replace("known", "later")).entry_for("e", "a", "o")
    assert entry is not None
    assert entry.reason == "known"


@pytest.mark.parametrize(
    ("mode", "verdicts", "lines"),
    [
        ("skip", ["skipped"], []),
        ("skip", [], ["is for no task"]),
        ("run", ["passed"], ["its rollout passed"]),
        ("run", ["passed", "passed"], ["all of its 2 rollouts passed"]),
        ("run", ["passed", "failed"], []),
        ("run", ["error"], []),
        ("run", ["skipped"], []),
    ],
)
def test_which_entries_are_not_needed(
    tmp_path: Path, mode: str, verdicts: list[str], lines: list[str]
) -> None:
    found = quarantine(tmp_path, f'{ENTRY}\nmode = "{mode}"')
    seen = [Seen("e", "a", "oracle", verdict) for verdict in verdicts] + [Seen("e", "b", "oracle", "passed")]
    told = list(found.unneeded(seen))
    assert len(told) == len(lines)
    assert all(words in line for words, line in zip(lines, told, strict=True))


def test_an_entry_for_another_agent_is_needed_all_the_same(tmp_path: Path) -> None:
    found = quarantine(tmp_path, f'{ENTRY}\nagent = "nop"\nmode = "run"')
    assert not list(found.unneeded([Seen("e", "a", "oracle", "passed")]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ENTRY.replace("reason", "# reason"), "known.toml, entry 1: reason is missing"),
        (
            ENTRY.replace("2031-12-24", "'soon'"),
            "entry 1: until = 'soon': a date is needed, such as 2031-12-24",
        ),
        (ENTRY.replace("2031-12-24", "'2031-13-24'"), "entry 1: until = '2031-13-24': *"),
        (ENTRY.replace("2031-12-24", "5"), "entry 1: until = 5: a date is needed, such as 2031-12-24"),
        (ENTRY + "T00:00:00", "entry 1: until = *: a date is needed*"),
        (ENTRY.replace("known", ""), "entry 1: reason = '': *at least 1 char*"),
        (ENTRY + "\nmode = 'hide'", "entry 1: mode = 'hide': *'skip' or 'run'*"),
        (ENTRY + "\ntasks = 'b'", "entry 1: there is no field tasks"),
        (ENTRY + "\n[quarantin]", "known.toml: quarantin is not an entry"),
        (ENTRY + "\n[[quarantine]]", "entry 2: task is missing; reason is missing; until is missing"),
        ("task = 'a' 7", "known.toml: *line 2*"),
    ],
)
def test_a_wrong_quarantine_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        quarantine(tmp_path, text)
    assert fnmatchcase(caught.value.message, f"*{words}"), caught.value.message


# ---- expectations


@pytest.mark.parametrize(
    ("expect", "expected"),
    [
        ('"oracle >= 0.5"', ">= 0.5"),
        ('"oracle speed >= 0.9"', "speed >= 0.9"),
        ('"oracle 0.4 <= reward <= 0.6"', "0.4 <= reward <= 0.6"),
        ('"oracle 0.4 < speed <= 0.6"', "0.4 < speed <= 0.6"),
        ('{ agent = "oracle", min = 0.4, max = 0.6 }', "0.4 <= reward <= 0.6"),
        ('{ agent = "oracle", max = 0.4 }', "<= 0.4"),
        ('{ agent = "oracle", key = "speed", min = 0.8 }', "speed >= 0.8"),
        ('["nop >= 0.1", "oracle < 0.1"]', "< 0.1"),
        ('["nop >= 0.1", { agent = "oracle", min = 1 }]', ">= 1.0"),
        ('"* <= 0.5"', "<= 0.5"),
        ('"or* <= 0.5"', "<= 0.5"),
        ('"nop >= 0.5"', None),
    ],
)
def test_the_forms_of_an_expectation(tmp_path: Path, expect: str, expected: str | None) -> None:
    found = expectations(tmp_path, f'task = "a"\nexpect = {expect}').expectation_for("e", "a", "oracle")
    assert (found.describe() if found else None) == expected
    assert found is None or found.source == "expected.toml, entry 1"


@pytest.mark.parametrize(
    ("entries", "number"),
    [
        ([rule("*", "oracle >= 0.1"), rule("task", "oracle >= 0.2")], 2),  # a task by its id
        ([rule("task", "* >= 0.1"), rule("*", "oracle >= 0.2")], 1),  # before an agent by its name
        ([rule("*", "* >= 0.1"), rule("*", "oracle >= 0.2")], 2),
        ([rule("*", "oracle >= 0.1"), rule("*", "oracle >= 0.2", "org/repo")], 2),
        ([rule("t*", "oracle >= 0.1"), rule("tas*", "oracle >= 0.2")], 2),  # the longer glob
        ([rule("*", "oracle >= 0.1"), rule("*", "oracle >= 0.2")], 1),  # the first of equals
        ([rule("*", "oracle >= 0.1", "other"), rule("*", "* >= 0.2")], 2),  # the first is not for it
    ],
)
def test_the_most_particular_rule_holds(tmp_path: Path, entries: list[str], number: int) -> None:
    found = expectations(tmp_path, *entries).expectation_for("org/repo", "task", "oracle")
    assert found is not None
    assert found.source == f"expected.toml, entry {number}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('expect = "oracle >= 1"', "expected.toml, entry 1: task is missing"),
        ('task = "a"', "entry 1: expect is missing"),
        ('task = "a"\nexpect = []', "entry 1: expect = *: *at least 1*"),
        (rule("a", "oracle"), "entry 1: expect = 'oracle': the agent or the expectation is missing: *"),
        (rule("a", ">= 0.5"), "entry 1: expect*'>= 0.5': *agent first*"),
        (rule("a", "0.4 <= reward <= 0.6"), "entry 1: expect*agent first*"),
        (rule("a", "oracle 0.6 <= reward <= 0.4"), "entry 1: expect*no reward can meet*"),
        (rule("a", "oracle >= nan"), "entry 1: expect*'oracle >= nan'*is not an expectation*"),
        ('task = "a"\nexpect = { agent = "b" }', "entry 1: expect*min or max is needed*"),
        ('task = "a"\nexpect = { agent = "b", min = 2, max = 1 }', "entry 1: expect*min is above max*"),
        ('task = "a"\nexpect = { agent = "b", min = inf }', "entry 1: expect*finite*"),
        ('task = "a"\nexpect = { min = 1 }', "entry 1: expect*agent is missing*"),
        ('task = "a"\nexpect = "b > 1"\nagent = "b"', "entry 1: there is no field agent"),
        ('task = "a"\nexpect = { agent = "b", min = true }', "entry 1: expect.min = True: *number*"),
        ('task = "a"\nexpect = { agent = "b", min = "1" }', "entry 1: expect.min = '1': *number*"),
        ('task = "a"\nexpect = 7', "entry 1: expect = 7: a text such as *, or a table with agent, *"),
        ('task = "a"\nexpect = ["b > 1", [1]]', "entry 1: expect = *: a text such as *"),
    ],
)
def test_a_wrong_expectation_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        expectations(tmp_path, text)
    assert fnmatchcase(caught.value.message, f"*{words}"), caught.value.message


@given(st.text(max_size=20))
def test_any_text_is_an_expectation_or_refused(text: str) -> None:
    from pydantic import ValidationError

    from pytest_rlenv.rules.expectations import ExpectationEntry

    try:
        entry = ExpectationEntry.model_validate({"task": "a", "expect": text})
    except ValidationError:
        return
    ((agent, expected),) = entry.rules()
    assert agent
    assert expected.describe()


def test_workers_are_given_the_same_rules(tmp_path: Path) -> None:
    rules = Rules(
        quarantine(tmp_path, f'{ENTRY}\nagent = "nop"'),
        expectations(tmp_path, 'task = "a"\nexpect = ["oracle >= 1", { agent = "nop", max = 0.1 }]'),
    )
    assert Rules.load(rules.dump()) == rules
    assert Rules.load(Rules().dump()) == Rules()
