"""The verdict table of the design, row by row."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.errors import HealthcheckFailed, SpecError, VerifierTimeout
from pytest_rlenv.rollout import ErrorInfo, Rollout
from pytest_rlenv.verdict import Expectation, Outcome, expectation_for, judge, number

AT_LEAST_1 = expectation_for(must_not_score=False, threshold=1.0)
BELOW_1 = expectation_for(must_not_score=True, threshold=1.0)


def rollout(agent: str = "oracle", **values: object) -> Rollout:
    return Rollout(environment="org/repo", framework="harbor", task="t", agent=agent, **values)


@pytest.mark.parametrize(
    ("rewards", "agent", "expected", "outcome", "words"),
    [
        ({"reward": 1.0}, "oracle", AT_LEAST_1, Outcome.PASSED, ""),
        ({"reward": 7.0}, "oracle", AT_LEAST_1, Outcome.PASSED, ""),
        ({"reward": 0.4}, "oracle", AT_LEAST_1, Outcome.FAILED, "reward 0.4 < 1.0"),
        ({"reward": 0.0}, "oracle", AT_LEAST_1, Outcome.FAILED, "reward 0.0 < 1.0"),
        ({"reward": -2.5}, "oracle", AT_LEAST_1, Outcome.FAILED, "reward -2.5 < 1.0"),
        ({"reward": 0.0}, "nop", BELOW_1, Outcome.PASSED, ""),
        ({"reward": 0.6}, "nop", BELOW_1, Outcome.PASSED, ""),
        ({"reward": 1.0}, "nop", BELOW_1, Outcome.FAILED, "doing nothing scores: nop got reward 1.0 >= 1.0"),
        ({"accuracy": 1.0}, "oracle", AT_LEAST_1, Outcome.PASSED, ""),
        ({"reward": 1.0, "speed": 0.1}, "oracle", AT_LEAST_1, Outcome.PASSED, ""),
        ({"a": 1.0, "b": 1.0}, "oracle", AT_LEAST_1, Outcome.ERROR, "a = 1.0, b = 1.0"),
        ({}, "oracle", AT_LEAST_1, Outcome.ERROR, "without a reward"),
        (None, "oracle", AT_LEAST_1, Outcome.ERROR, "without a reward"),
        (None, "nop", BELOW_1, Outcome.ERROR, "without a reward"),
    ],
)
def test_a_reward_is_judged(
    rewards: dict[str, float] | None, agent: str, expected: Expectation, outcome: Outcome, words: str
) -> None:
    verdict = judge(rollout(agent, rewards=rewards), expected)
    assert verdict.outcome is outcome
    assert words in verdict.message
    assert (verdict.error is not None) == (outcome is Outcome.ERROR)


@pytest.mark.parametrize("error", [HealthcheckFailed("never healthy"), VerifierTimeout("out of time")])
@pytest.mark.parametrize("rewards", [None, {"reward": 1.0}])
def test_an_error_stays_an_error_whatever_was_written(
    error: HealthcheckFailed | VerifierTimeout, rewards: dict[str, float] | None
) -> None:
    judged = rollout(error=ErrorInfo.of(error), rewards=rewards)
    assert judge(judged, AT_LEAST_1).outcome is Outcome.ERROR
    assert judged.reward is None
    assert judged.as_record()["reward"] is None


def test_a_skip_is_a_skip() -> None:
    verdict = judge(rollout(skip_reason="needs a GPU"), AT_LEAST_1)
    assert (verdict.outcome, verdict.message) == (Outcome.SKIPPED, "needs a GPU")


@pytest.mark.parametrize(
    ("reward", "outcome"),
    [(0.0, Outcome.FAILED), (1.0, Outcome.PASSED), (1.5, Outcome.ERROR), (-0.1, Outcome.ERROR)],
)
def test_a_reward_outside_the_declared_range_breaks_the_contract(reward: float, outcome: Outcome) -> None:
    expected = Expectation(reward_range=(0.0, 1.0))
    verdict = judge(rollout(rewards={"reward": reward}), expected)
    assert verdict.outcome is outcome
    if outcome is Outcome.ERROR:
        assert verdict.error is not None
        assert verdict.error.type == "RewardContractBroken"
        assert "reward contract" in verdict.message


def test_a_chosen_key_is_judged() -> None:
    judged = rollout(rewards={"reward": 0.0, "accuracy": 1.0}, reward_key="accuracy")
    assert judge(judged, AT_LEAST_1).outcome is Outcome.PASSED
    missing = judge(rollout(rewards={"reward": 1.0}, reward_key="accuracy"), AT_LEAST_1)
    assert missing.outcome is Outcome.ERROR
    assert "no reward is called 'accuracy': reward = 1.0" in missing.message


@pytest.mark.parametrize(
    ("text", "operator", "value", "key"),
    [
        (">= 0.55", ">=", 0.55, None),
        ("<=0.6", "<=", 0.6, None),
        ("accuracy >= 0.9", ">=", 0.9, "accuracy"),
        ("  < 1 ", "<", 1.0, None),
        ("pass rate == 1e0", "==", 1.0, "pass rate"),
    ],
)
def test_expectations_are_read(text: str, operator: str, value: float, key: str | None) -> None:
    found = Expectation.parse(text, source="here")
    assert (found.operator, found.value, found.key) == (operator, value, key)


@pytest.mark.parametrize("text", ["", "0.5", ">= high", ">= nan", ">= inf", "=> 1", ">= 1 2", "!= 1"])
def test_what_is_no_expectation_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="is not an expectation"):
        Expectation.parse(text, source="here")


@pytest.mark.parametrize(
    ("text", "bounds", "key", "described"),
    [
        ("0.4 <= reward <= 0.6", [(">=", 0.4), ("<=", 0.6)], None, "0.4 <= reward <= 0.6"),
        ("0.6 >= reward >= 0.4", [(">=", 0.4), ("<=", 0.6)], None, "0.4 <= reward <= 0.6"),
        ("0<accuracy<1", [(">", 0.0), ("<", 1.0)], "accuracy", "0.0 < accuracy < 1.0"),
        (" -1 < pass rate <= 1e0 ", [(">", -1.0), ("<=", 1.0)], "pass rate", "-1.0 < pass rate <= 1.0"),
        ("0.5 <= reward <= 0.5", [(">=", 0.5), ("<=", 0.5)], None, "0.5 <= reward <= 0.5"),
    ],
)
def test_two_bounds_are_read(
    text: str, bounds: list[tuple[str, float]], key: str | None, described: str
) -> None:
    found = Expectation.parse(text, source="here")
    assert (list(found.bounds), found.key) == (bounds, key)
    assert found.describe() == described
    assert Expectation.parse(described, source="here") == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0.4 <= <= 0.6", "is not an expectation"),
        ("0.4 <= reward", "is not an expectation"),
        ("0.4 <= reward >= 0.6", "is not an expectation"),
        ("0.4 == reward <= 0.6", "is not an expectation"),
        ("low <= reward <= 0.6", "is not an expectation"),
        ("0.4 <= reward <= inf", "is not an expectation"),
        ("0.4 <= reward <= 0.6 <= 1", "is not an expectation"),
        ("0.6 <= reward <= 0.4", "no reward can meet"),
        ("0.5 < reward <= 0.5", "no reward can meet"),
    ],
)
def test_two_bounds_of_another_form_are_refused(text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        Expectation.parse(text, source="here")


@pytest.mark.parametrize(
    ("text", "reward", "message"),
    [
        ("0.4 <= reward <= 0.6", 0.4, ""),
        ("0.4 <= reward <= 0.6", 0.6, ""),
        ("0.4 < reward < 0.6", 0.4, "reward 0.4 <= 0.4 (expected 0.4 < reward < 0.6 by here)"),
        ("0.4 <= reward <= 0.6", 0.39, "reward 0.39 < 0.4 (expected 0.4 <= reward <= 0.6 by here)"),
        ("0.4 <= reward <= 0.6", 0.7, "reward 0.7 > 0.6 (expected 0.4 <= reward <= 0.6 by here)"),
        ("0.4 < reward < 0.6", 0.6, "reward 0.6 >= 0.6 (expected 0.4 < reward < 0.6 by here)"),
    ],
)
def test_a_reward_is_judged_by_both_bounds(text: str, reward: float, message: str) -> None:
    verdict = judge(rollout(rewards={"reward": reward}), Expectation.parse(text, source="here"))
    assert verdict.message == message
    assert verdict.outcome is (Outcome.FAILED if message else Outcome.PASSED)


@pytest.mark.parametrize(("agent", "who"), [("nop", "doing nothing scores: nop got "), ("oracle", "")])
def test_above_the_upper_bound_is_doing_nothing_that_scores(agent: str, who: str) -> None:
    expected = Expectation.parse("0.1 <= reward <= 0.6", source="here")
    assert judge(rollout(agent, rewards={"reward": 1.0}), expected).message.startswith(f"{who}reward 1.0 >")
    assert judge(rollout(agent, rewards={"reward": 0.0}), expected).message.startswith("reward 0.0 < 0.1")


@given(st.text())
def test_any_text_is_an_expectation_or_refused(text: str) -> None:
    try:
        found = Expectation.parse(text, source="here")
    except SpecError:
        return
    assert math.isfinite(found.value)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_told_apart(a: float, b: float) -> None:
    assert float(number(a)) == a
    if a != 0 or b != 0:  # 0.0 and -0.0 are equal, and told apart all the same
        assert (number(a) == number(b)) == (a == b)


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([">=", "<=", ">", "<", "=="]))
def test_the_verdict_follows_the_operator(reward: float, operator: str) -> None:
    expected = Expectation(operator, 0.5)
    verdict = judge(rollout(rewards={"reward": reward}), expected)
    assert (verdict.outcome is Outcome.PASSED) == eval(f"reward {operator} 0.5", {"reward": reward})
