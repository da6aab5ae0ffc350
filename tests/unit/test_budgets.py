"""What uses a budget up, and what is told of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.rules.budgets import FEWEST_ENDED, Budgets, ErrorLimit, parse_seconds


def record(verdict: str, cost: float | None = None, **values: Any) -> dict[str, Any]:
    usage = {} if cost is None else {"cost_usd": cost}
    return {"verdict": verdict, "usage": usage, **values}


def used_up(budgets: Budgets, *records: dict[str, Any]) -> list[int]:
    """Return after which of the records, from 1, a budget was used up."""
    return [number for number, each in enumerate(records, start=1) if budgets.count(each)]


@pytest.mark.parametrize(
    ("limit", "verdicts", "after"),
    [
        ("1", "pe", [2]),
        ("2", "epe", [3]),
        ("2", "epp", []),
        ("2", "efse", [4]),
        ("50%", "e" * FEWEST_ENDED, [FEWEST_ENDED]),
        ("50%", "e" * (FEWEST_ENDED - 1), []),
        ("50%", "e" * (FEWEST_ENDED - 1) + "s" * 5, []),  # what is skipped has not ended
        ("50%", "eeeepppppp" + "ee", [12]),
        ("100%", "e" * 9 + "p" + "e" * 9, []),
        ("0.5%", "p" * 199 + "e", [200]),
    ],
)
def test_errors_use_their_budget_up(limit: str, verdicts: str, after: list[int]) -> None:
    words = {"p": "passed", "f": "failed", "e": "error", "s": "skipped"}
    budgets = Budgets(cost=None, errors=ErrorLimit.parse(limit))
    found = used_up(budgets, *(record(words[letter]) for letter in verdicts))
    assert found[:1] == after


def test_an_error_in_quarantine_is_none_that_counts() -> None:
    budgets = Budgets(cost=None, errors=ErrorLimit(number=1))
    assert not budgets.count(record("error", quarantine={"reason": "known"}))
    assert budgets.count(record("error", quarantine=None))


def test_money_is_counted_by_what_agents_say_whatever_came_of_it() -> None:
    budgets = Budgets(cost=1.0, errors=None)
    rows = [record("passed", 0.4), record("error", 0.3), record("failed"), record("skipped", 0.3)]
    assert used_up(budgets, *rows) == [4]
    assert budgets.cost == pytest.approx(1.0)


def test_earlier_tries_cost_too() -> None:
    budgets = Budgets(cost=1.0, errors=None)
    why = budgets.count(record("passed", 0.4, tries=[{"usage": {"cost_usd": 0.7}}]))
    assert why == "the cost budget of 1 USD is used up: 1.10 USD by usage.cost_usd (--rlenv-max-cost)"


def test_what_is_run_again_costs_and_is_no_error() -> None:
    budgets = Budgets(cost=1.0, errors=ErrorLimit(number=1))
    assert not budgets.count(record("error", 0.6), rerun=True)
    assert budgets.count(record("passed", 0.6))
    assert budgets.cost == pytest.approx(1.2)


def test_what_says_no_cost_is_not_taken_to_be_free() -> None:
    budgets = Budgets(cost=1.0, errors=None)
    assert not budgets.count(record("passed"))
    assert budgets.cost is None


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("1", "there was 1 error (--rlenv-max-errors 1)"),
        ("5%", "10 of 10 rollouts were errors (--rlenv-max-errors 5%)"),
    ],
)
def test_the_reason(limit: str, words: str) -> None:
    budgets = Budgets(cost=None, errors=ErrorLimit.parse(limit))
    reasons = [budgets.count(record("error")) for _ in range(10)]
    assert words in reasons


def test_several_errors_are_counted() -> None:
    budgets = Budgets(cost=None, errors=ErrorLimit(number=2))
    reasons = [budgets.count(record("error")) for _ in range(2)]
    assert reasons == [None, "there were 2 errors (--rlenv-max-errors 2)"]


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "0%", "101%", "%", "nan%", "1.5", "5 %%", "inf%"])
def test_what_is_no_error_limit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is neither a number of errors such as 5 nor a share"):
        ErrorLimit.parse(text)


@given(st.text(max_size=8))
def test_any_text_is_an_error_limit_or_refused(text: str) -> None:
    try:
        found = ErrorLimit.parse(text)
    except ValueError:
        return
    assert (found.number is None) != (found.share is None)
    assert found.number is None or found.number >= 1
    assert found.share is None or 0 < found.share <= 1


@pytest.mark.parametrize(
    ("given_", "seconds"), [("90", 90), ("1.5", 1.5), ("30m", 1800), ("2h", 7200), (90, 90)]
)
def test_seconds_may_have_a_unit(given_: object, seconds: float) -> None:
    assert parse_seconds(given_) == seconds


def test_other_words_are_no_seconds() -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_seconds("soon")
