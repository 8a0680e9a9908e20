r"""From losses on folds that were left out to a bound of the mean risk of their predictors.

The setting (theorem 5 of docs/bounds.md): for each of Q folds and each of N candidates a predictor
that has not seen the fold. A row loses between 0 and 1, or is wrong or not. However the folds
depend on each other:

.. math::
    \max_q c_q(R_q) \le \log(QN / \delta) \quad\text{where } Q \le 2, \text{ otherwise}\quad
    \frac1Q \sum_q c_q(R_q) \le \log(\kappa_Q N / \delta),

with probability at least :math:`1 - \delta`, where :math:`c_q` is the cost that an inequality for
one fold has, and :math:`\kappa_Q < e` the price of unknown dependence (`dependence_factor`). Which
of the two is taken follows from Q alone, so that nothing is paid for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from kpp._typing import FloatArray
from kpp.bounds.binomial import checked_counts, held_out_binomial, tail_cost, tail_slope
from kpp.bounds.kl import binary_kl, kl_inverse
from kpp.bounds.results import check_delta

# Above so many folds the mean of their costs is cheaper than the largest: its factor is below Q.
MOST_ONE_BY_ONE = 2
N_BISECTIONS = 55
MOST_SLOPE = 1e18


def folds_kl(
    mean_losses: Any, fold_sizes: Any, *, n_candidates: int = 1, delta: float = 0.05
) -> float:
    r"""Bound the mean risk of the predictors of folds, each of which has not seen its fold.

    .. math::
        \frac1Q \sum_q R_q \le \max \Bigl\{ \frac1Q \sum_q p_q :
        \frac1Q \sum_q n_q\, \mathrm{kl}(\hat R_q \,\|\, p_q) \le \log \frac{\kappa_Q N}{\delta},\;
        p_q \ge \hat R_q \Bigr\}

    for the candidate that was chosen among N, with probability at least 1 - delta. Of one or two
    folds each is bounded alone, by :math:`\mathrm{kl}^{-1}(\hat R_q, \log(QN/\delta) / n_q)`.

    Parameters
    ----------
    mean_losses : array of shape (n_folds,)
        :math:`\hat R_q`: mean loss of a row of each fold, in [0, 1], by the predictor that has not
        seen it.
    fold_sizes : int array of shape (n_folds,)
        :math:`n_q`.
    n_candidates : int
        N: how many were there to choose from, all known before any label of these rows.
    delta : float
        Probability with which the bound may fail.

    Returns
    -------
    bound : float

    References
    ----------
    Theorem 5 of docs/bounds.md.

    Examples
    --------
    >>> from kpp.bounds import folds_kl
    >>> round(folds_kl([0.1, 0.1], [1000, 1000]), 4), round(folds_kl([0.1] * 5, [400] * 5), 4)
    (0.1277, 0.1476)
    """
    means, sizes = _checked(mean_losses, fold_sizes)
    price = price_of(n_candidates, delta)
    n_folds = len(sizes)
    if n_folds <= MOST_ONE_BY_ONE:
        return float(kl_inverse(means, (np.log(n_folds) + price) / sizes).mean())

    def at_slope(slope: float) -> tuple[FloatArray, FloatArray]:
        # n (p - r) = slope p (1 - p)
        half = (sizes - slope) / 2
        root = np.sqrt(half**2 + slope * sizes * means)
        with np.errstate(divide="ignore", invalid="ignore"):
            p = np.where(half > 0, sizes * means / (half + root), (root - half) / slope)
        p = np.clip(p, means, 1.0)
        return p, sizes * binary_kl(means, p)

    return _largest_mean(at_slope, n_folds * (np.log(dependence_factor(n_folds)) + price))


def folds_binomial(
    n_errors: Any, fold_sizes: Any, *, n_candidates: int = 1, delta: float = 0.05
) -> float:
    r"""Bound the mean error rate of the predictors of folds, each of which has not seen its fold.

    .. math::
        \frac1Q \sum_q R_q \le \max \Bigl\{ \frac1Q \sum_q p_q :
        -\frac1Q \sum_q \log F(k_q; n_q, p_q) \le \log \frac{\kappa_Q N}{\delta} \Bigr\},

    F the binomial distribution function: `folds_kl` without Chernoff's bound, which it is never
    above; for losses that are 0 or 1. Of one or two folds each is bounded alone, by
    `held_out_binomial` with :math:`\delta / (QN)`.

    Parameters
    ----------
    n_errors : int array of shape (n_folds,)
        :math:`k_q`: rows of each fold on which the predictor that has not seen it is wrong.
    fold_sizes, n_candidates, delta
        As in `folds_kl`.

    Returns
    -------
    bound : float

    References
    ----------
    Theorem 5 of docs/bounds.md.

    Examples
    --------
    >>> from kpp.bounds import folds_binomial
    >>> round(folds_binomial([100, 100], [1000, 1000]), 4)
    0.1203
    >>> round(folds_binomial([40] * 5, [400] * 5), 4)
    0.1359
    """
    if np.shape(n_errors) != np.shape(fold_sizes) or np.ndim(fold_sizes) != 1:
        raise ValueError(
            "folds_binomial needs a count of errors and a number of rows for each fold; got shapes "
            f"{np.shape(n_errors)} and {np.shape(fold_sizes)}."
        )
    if not len(fold_sizes):
        raise ValueError("folds_binomial needs the errors of at least one fold.")
    k, n = checked_counts(n_errors, fold_sizes)
    price = price_of(n_candidates, delta)
    if len(n) <= MOST_ONE_BY_ONE:
        return float(held_out_binomial(k, n, float(np.exp(-price)) / len(n)).mean())
    budget = len(n) * (np.log(dependence_factor(len(n))) + price)
    return _largest_mean(partial(_binomial_at, k, n), budget)


@cache
def dependence_factor(n_folds: int) -> float:
    r"""How much likelier a large mean of costs is than a large cost, at the most.

    .. math:: \kappa_Q = \min_{u > 0} \frac{e^u - e^{-(Q - 1) u}}{u}

    so that :math:`P(C \ge t) \le \kappa_Q e^{-t}` for the mean C of Q costs with
    :math:`P(c_q \ge s) \le e^{-s}`, however they depend on each other. For exponential costs no
    smaller factor holds (Wang and Wang 2011).

    Parameters
    ----------
    n_folds : int
        Q.

    Returns
    -------
    factor : float
        1 for one fold and 2 for two, then below e, which is the limit.

    References
    ----------
    Theorem 5 of docs/bounds.md.

    Examples
    --------
    >>> from kpp.bounds.folds_kl import dependence_factor
    >>> [round(dependence_factor(q), 3) for q in (1, 2, 3, 5, 10)]
    [1.0, 2.0, 2.524, 2.698, 2.718]
    """
    if n_folds <= MOST_ONE_BY_ONE:
        return float(n_folds)  # where u goes to 0
    # The inequality holds at every u: a minimum that is a little off only costs that.
    u = minimize_scalar(lambda u: _factor_at(u, n_folds), bounds=(1e-3, 2.0), method="bounded").x
    return _factor_at(float(u), n_folds)


def _factor_at(u: float, n_folds: int) -> float:
    return float((np.exp(u) - np.exp(-(n_folds - 1) * u)) / u)


def _binomial_at(k: FloatArray, n: FloatArray, slope: float) -> tuple[FloatArray, FloatArray]:
    """Where the costs have a slope: from above, and the costs there from below."""
    low, high = np.where(k == n, 1.0, 0.0), np.ones(k.shape)
    for _ in range(N_BISECTIONS):
        middle = (low + high) / 2
        inside = tail_slope(k, n, middle) <= slope
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return high, tail_cost(k, n, low)


def _largest_mean(
    at_slope: Callable[[float], tuple[FloatArray, FloatArray]], budget: float
) -> float:
    """Largest mean of p where convex costs of p add up to a budget: all have one slope there.

    `at_slope` gives p and the costs at a slope; both rise with it. At any slope whose costs reach
    the budget the mean of p is at least the one asked for.
    """
    low, high = 1e-3, 1.0
    while at_slope(high)[1].sum() < budget:
        low, high = high, 16 * high
        if high > MOST_SLOPE:  # all rows of all folds are lost, at no cost
            return 1.0
    if at_slope(low)[1].sum() >= budget:
        return float(at_slope(low)[0].mean())
    slope = brentq(lambda own: at_slope(own)[1].sum() - budget, low, high, xtol=1e-15, rtol=1e-12)
    while at_slope(slope)[1].sum() < budget:  # to the upper side
        slope *= 1 + 1e-12
    return float(at_slope(slope)[0].mean())


def price_of(n_candidates: int, delta: float) -> float:
    """Return log(N / delta), what a choice among N and the probability of failing cost."""
    if not isinstance(n_candidates, int | np.integer) or n_candidates < 1:
        raise ValueError(f"n_candidates counts what was chosen among; got {n_candidates!r}.")
    return float(np.log(float(n_candidates)) - np.log(check_delta(delta)))


def _checked(mean_losses: Any, fold_sizes: Any) -> tuple[FloatArray, FloatArray]:
    means = np.asarray(mean_losses, dtype=np.float64)
    sizes = np.asarray(fold_sizes, dtype=np.float64)
    right = means.ndim == 1 and means.shape == sizes.shape and len(means) > 0
    if not right or not (sizes >= 1).all():
        raise ValueError("folds_kl needs a mean loss and at least one row for each fold.")
    if not ((means >= 0) & (means <= 1)).all():
        raise ValueError("folds_kl needs mean losses in [0, 1].")
    return means, sizes
