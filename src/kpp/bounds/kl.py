r"""The binary relative entropy, its inverse, and the bounds of a fixed predictor that it gives.

.. math::
    \mathrm{kl}(q \,\|\, p) = q \log \frac{q}{p} + (1 - q) \log \frac{1 - q}{1 - p}, \qquad
    \mathrm{kl}^{-1}(q, c) = \sup \{ p : \mathrm{kl}(q \,\|\, p) \le c \}
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import rel_entr

from kpp._typing import FloatArray
from kpp.bounds.results import check_delta

# 2^-60 of the unit interval: below the spacing of doubles near 1.
N_BISECTIONS = 60


def binary_kl(q: Any, p: Any) -> FloatArray:
    r"""Relative entropy of two coins, :math:`\mathrm{kl}(q \,\|\, p)`.

    Parameters
    ----------
    q, p : float or arrays that broadcast
        Probabilities.

    Returns
    -------
    divergence : array
        Infinite where p is 0 or 1 and q is not.

    Examples
    --------
    >>> from kpp.bounds import binary_kl
    >>> round(float(binary_kl(0.1, 0.3)), 4)
    0.1163
    """
    q, p = np.asarray(q, dtype=np.float64), np.asarray(p, dtype=np.float64)
    return rel_entr(q, p) + rel_entr(1 - q, 1 - p)


def kl_inverse(q: Any, c: Any) -> FloatArray:
    r"""Largest p with :math:`\mathrm{kl}(q \,\|\, p) \le c`.

    Found by bisection; the upper end of the last interval is returned, so rounding makes a bound
    larger, never smaller.

    Parameters
    ----------
    q : float or array
        Empirical mean of losses in [0, 1].
    c : float or array that broadcasts with q
        Budget, nonnegative; infinite gives 1.

    Returns
    -------
    p : array

    References
    ----------
    Langford and Seeger 2001, Maurer 2004: the inversion in PAC-Bayes-kl bounds.

    Examples
    --------
    >>> from kpp.bounds import kl_inverse
    >>> round(float(kl_inverse(0.0, 0.1)), 4)  # 1 - exp(-c)
    0.0952
    """
    q, c = np.broadcast_arrays(np.asarray(q, dtype=np.float64), np.asarray(c, dtype=np.float64))
    if not ((q >= 0) & (q <= 1)).all() or (c < 0).any() or np.isnan(c).any():
        raise ValueError("kl_inverse needs q in [0, 1] and c at least 0.")
    # For p >= q, kl(q || p) rises with p: the budget is kept up to one place, and not beyond.
    low, high = np.array(q), np.ones(q.shape)
    for _ in range(N_BISECTIONS):
        middle = (low + high) / 2
        inside = binary_kl(q, middle) <= c
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return high


def held_out_kl(mean_loss: Any, n_rows: int, delta: float = 0.05) -> FloatArray:
    r"""Bound the risk of one predictor that was fixed before the sample was drawn.

    .. math:: R \le \mathrm{kl}^{-1}\bigl(\hat R,\; \log(1/\delta) / n\bigr)

    Chernoff's bound for independent losses in [0, 1].

    Parameters
    ----------
    mean_loss : float or array
        :math:`\hat R`, mean of losses in [0, 1].
    n_rows : int
        n.
    delta : float
        Probability with which the bound may fail.

    Returns
    -------
    bound : array

    Examples
    --------
    >>> from kpp.bounds import held_out_kl
    >>> round(float(held_out_kl(0.05, 500)), 4)
    0.0775
    """
    if n_rows < 1:
        raise ValueError(f"A held-out bound needs at least one row; got {n_rows}.")
    return kl_inverse(mean_loss, np.log(1 / check_delta(delta)) / n_rows)


def smallest_rows(
    risk: float, level: float, *, delta: float = 0.05, most: int = 10**9
) -> int | None:
    r"""Smallest n at which the kl bound of a fixed predictor falls below a level.

    .. math:: \min \bigl\{ n : \mathrm{kl}^{-1}\bigl(\hat R,\; \log(1 / \delta) / n\bigr)
        < \text{level} \bigr\}

    Parameters
    ----------
    risk : float
        :math:`\hat R` in [0, 1].
    level : float
        In [0, 1].
    delta : float
        Probability with which the bound may fail.
    most : int
        Where to stop looking.

    Returns
    -------
    n_rows : int or None
        None if even `most` rows do not suffice: the risk itself is not below the level.

    Examples
    --------
    >>> from kpp.bounds import smallest_rows
    >>> smallest_rows(0.1, 0.2)
    82
    """
    check_delta(delta)

    def succeeds(n: int) -> bool:
        return bool(kl_inverse(risk, np.log(1 / delta) / n) < level)

    if not succeeds(most):
        return None
    # The bound falls as n grows, so halving finds the first n that succeeds.
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if succeeds(middle) else (middle, high)
    return high
