"""Two runs of the same tasks: has the reward moved by more than chance, and how small a move could be seen.

The unit is the task. Attempts are averaged within their task before anything here sees them: they are not
independent of each other, and a task that was tried often must not count more.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from statistics import NormalDist, fmean

from pytest_rlenv.reports.statistics.intervals import two_sided_t, two_sided_z

EXACT = 1 << 16
"""Up to so many different sums, all ways to swap the two runs are counted; above, some are drawn."""
MANY = 500
"""With more sizes of moves than this the sum is normal for all that matters, and drawing only takes time."""
SQUARES = 1e100
"""Rewards larger than this are compared in units of their range: sums of their squares are infinite."""
POWER = 0.8
"""How surely an effect is to be seen, to be called detectable."""


class Change(str, Enum):
    """What a comparison says."""

    REGRESSION = "regression"
    """The reward fell, by more than chance explains."""
    NO_REGRESSION = "no regression"
    """A claim: there is no sign of a fall, and one of the margin or more is ruled out."""
    INCONCLUSIVE = "inconclusive"
    """Neither: too few tasks or attempts, or too much noise, to tell."""


@dataclass(frozen=True)
class Effect:
    """How far the mean reward over tasks moved from the baseline to the run.

    Attributes:
        tasks: tasks that were compared.
        difference: mean reward of the run less that of the baseline.
        low, high: the interval of the difference.
        level: of the interval; what it leaves is the risk of a false alarm.
        p: how probable a move of this size or more is, in either direction, if there is none.
        detectable: the smallest fall that so many tasks with this noise show with a power of 80 %; ``None``
            where they would show none at all.
        margin: the fall that "no regression" rules out.
        verdict: what follows.
    """

    tasks: int
    difference: float
    low: float
    high: float
    level: float
    p: float
    detectable: float | None
    margin: float
    verdict: Change

    def times(self, scale: float) -> Effect:
        """Return it for rewards so many times as large."""
        return replace(
            self,
            difference=self.difference * scale,
            low=self.low * scale,
            high=self.high * scale,
            detectable=None if self.detectable is None else self.detectable * scale,
            margin=self.margin * scale,
        )


def mcnemar(fixed: int, broken: int) -> float:
    """Return the exact two-sided p of McNemar's test: were as many tasks broken as fixed, but for chance?

    Args:
        fixed: pairs that passed only in the run.
        broken: pairs that passed only in the baseline.
    """
    if min(fixed, broken) < 0:
        raise ValueError(f"{fixed} fixed, {broken} broken")
    count = fixed + broken
    tail = sum(islice(_choices(count), min(fixed, broken) + 1))
    return min(1.0, 2 * tail / (1 << count))


def _choices(count: int) -> Iterator[int]:
    """Yield in how many ways 0, 1, 2 ... of so many can be chosen, each made from the one before."""
    ways = 1
    for chosen in range(count + 1):
        yield ways
        ways = ways * (count - chosen) // (chosen + 1)


def sign_flip(differences: Sequence[float], resamples: int = 10_000, seed: int = 0) -> float:
    """Return the two-sided p of the paired permutation test: does the mean difference leave 0?

    If nothing changed, either run's reward could as well have been the other's. Moves that are all of one
    size make it McNemar's test.

    Args:
        differences: run less baseline, one for each task.
        resamples: how many ways to swap are drawn where :data:`EXACT` is passed.
        seed: of the draw; the same seed gives the same p.
    """
    moved = [round(each, 12) for each in differences]  # 0.3 - 0.2 and 0.2 - 0.1 are moves of one size
    sizes = Counter(abs(each) for each in moved if each != 0)
    if len(sizes) <= 1:
        return mcnemar(sum(each > 0 for each in moved), sum(each < 0 for each in moved))
    seen = abs(math.fsum(moved))
    if len(sizes) > MANY:
        spread = math.sqrt(math.fsum(each * each for each in moved))
        return 2 * NormalDist().cdf(-seen / spread)
    least = seen - 1e-9 * max(sizes)  # what rounding does to equal sums must not part them
    exact = _share_as_far(sizes, least)
    if exact is not None:
        return exact
    rng = random.Random(seed)
    as_far = sum(abs(_swapped(sizes, rng)) >= least for _ in range(resamples))
    return (as_far + 1) / (resamples + 1)


def _share_as_far(sizes: Mapping[float, int], least: float) -> float | None:
    """Return the share of all ways to swap whose sum is as far from 0; ``None`` if there are too many.

    Moves of one size are counted together: rewards of few attempts have few sizes, however many tasks moved.
    """
    ways: Counter[float] = Counter({0.0: 1})
    for size, many in sizes.items():
        if len(ways) * (many + 1) > EXACT:
            return None
        chosen = list(_choices(many))
        longer: Counter[float] = Counter()
        for total, count in ways.items():
            for rising, choices in enumerate(chosen):
                longer[round(total + size * (2 * rising - many), 9)] += count * choices
        ways = longer
    return sum(count for total, count in ways.items() if abs(total) >= least) / ways.total()


def _swapped(sizes: Mapping[float, int], rng: random.Random) -> float:
    """Return the sum with the two runs of each task swapped at random."""
    return sum(size * (2 * rng.getrandbits(many).bit_count() - many) for size, many in sizes.items())


def compare(
    differences: Sequence[float], *, margin: float, level: float = 0.95, scale: float = 1.0
) -> Effect | None:
    """Compare two runs by their tasks' differences, run less baseline; ``None`` if there are none.

    Args:
        differences: one for each task, of the rewards averaged over attempts.
        margin: a fall of this size or more is ruled out before "no regression" is said.
        level: of the interval and of the test.
        scale: how far a reward can move at most: 1 for rewards from 0 to 1.
    """
    if not differences:
        return None
    if scale > SQUARES:
        found = compare([each / scale for each in differences], margin=margin / scale, level=level)
        return found and found.times(scale)
    difference = fmean(differences)
    low, high = interval(differences, level=level, scale=scale)
    p = sign_flip(differences)
    if difference < 0 and p <= 1 - level:
        verdict = Change.REGRESSION
    elif low > -margin:
        verdict = Change.NO_REGRESSION
    else:
        verdict = Change.INCONCLUSIVE
    least = detectable(differences, level=level, scale=scale)
    return Effect(len(differences), difference, low, high, level, p, least, margin, verdict)


def interval(differences: Sequence[float], *, level: float = 0.95, scale: float = 1.0) -> tuple[float, float]:
    """Return an interval of the mean difference that stays honest where few tasks moved, or none.

    A task that fell and one that rose as far are added, at half weight each, and one that did not move: for
    verdicts this is the interval of Agresti and Min (2005) for matched pairs. Without them twenty tasks that
    did not move would have an interval of no width, and prove that no task ever will.
    """
    count = len(differences)
    if count == 1:
        return -scale, scale
    jump = _jump(differences, level=level, scale=scale)
    total = count + 2
    mean = math.fsum(differences) / total
    square = (math.fsum(each * each for each in differences) + jump * jump) / total
    half = two_sided_t(level, count - 1) * math.sqrt(max(square - mean * mean, 0.0) / total)
    return max(mean - half, -scale), min(mean + half, scale)


def _jump(differences: Sequence[float], *, level: float, scale: float) -> float:
    """Return how far an unseen task may move: as far as those seen, if enough moved to judge by, else all."""
    moved = [abs(each) for each in differences if each != 0]
    return max(moved) if len(moved) >= fewest(level) else scale


def fewest(level: float = 0.95) -> int:
    """Return how many tasks must move, all in one direction, for any test to call it more than chance."""
    return math.ceil(1 - math.log2(1 - level))


def detectable(differences: Sequence[float], *, level: float = 0.95, scale: float = 1.0) -> float | None:
    """Return the smallest fall of the mean reward that would be seen with a power of 80 %.

    The tasks keep the scatter that they showed, and some of them fall as far as a task can: Connor's (1987)
    formula for McNemar's test, with the scatter of rewards in the place of the discordant pairs, and no less
    than makes the fewest tasks fall that the test needs.

    Returns:
        The fall, above 0; ``None`` where so few tasks cannot show even the greatest.
    """
    count = len(differences)
    if count < fewest(level):
        return None
    mean = fmean(differences)
    noise = math.fsum((each - mean) ** 2 for each in differences) / (count - 1)
    jump = _jump(differences, level=level, scale=scale)
    z_test, z_power = two_sided_z(level), NormalDist().inv_cdf(POWER)

    def seen(fall: float) -> bool:
        if _at_least(fewest(level), count, min(fall / jump, 1.0)) < POWER:
            return False
        square = noise + jump * fall
        spread = z_test * math.sqrt(square) + z_power * math.sqrt(max(square - fall * fall, 0.0))
        return fall * math.sqrt(count) >= spread

    if not seen(scale):
        return None
    low, high = 0.0, scale
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if seen(middle) else (middle, high)
    return high


def _at_least(least: int, count: int, chance: float) -> float:
    """Return how probable so many of ``count`` are, if each has this chance."""
    fewer = (math.comb(count, i) * chance**i * (1 - chance) ** (count - i) for i in range(least))
    return 1 - math.fsum(fewer)
