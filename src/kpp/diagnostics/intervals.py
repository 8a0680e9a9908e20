"""Uncertainty of figures on few rows: Wilson's interval, and resampled rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from kpp._typing import AnyArray, FloatArray

CONFIDENCE = 0.95
N_RESAMPLES = 200
# Where rows are so many, intervals are narrow and fewer draws tell them well enough.
MANY_ROWS, FEW_RESAMPLES = 5000, 60


def wilson(share: float, n: float) -> tuple[float, float]:
    r"""Wilson's score interval of a share of n independent rows.

    .. math::
        \frac{1}{1 + z^2/n} \Bigl( p + \frac{z^2}{2n}
        \pm z \sqrt{\frac{p (1 - p)}{n} + \frac{z^2}{4 n^2}} \Bigr)

    Examples
    --------
    >>> from kpp.diagnostics.intervals import wilson
    >>> low, high = wilson(0.9, 100)
    >>> round(low, 3), round(high, 3)
    (0.826, 0.945)
    """
    z = float(ndtri((1 + CONFIDENCE) / 2))
    middle = share + z**2 / (2 * n)
    reach = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    factor = 1 + z**2 / n
    # Of none or all the end is the share itself, which rounding must not cross.
    low, high = (middle - reach) / factor, (middle + reach) / factor
    return max(0.0, min(float(low), share)), min(1.0, max(float(high), share))


def resampled(
    statistic: Callable[[AnyArray], list[float]], weight: FloatArray, random_state: int
) -> list[tuple[float, float] | None]:
    """Percentile intervals of figures under drawing the rows anew, with replacement.

    Parameters
    ----------
    statistic : callable
        Takes row numbers, returns figures.
    weight : array of shape (n_rows,)
        Weights; draws without any weight are skipped.
    random_state : int
        Seed.

    Returns
    -------
    intervals : list of (float, float) or None
        One per figure; None where a figure is not defined in some draw, or there is one row.
    """
    n_rows = len(weight)
    random = np.random.default_rng(random_state)
    draws = []
    for _ in range(N_RESAMPLES if n_rows <= MANY_ROWS else FEW_RESAMPLES):
        rows = random.integers(0, n_rows, n_rows)
        if weight[rows].any():
            draws.append(statistic(rows))
    figures = np.array(draws, dtype=np.float64)
    tail = (1 - CONFIDENCE) / 2
    found: list[tuple[float, float] | None] = []
    for column in figures.T:
        known = column[np.isfinite(column)]
        # A figure that many draws do not define has no interval.
        if n_rows < 2 or len(known) < 0.9 * len(column):
            found.append(None)
        else:
            low, high = np.quantile(known, [tail, 1 - tail])
            found.append((float(low), float(high)))
    return found
