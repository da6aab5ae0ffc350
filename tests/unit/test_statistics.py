"""The statistics against scipy's, and against rules that they must keep."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from pytest_rlenv.reports.statistics import intervals, paired, passing
from pytest_rlenv.reports.statistics.paired import Change


@pytest.mark.parametrize(("successes", "n"), [(0, 1), (1, 1), (0, 20), (3, 8), (20, 20), (510, 1000)])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_wilson_is_scipys(successes: int, n: int, level: float) -> None:
    theirs = scipy_stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    assert intervals.wilson(successes, n, level) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_of_no_tries_nothing_is_known() -> None:
    assert intervals.wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: intervals.wilson(2, 1),
        lambda: intervals.wilson(-1, 1),
        lambda: intervals.wilson(1, 2, level=1.0),
        lambda: intervals.bootstrap_mean([]),
        lambda: intervals.bootstrap_mean([0.0, 1.0], level=0.0),
        lambda: intervals.two_sided_t(0.95, 0),
        lambda: passing.pass_at_k(3, 4, 1),
        lambda: passing.pass_at_k(3, 1, 4),
        lambda: passing.pass_hat_k(3, 1, 0),
        lambda: paired.mcnemar(-1, 2),
    ],
)
def test_what_cannot_be_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        call()


@pytest.mark.parametrize(
    "values", [[0.0] * 12 + [1.0] * 8, [i / 37 for i in range(38)], [0.1, 0.1, 0.9, 0.4, 1.0, 0.3]]
)
def test_bootstrap_is_scipys(values: list[float]) -> None:
    theirs = scipy_stats.bootstrap(
        (values,), lambda x, axis: x.mean(axis=axis), n_resamples=5000, method="percentile", rng=1
    ).confidence_interval
    ours = intervals.bootstrap_mean(values, resamples=5000)
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.025)
    assert ours == intervals.bootstrap_mean(values, resamples=5000), "the same values, another interval"


def test_bootstrap_of_many_values_is_where_resampling_would_end() -> None:
    values = [(i % 10) / 9 for i in range(2001)]
    few = intervals.bootstrap_mean(values[:2000], resamples=600)
    assert intervals.bootstrap_mean(values) == pytest.approx(few, abs=0.004)


def test_bootstrap_of_what_does_not_scatter_is_the_mean() -> None:
    assert intervals.bootstrap_mean([0.3]) == (0.3, 0.3)
    assert intervals.bootstrap_mean([0.5] * 9) == (0.5, 0.5)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 20, 200])
@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_t_is_scipys(freedom: int, level: float) -> None:
    theirs = scipy_stats.t.ppf((1 + level) / 2, freedom)
    assert intervals.two_sided_t(level, freedom) == pytest.approx(theirs, rel=0.012)


@pytest.mark.parametrize(
    ("n", "c", "k", "at_k", "hat_k"),
    [
        (5, 0, 3, 0.0, 0.0),
        (5, 5, 3, 1.0, 1.0),
        (5, 2, 1, 0.4, 0.4),
        (5, 2, 2, 0.7, 0.1),  # 10 pairs: 3 hold no passing one, 1 holds none that failed
        (5, 3, 3, 1.0, 0.1),
        (10, 1, 10, 1.0, 0.0),
    ],
)
def test_pass_at_k(n: int, c: int, k: int, at_k: float, hat_k: float) -> None:
    assert passing.pass_at_k(n, c, k) == pytest.approx(at_k)
    assert passing.pass_hat_k(n, c, k) == pytest.approx(hat_k)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_what_scipy_says_of_draws_without_return(case: tuple[int, int, int]) -> None:
    n, c, k = case
    drawn = scipy_stats.hypergeom(n, c, k)
    assert passing.pass_at_k(n, c, k) == pytest.approx(1 - drawn.pmf(0), abs=1e-9)
    assert passing.pass_hat_k(n, c, k) == pytest.approx(drawn.pmf(k), abs=1e-9)


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_scipys(fixed: int, broken: int) -> None:
    theirs = scipy_stats.binomtest(fixed, fixed + broken).pvalue if fixed + broken else 1.0
    assert paired.mcnemar(fixed, broken) == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize(
    "differences",
    [
        [1.0, -1.0, -1.0, 0.0, -1.0],
        [0.2, -0.1, 0.4, 0.05, -0.3, 0.7, 0.25],
        [0.3 - 0.2, 0.2 - 0.1, -0.7, 0.5],
        [-0.5] * 6 + [0.25] * 3 + [0.0] * 4,
    ],
)
def test_sign_flip_is_scipys_where_all_ways_are_counted(differences: list[float]) -> None:
    theirs = scipy_stats.permutation_test(
        (differences,), lambda x, axis: x.sum(axis=axis), permutation_type="samples", n_resamples=math.inf
    ).pvalue
    assert paired.sign_flip(differences) == pytest.approx(theirs, abs=1e-9)


def test_sign_flip_is_near_scipys_where_ways_are_drawn() -> None:
    differences = [((i * 37) % 19 - 8) / 19 for i in range(40)]
    theirs = scipy_stats.permutation_test(
        (differences,),
        lambda x, axis: x.sum(axis=axis),
        permutation_type="samples",
        n_resamples=10_000,
        rng=3,
    ).pvalue
    assert paired.sign_flip(differences) == pytest.approx(theirs, abs=0.02)
    assert paired.sign_flip(differences) == paired.sign_flip(differences)


def test_sign_flip_of_very_many_is_where_drawing_would_end() -> None:
    differences = [((i * 7919) % 1009 - 480) / 1009 for i in range(900)]
    theirs = scipy_stats.wilcoxon(differences).pvalue  # another test of the same question
    ours = paired.sign_flip(differences)
    assert ours == pytest.approx(theirs, abs=0.05)


def test_runs_of_very_many_tasks_are_compared_in_no_time() -> None:
    """Exact numbers of 10,000 tasks have 3,000 digits, which must not be made anew for each term."""
    theirs = scipy_stats.binomtest(4900, 10_000).pvalue
    assert paired.mcnemar(4900, 5100) == pytest.approx(theirs, rel=1e-6)
    assert paired.sign_flip([1.0] * 4900 + [-1.0] * 5100) == pytest.approx(theirs, rel=1e-6)
    assert paired.sign_flip([0.5] * 2500 + [1.0] * 2400 + [-1.0] * 5100) < 0.001


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=60))
def test_sign_flip_of_verdicts_is_mcnemar(differences: list[float]) -> None:
    expected = paired.mcnemar(differences.count(1.0), differences.count(-1.0))
    assert paired.sign_flip(differences) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("differences", "margin", "verdict"),
    [
        # six tasks must fall and none rise before it is more than chance
        ([-1.0] * 5 + [0.0] * 95, 0.05, Change.INCONCLUSIVE),
        ([-1.0] * 6 + [0.0] * 94, 0.05, Change.REGRESSION),
        ([-1.0] * 6, 0.05, Change.REGRESSION),
        ([-1.0] * 5, 0.05, Change.INCONCLUSIVE),
        # nothing moved: whether that rules out a fall depends on how many tasks there are
        ([0.0] * 5, 0.05, Change.INCONCLUSIVE),
        ([0.0] * 20, 0.05, Change.INCONCLUSIVE),
        ([0.0] * 20, 0.2, Change.NO_REGRESSION),
        ([0.0] * 50, 0.05, Change.NO_REGRESSION),
        ([0.0], 0.99, Change.INCONCLUSIVE),
        # a rise is no regression, once it is sure enough
        ([1.0] * 10 + [0.0] * 10, 0.05, Change.NO_REGRESSION),
        # small falls of every task, where rewards are no verdicts
        ([-0.1, -0.12, -0.09, -0.1, -0.11, -0.1, -0.08, -0.1], 0.05, Change.REGRESSION),
        ([0.01, -0.02, 0.015, -0.01, 0.02, -0.015, 0.01, 0.0, -0.01, 0.01], 0.05, Change.NO_REGRESSION),
    ],
)
def test_verdict(differences: list[float], margin: float, verdict: Change) -> None:
    effect = paired.compare(differences, margin=margin)
    assert effect is not None
    assert effect.verdict is verdict
    assert effect.low <= effect.high


def test_nothing_to_compare_gives_no_effect() -> None:
    assert paired.compare([], margin=0.05) is None


@pytest.mark.parametrize(
    ("differences", "scale"),
    [([0.0] * 30, 1.0), ([0.0] * 30, 10.0), ([-3.0, 4.0, 0.0, 0.0], 10.0), ([1.0], 1.0), ([-1.0, 1.0], 1.0)],
)
def test_interval_has_width_and_stays_possible(differences: list[float], scale: float) -> None:
    low, high = paired.interval(differences, scale=scale)
    assert -scale <= low < high <= scale


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40))
def test_interval_mirrors_its_differences(differences: list[float]) -> None:
    low, high = paired.interval(differences)
    assert paired.interval([-each for each in differences]) == pytest.approx((-high, -low), abs=1e-9)


def test_interval_of_verdicts_is_agresti_and_mins() -> None:
    differences = [-1.0] * 14 + [1.0] * 3 + [0.0] * 183
    low, high = paired.interval(differences)
    n, centre = 202, -11 / 202
    half = math.sqrt((18 / n - centre**2) / n) * 1.972  # t with 199 degrees of freedom
    assert (low, high) == pytest.approx((centre - half, centre + half), abs=2e-4)


@pytest.mark.parametrize(
    ("tasks", "detectable"), [(5, None), (6, 0.963), (10, 0.69), (50, 0.155), (100, 0.078), (1000, 0.0079)]
)
def test_detectable_where_nothing_scatters_is_a_matter_of_counting(
    tasks: int, detectable: float | None
) -> None:
    found = paired.detectable([0.0] * tasks)
    assert found == (None if detectable is None else pytest.approx(detectable, rel=0.05))


@pytest.mark.parametrize("tasks", [6, 20, 50, 200])
def test_detectable_is_seen_with_a_power_of_80_percent(tasks: int) -> None:
    fall = paired.detectable([0.0] * tasks)
    assert fall is not None
    broken = scipy_stats.binom(tasks, fall)
    assert 1 - broken.cdf(paired.fewest() - 1) == pytest.approx(0.8, abs=0.02)


def test_more_noise_hides_more() -> None:
    quiet = paired.detectable([0.1, -0.1] * 20)
    loud = paired.detectable([1.0, -1.0] * 20)
    assert quiet is not None
    assert loud is not None
    assert quiet < loud / 4


@pytest.mark.parametrize("moves", [[-1.0] * 8, [1.0, -0.5, 0.0], [0.25]])
def test_huge_rewards_are_compared_as_others_are(moves: list[float]) -> None:
    huge = 2.0**1000
    usual = paired.compare(moves, margin=0.05)
    found = paired.compare([each * huge for each in moves], margin=0.05 * huge, scale=huge)
    assert usual is not None
    assert found == usual.times(huge)
