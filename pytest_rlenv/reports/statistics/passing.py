"""Passing in k tries: at least once (pass@k), or every time (pass^k)."""

from __future__ import annotations

from math import comb


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the unbiased estimate of the chance that at least one of k attempts passes.

    It is the share of all choices of k attempts of the n that hold a passing one, not ``1 - (1 - c/n)**k``,
    which is too high.

    Args:
        n: attempts that were scored.
        c: those that passed.
        k: how many tries are asked about.

    Raises:
        ValueError: there are fewer than k attempts, or more passed than there are.
    """
    _check(n, c, k)
    return (comb(n, k) - comb(n - c, k)) / comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Return the unbiased estimate of the chance that all of k attempts pass (pass^k).

    Arguments and errors are those of :func:`pass_at_k`.
    """
    _check(n, c, k)
    return comb(c, k) / comb(n, k)


def _check(n: int, c: int, k: int) -> None:
    if not 0 <= c <= n:
        raise ValueError(f"{c} of {n} attempts passed")
    if not 1 <= k <= n:
        raise ValueError(f"k is {k}, and there are {n} attempts")
