"""Intervals: what a share or a mean may be, given how little of it was seen."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import NormalDist, fmean, pstdev

MANY = 2000
"""Above so many values the mean is normal for all that a report shows, and resampling only takes time."""


def wilson(successes: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a share.

    Args:
        successes: how many of ``n``.
        n: how many were tried; of none, nothing is known: (0, 1).
        level: the share of such intervals that hold the truth.

    Raises:
        ValueError: there are more successes than tries, or the level is not between 0 and 1.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}")
    z = two_sided_z(level)
    if n == 0:
        return 0.0, 1.0
    share = successes / n
    centre = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # at the ends the formula is exactly 0 or 1, which rounding would miss by a hair
    low = 0.0 if successes == 0 else (centre - half) / scale
    high = 1.0 if successes == n else (centre + half) / scale
    return low, high


def bootstrap_mean(
    values: Sequence[float], level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of a mean; the same values give the same interval.

    One value, or values that are all equal, say nothing of how they scatter: both ends are the mean.
    Of more than :data:`MANY` values the normal interval is returned, which is the same by then.

    Raises:
        ValueError: there are no values, or the level is not between 0 and 1.
    """
    if not values:
        raise ValueError("the mean of no values")
    z = two_sided_z(level)
    mean = fmean(values)
    if min(values) == max(values):
        return mean, mean
    if len(values) > MANY:
        half = z * pstdev(values) / math.sqrt(len(values))
        return mean - half, mean + half
    rng = random.Random(seed)
    count = len(values)
    means = sorted(sum(rng.choices(values, k=count)) / count for _ in range(resamples))
    return quantile(means, (1 - level) / 2), quantile(means, (1 + level) / 2)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of values in ascending order, between two of them where it falls there."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def two_sided_z(level: float) -> float:
    """Return how many standard errors an interval of this level reaches to either side.

    Raises:
        ValueError: the level is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"a level between 0 and 1 is needed, not {level}")
    return NormalDist().inv_cdf((1 + level) / 2)


def two_sided_t(level: float, freedom: int) -> float:
    """Return :func:`two_sided_z` for a spread that is itself estimated, with so many degrees of freedom.

    Exact for one and two; for more, the expansion of Cornish and Fisher, within 1 % from three on.

    Raises:
        ValueError: the level is not between 0 and 1, or there is no degree of freedom.
    """
    z = two_sided_z(level)
    if freedom < 1:
        raise ValueError(f"{freedom} degrees of freedom")
    if freedom == 1:
        return math.tan(math.pi * level / 2)
    if freedom == 2:
        return level * math.sqrt(2 / (1 - level * level))
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
