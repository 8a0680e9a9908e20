r"""Bounds of a mean loss by betting: small where losses vary little.

Somebody who believes that the mean of losses in [0, 1] is p bets, row by row, a share
:math:`\lambda` of what he has on losses that are below it:

.. math:: K(p) = \sum_j \pi_j \prod_i \bigl(1 + \lambda_j (p - X_i)\bigr), \qquad
    0 < \lambda_j \le 1, \quad \sum_j \pi_j = 1

is what becomes of a capital of 1, divided over several shares. Here they are 1, 1/2, 1/4, ..., and
the parts of the capital that bet them are 1/2, 1/4, 1/8, ... (the last two alike, so that they add
up to 1). No factor is negative. If p is the mean, a fair game leaves :math:`E\,K(p) = 1`, and
:math:`P(K(p) \ge 1/\delta) \le \delta`: values of p that would have made one rich are refuted
(Waudby-Smith and Ramdas 2024). Chernoff's bound allows for losses that are 0 or 1, with the
variance of a coin; those of squared errors and of probabilities vary far less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from kpp._typing import FloatArray
from kpp.bounds.folds_kl import price_of
from kpp.bounds.results import check_delta

# Shares of the capital that are bet, and how it is divided over them. Many rows want small ones:
# where V is the variance, the best is about sqrt(2 log(1 / delta) / (n V)).
BETS = 2.0 ** -np.arange(8)
DIVISION = np.array([2.0**-j for j in (1, 2, 3, 4, 5, 6, 7, 7)])
LOG_DIVISION = np.log(DIVISION)
# Above so many rows losses are rounded up, to the next of numbers that grow by this share.
MANY_ROWS, STEP, LEAST = 10_000, 2e-3, 1e-8
# What sums of logarithms may be off by; taken off a capital.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class _Game:
    """The losses of one sample, and what betting on them leaves."""

    values: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, losses: Any) -> _Game:
        values = np.asarray(losses, dtype=np.float64)
        if values.ndim != 1 or len(values) == 0 or not ((values >= 0) & (values <= 1)).all():
            raise ValueError("Betting needs at least one loss, and all losses in [0, 1].")
        if len(values) > MANY_ROWS:
            # A loss that is rounded up is a loss, too, and what bounds its mean bounds this one's.
            place = np.ceil(np.log(np.maximum(values, LEAST)) / np.log1p(STEP) + 1e-9)
            values = np.minimum(np.maximum((1 + STEP) ** place, values), 1.0)
        values, counts = np.unique(values, return_counts=True)
        return cls(values, counts.astype(np.float64))

    def _logs(self, p: float) -> tuple[FloatArray, FloatArray]:
        """Logarithms of the capital of each share, and their derivatives in p."""
        factor = 1 + BETS[:, None] * (p - self.values)
        with np.errstate(divide="ignore"):
            logs = np.log(factor) @ self.counts
            slopes = BETS * ((1 / factor) @ self.counts)
        return LOG_DIVISION + logs, slopes

    def log_capital(self, p: float) -> float:
        """Return log K(p), which rises in p."""
        return _log_sum(self._logs(p)[0]) - ROUNDING

    def log_slope(self, p: float) -> float:
        """Logarithm of the derivative of K, which rises in p as well: K is convex."""
        logs, slopes = self._logs(p)
        return _log_sum(logs + np.log(slopes))

    def where_capital(self, level: float) -> float:
        """The largest p, at most 1, up to which log K stays below a level."""
        if self.log_capital(1.0) <= level:
            return 1.0
        low = float(self.values @ self.counts / self.counts.sum()) * (1 - 1e-9)
        if low <= 0 or self.log_capital(low) > level:
            low = 1e-300  # K is at most 1 below the smallest loss, and levels are above 0
        found = brentq(lambda p: self.log_capital(p) - level, low, 1.0, xtol=1e-15, rtol=1e-12)
        return float(min(1.0, found * (1 + 1e-11)))

    def where_slope(self, level: float, near: float) -> float:
        """Where log K' has a level, within [0, 1], searched for from a place that is near."""
        low = high = near
        while self.log_slope(low) > level:
            high, low = low, low / 1.5
            if low < LEAST:
                return 0.0
        while self.log_slope(high) < level:
            if high == 1.0:
                return 1.0
            low, high = high, min(1.0, high * 1.5)
        if low == high:
            return low
        return float(brentq(lambda p: self.log_slope(p) - level, low, high, rtol=1e-8))


def _log_sum(logs: FloatArray) -> float:
    """Return log of the sum of exponentials; SciPy's takes ten times as long for a few numbers."""
    largest = float(logs.max())
    return largest + float(np.log(np.exp(logs - largest).sum()))


def held_out_betting(losses: Any, delta: float = 0.05) -> float:
    r"""Bound the risk of one predictor that was fixed before the sample was drawn.

    .. math:: R \le \sup \{ p : K(p) < 1 / \delta \}

    Parameters
    ----------
    losses : array of shape (n_rows,)
        Losses of independent rows, in [0, 1].
    delta : float
        Probability with which the bound may fail.

    Returns
    -------
    bound : float
        At most 1.

    References
    ----------
    Theorem 6 of docs/bounds.md; Waudby-Smith and Ramdas 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.bounds import held_out_betting, held_out_kl
    >>> losses = np.full(200, 0.1)  # always the same
    >>> round(held_out_betting(losses), 4), round(float(held_out_kl(0.1, 200)), 4)
    (0.1181, 0.1597)
    """
    return _Game.of(losses).where_capital(-float(np.log(check_delta(delta))))


def folds_betting(losses: Sequence[Any], *, n_candidates: int = 1, delta: float = 0.05) -> float:
    r"""Bound the mean risk of the predictors of folds, each of which has not seen its fold.

    .. math::
        \frac1Q \sum_q R_q \le \max \Bigl\{ \frac1Q \sum_q p_q :
        \frac1Q \sum_q K_q(p_q) \le \frac{N}{\delta} \Bigr\}

    However the folds depend on each other, a mean of capitals whose expectation is 1 has
    expectation 1: nothing is paid for it.

    Parameters
    ----------
    losses : sequence of arrays
        For every fold the losses of its rows, in [0, 1], by the predictor that has not seen it.
    n_candidates : int
        N: how many were there to choose from, all known before any label of these rows.
    delta : float
        Probability with which the bound may fail.

    Returns
    -------
    bound : float

    References
    ----------
    Theorem 6 of docs/bounds.md.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.bounds import folds_betting, folds_kl
    >>> folds = [np.full(200, 0.1), np.full(200, 0.12)]
    >>> round(folds_betting(folds), 4), round(folds_kl([0.1, 0.12], [200, 200]), 4)
    (0.1281, 0.1793)
    """
    level = price_of(n_candidates, delta)
    if not len(losses):
        raise ValueError("folds_betting needs the losses of at least one fold.")
    games = [_Game.of(own) for own in losses]
    alone = [game.where_capital(level) for game in games]
    if len(games) == 1:
        return alone[0]
    # K is convex: a multiplier for the mean of capitals bounds the largest mean of p from above,
    # whichever it is, and the best one is that bound.
    slopes = np.array([game.log_slope(p) for game, p in zip(games, alone, strict=True)])
    middle = float(slopes.mean())

    def upper(log_slope: float) -> float:
        places = [g.where_slope(log_slope, near) for g, near in zip(games, alone, strict=True)]
        capitals = [game.log_capital(p) for game, p in zip(games, places, strict=True)]
        paid = np.mean(np.exp(np.array(capitals) - log_slope))
        # The last number is what the search for a place may be off by.
        return float(np.mean(places) + np.exp(level - log_slope) - paid) + LEAST

    width = 3.0 + float(np.ptp(slopes))
    found = minimize_scalar(
        upper, bounds=(middle - width, middle + width), method="bounded", options={"xatol": 0.01}
    )
    return float(min(1.0, found.fun, upper(middle)))
