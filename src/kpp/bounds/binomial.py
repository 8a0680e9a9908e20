r"""The tail of a binomial count, and the bound of an error rate that it gives.

.. math:: F(k; n, p) = \sum_{j \le k} \binom{n}{j} p^j (1 - p)^{n - j}

A loss that is 0 or 1 has a count of errors, whose law is known but for p: nothing is lost to
Chernoff's bound, which holds for every loss in [0, 1].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import bdtr, betaln, xlog1py, xlogy

from kpp._typing import FloatArray
from kpp.bounds.kl import N_BISECTIONS
from kpp.bounds.results import check_delta


def held_out_binomial(n_errors: Any, n_rows: Any, delta: float = 0.05) -> FloatArray:
    r"""Bound the error rate of one predictor that was fixed before the sample was drawn.

    .. math:: R \le \max \{ p : F(k; n, p) \ge \delta \}

    The upper limit of Clopper and Pearson, one-sided. It is never above `held_out_kl` of the same
    errors. Found by bisection; the upper end of the last interval is returned.

    Parameters
    ----------
    n_errors : int or array
        k.
    n_rows : int or array that broadcasts with n_errors
        n.
    delta : float
        Probability with which the bound may fail.

    Returns
    -------
    bound : array

    References
    ----------
    Clopper and Pearson 1934; Langford 2005, Tutorial on practical prediction theory, for its use.

    Examples
    --------
    >>> from kpp.bounds import held_out_binomial, held_out_kl
    >>> round(float(held_out_binomial(25, 500)), 4), round(float(held_out_kl(0.05, 500)), 4)
    (0.0691, 0.0775)
    """
    level = check_delta(delta)
    k, n = checked_counts(n_errors, n_rows)
    low, high = k / n, np.ones(k.shape)
    for _ in range(N_BISECTIONS):
        middle = (low + high) / 2
        inside = _tail(k, n, middle) >= level
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return high


def tail_cost(k: FloatArray, n: FloatArray, p: FloatArray) -> FloatArray:
    r""":math:`-\log F(k; n, p)`; convex in p, since F is the tail of a beta law.

    Parameters
    ----------
    k, n, p : arrays of one shape
        Errors, rows and probabilities.

    Returns
    -------
    cost : array
        0 where all rows are errors.
    """
    with np.errstate(divide="ignore"):
        return np.where(k == n, 0.0, -np.log(_tail(k, n, p)))


def tail_slope(k: FloatArray, n: FloatArray, p: FloatArray) -> FloatArray:
    r"""Derivative of `tail_cost` in p: :math:`n \binom{n-1}{k} p^k (1-p)^{n-k-1} / F(k; n, p)`."""
    rest = np.maximum(n - k, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        density = np.exp(xlogy(k, p) + xlog1py(rest - 1, -p) - betaln(k + 1, rest))
        slope = density / _tail(k, n, p)
    # Beyond what a double holds both are 0; the slope has no limit there.
    return np.where(k == n, 0.0, np.where(np.isnan(slope), np.inf, slope))


def _tail(k: FloatArray, n: FloatArray, p: FloatArray) -> FloatArray:
    tail: FloatArray = bdtr(k, n.astype(np.int64), p)
    return tail


def checked_counts(n_errors: Any, n_rows: Any) -> tuple[FloatArray, FloatArray]:
    """Errors and rows as arrays of one shape; refuses what are no counts."""
    errors, rows = np.asarray(n_errors), np.asarray(n_rows)
    k, n = np.broadcast_arrays(errors.astype(np.float64), rows.astype(np.float64))
    if not ((k == np.round(k)) & (n == np.round(n)) & (k >= 0) & (k <= n) & (n >= 1)).all():
        raise ValueError(
            "A binomial bound needs counts: at least one row, and errors from 0 to that many."
        )
    return k, n
