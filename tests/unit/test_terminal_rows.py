"""Lines for the terminal: by cause, bounded, and never wider than it is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_rlenv.reports.aggregate import Result
from pytest_rlenv.reports.columns import fit, padded, width_of
from pytest_rlenv.reports.progress import show_time, status_line
from pytest_rlenv.reports.terminal_rows import SHOWN, rows_of
from pytest_rlenv.under_way import Running, UnderWay
from pytest_rlenv.verdict import Outcome

DIED = "SandboxFailed [start]: the engine gave no answer"


def result(task: str, verdict: Outcome = Outcome.ERROR, message: str = DIED, **fields: object) -> Result:
    given = {
        "environment": "org/repo",
        "task": task,
        "agent": "oracle",
        "verdict": verdict,
        "message": message,
    }
    return Result(**{**given, **fields})  # type: ignore[arg-type]  # of a table


def lines(results: list[Result], *, width: int = 100, verbose: bool = False) -> list[str]:
    rows, _ = rows_of(results, width=width, verbose=verbose)
    return [f"{row.outcome.value.upper() if row.outcome else ''}|{row.text}" for row in rows]


def test_errors_are_shown_by_cause_the_commonest_first() -> None:
    rare = [result(f"rare-{n}", message=f"BuildFailed [build]: rare-{n} failed at step {n}") for n in (1, 2)]
    common = [result(f"t{n}") for n in range(12)]
    failed = result("low", Outcome.FAILED, "reward 0.4 < 1.0", reward=0.4)
    skipped = [result(f"s{n}", Outcome.SKIPPED, f"needs {n} GPUs") for n in (1, 2)]
    single = result("alone", message="RewardMissing [verify]: no reward")
    assert lines([single, *rare, *common, *skipped, failed]) == [
        "FAILED|low      0.4  reward 0.4 < 1.0",
        f"ERROR|12 x {DIED}",
        "|    t0, t1, t10, and 9 more",
        "ERROR|2 x BuildFailed [build]: rare-1 failed at step 1",
        "|    rare-1, rare-2",
        "ERROR|alone      -  RewardMissing [verify]: no reward",
        "SKIPPED|2 x needs 1 GPUs",
        "|    s1, s2",
    ]


def test_with_more_words_every_task_is_named() -> None:
    found = lines([result(f"t{n}", agent=agent) for n in (1, 2) for agent in ("a", "b")], verbose=True)
    assert found == [f"ERROR|4 x {DIED}", "|    t1 (a)", "|    t1 (b)", "|    t2 (a)", "|    t2 (b)"]


def test_attempts_are_told_apart() -> None:
    found = lines([result("t", Outcome.FAILED, "low", attempt=n, reward=0.0) for n in (1, 2)])
    assert found == ["FAILED|t #1    0.0  low", "FAILED|t #2    0.0  low"]


def test_what_tells_two_rollouts_apart_is_never_cut_off() -> None:
    long = [
        result("a-task-with-a-long-name", Outcome.FAILED, "low", agent=agent, attempt=2, reward=0.0)
        for agent in ("oracle", "nop")
    ]
    assert lines(long, width=75) == [
        "FAILED|a-task-with-a... (nop) #2    0.0  low",
        "FAILED|a-task-wit... (oracle) #2    0.0  low",
    ]


@pytest.mark.parametrize(
    ("width", "named"),
    [
        (90, "a-task-with-a-long-name-1 #1, a-task-with-a-long-name-2 #2, and 3 more"),
        (80, "a-task-with-a-long-name-1 #1, and 4 more"),
        (44, "a-task-with-a... #1, and 4 more"),
    ],
)
def test_examples_are_named_whole_as_many_as_there_is_room_for(width: int, named: str) -> None:
    long = [result(f"a-task-with-a-long-name-{n}", attempt=n) for n in range(1, 6)]
    assert lines(long, width=width)[1] == f"|    {named}"


def test_a_thousand_tasks_take_as_many_lines_as_fifty() -> None:
    results = [result(f"f{n}", Outcome.FAILED, "low") for n in range(1000)]
    results += [
        result(f"e{n}", message=f"Error{chr(65 + n % 26)}{chr(65 + n // 26 % 26)}") for n in range(1000)
    ]
    rows, left_out = rows_of(results, width=80, verbose=False)
    assert len(rows) <= SHOWN[Outcome.FAILED] + 2 * SHOWN[Outcome.ERROR]
    named = sum(int(row.text.split(" x ")[0]) for row in rows if row.outcome is Outcome.ERROR)
    assert left_out == 2000 - SHOWN[Outcome.FAILED] - named


texts = st.text(max_size=120)


@settings(max_examples=60)
@given(texts, texts.filter(bool), st.integers(60, 120), st.booleans(), st.integers(1, 6))
def test_no_line_is_wider_than_the_terminal(
    message: str, task: str, width: int, verbose: bool, count: int
) -> None:
    results = [result(task + str(n), message=message) for n in range(count)]
    results.append(result(task, Outcome.FAILED, message, reward=1 / 3))
    rows, _ = rows_of(results, width=width, verbose=verbose)
    assert all(width_of(row.text) + 9 <= width and "\n" not in row.text for row in rows)


@given(texts, st.integers(0, 60))
def test_a_text_is_cut_to_columns(text: str, width: int) -> None:
    assert width_of(fit(text, width)) <= width
    assert width_of(padded(text, width)) == width


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("short", 10, "short"),
        ("too long for it", 10, "too lon..."),
        ("日本語のタスク", 9, "日本語..."),
        ("ab", 1, "."),
    ],
)
def test_how_a_text_is_cut(text: str, width: int, expected: str) -> None:
    assert fit(text, width) == expected


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (80, "rlenv: 3 of 40 done, 3 running: fix-log (oracle) 1:12, repair (oracle) 0:05, +1"),
        (60, "rlenv: 3 of 40 done, 3 running: fix-log (oracle) 1:12, +2"),
        (40, "rlenv: 3 of 40 done, 3 running: fix-l..."),
        (99, "rlenv: 3 of 40 done, 3 running: fix-log (oracle) 1:12, repair (oracle) 0:05, an (oracle) 0:01"),
    ],
)
def test_the_status_line_shows_the_longest_and_counts_the_rest(width: int, expected: str) -> None:
    running = [
        Running("fix-log (oracle)", 72.4),
        Running("repair (oracle)", 5.0),
        Running("an (oracle)", 1),
    ]
    assert status_line(3, 40, running, width=width) == expected


def test_an_unknown_total_is_not_shown() -> None:
    assert status_line(3, 0, [], width=80) == "rlenv: 3 done, 0 running"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.9, "0:00"), (65, "1:05"), (3600, "1:00:00"), (90061, "25:01:01")]
)
def test_times(seconds: float, shown: str) -> None:
    assert show_time(seconds) == shown


def test_what_is_under_way_is_known_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr("pytest_rlenv.under_way.time.monotonic", lambda: now[0])
    under_way = UnderWay()
    under_way.begin("late", "late")
    with under_way.rollout("first"):
        now[0] = 12.0
        under_way.begin("late", "later")
        now[0] = 13.0
        assert under_way.now() == [Running("first", 3.0), Running("later", 1.0)]
    under_way.end("late")
    under_way.end("never")
    assert under_way.now() == []
